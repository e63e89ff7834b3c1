use kit::openmetrics::{samples, value};

use super::*;
use crate::top::text::tests::vm;
use vmbell_top::model::Reason;

fn metrics(path: PathBuf) -> Metrics {
    Metrics::new(path).unwrap()
}

fn text(metrics: &mut Metrics, vms: &[Vm]) -> String {
    let command = TopMetrics {
        sources: vec!["bpf"],
        lost: Some(3),
        ..TopMetrics::default()
    };
    metrics.text(vms, &command)
}

/// The text for these VMs.
fn written(vms: &[Vm]) -> String {
    let folder = tempfile::tempdir().unwrap();
    text(&mut metrics(folder.path().join("a.prom")), vms)
}

/// A VM with these exits at ports from 0 up.
fn with_ports(exits: &[u64]) -> Vm {
    let mut vm = vm();
    let port = vm.addresses[1].clone();
    let each = exits.iter().zip(0..).map(|(exits, address)| {
        let mut port = port.clone();
        (port.address, port.to_vmm) = (address, *exits);
        port
    });
    vm.addresses = each.collect();
    vm.addresses
        .sort_by_key(|address| std::cmp::Reverse(address.to_vmm));
    vm
}

#[test]
fn a_vm_has_its_totals_and_what_is_not_counted_has_no_sample() {
    let samples = samples(&written(&[vm()]));
    let labels = r#"{pid="4711",fd="9",vmm="qemu",name="web-server-1"}"#;
    assert_eq!(
        samples[&format!("vmbell_vm_exits_total{labels}")],
        620_000.0
    );
    assert_eq!(
        samples[&format!("vmbell_vm_exits_to_vmm_total{labels}")],
        424_000.0
    );
    assert_eq!(samples[&format!("vmbell_vm_vcpus{labels}")], 2.0);
    assert_eq!(
        value(
            &samples,
            "vmbell_vm_other_exits_to_vmm_total",
            "reason=\"hlt\""
        ),
        Some(1.0)
    );
    let doorbell = r#"space="mmio",address="0xfebf1000""#;
    assert_eq!(
        value(&samples, "vmbell_vm_address_ioeventfds_total", doorbell),
        Some(6200.0)
    );
    // Irqfds are not counted here, and there is no address for `other`.
    assert_eq!(value(&samples, "vmbell_vm_irqfds", ""), None);
    assert_eq!(value(&samples, "vmbell_vm_address", "other"), None);
    assert_eq!(samples["vmbell_top_source_used{source=\"counters\"}"], 0.0);
    assert_eq!(samples["vmbell_top_lost_events_total"], 3.0);
}

#[test]
fn exits_by_reason_have_a_series_for_each_vcpu() {
    let reason = Reason {
        name: "npf".to_owned(),
        by_vcpu: [(0, 40), (1, 50)].into(),
    };
    let vm = Vm {
        exits: vec![reason],
        ..vm()
    };
    let samples = samples(&written(&[vm]));
    for (vcpu, expected) in [(0, 40.0), (1, 50.0)] {
        let labels = format!(
            r#"{{pid="4711",fd="9",vmm="qemu",name="web-server-1",vcpu="{vcpu}",reason="npf"}}"#
        );
        assert_eq!(
            samples[&format!("vmbell_vm_exits_by_reason_total{labels}")],
            expected
        );
    }
}

#[test]
fn one_address_more_than_have_a_series_is_other() {
    let exits: Vec<u64> = (1..=11).collect();
    let samples = samples(&written(&[with_ports(&exits)]));
    let family = "vmbell_vm_address_exits_to_vmm_total";
    assert_eq!(
        samples
            .keys()
            .filter(|name| name.starts_with(family))
            .count(),
        11
    );
    assert_eq!(value(&samples, family, "address=\"other\""), Some(1.0));
    assert_eq!(value(&samples, family, "address=\"0x0\""), None);
    assert_eq!(value(&samples, family, "address=\"0xa\""), Some(11.0));
}

#[test]
fn no_total_decreases_when_other_addresses_become_the_most_frequent_ones() {
    let folder = tempfile::tempdir().unwrap();
    let mut metrics = metrics(folder.path().join("a.prom"));
    let mut exits: Vec<u64> = (1..=14).map(|port| port * 10).collect();
    let mut before = BTreeMap::new();
    for round in 0..20_u64 {
        // In each round, another port is the busiest.
        let busy = usize::try_from(round * 5 % 14).unwrap();
        exits[busy] += 200 * (round + 1);
        let samples = samples(&text(&mut metrics, &[with_ports(&exits)]));
        for (name, value) in &samples {
            let earlier = before.get(name).copied().unwrap_or(0.0);
            assert!(*value >= earlier, "{name}: {earlier}, {value}");
        }
        before.extend(samples);
    }
    // The addresses, with or without a series now, and `other` together have all counts.
    let family = "vmbell_vm_address_exits_to_vmm_total";
    let sum: f64 = before
        .iter()
        .filter(|(name, _)| name.starts_with(family))
        .map(|(_, value)| value)
        .sum();
    assert_eq!(
        sum,
        exits
            .iter()
            .map(|exits| f64::from(u32::try_from(*exits).unwrap()))
            .sum::<f64>()
    );
}

#[test]
fn a_name_with_quotes_and_lines_is_escaped() {
    let mut vm = vm();
    vm.name = Some("a \"b\" \\ c\nd".to_owned());
    let text = written(&[vm]);
    assert!(text.contains(r#"name="a \"b\" \\ c\nd""#), "{text}");
    let _ = samples(&text);
}

#[test]
fn vms_of_one_process_have_series_of_their_own() {
    let unknown = Vm { fd: None, ..vm() };
    let vms = [
        unknown.clone(),
        unknown,
        Vm {
            fd: Some(4),
            ..vm()
        },
    ];
    let samples = samples(&written(&vms));
    let exits = samples
        .keys()
        .filter(|name| name.starts_with("vmbell_vm_exits_total"));
    assert_eq!(exits.count(), 3);
}

#[test]
fn the_file_is_replaced_as_a_whole_and_a_bad_path_is_found_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.prom");
    let mut metrics = metrics(path.clone());
    assert!(!path.exists());
    for _ in 0..2 {
        metrics.write(&[vm()], &TopMetrics::default()).unwrap();
        assert!(std::fs::read_to_string(&path).unwrap().ends_with("# EOF\n"));
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }
    assert!(Metrics::new(folder.path().join("none/a.prom")).is_err());
}

#[test]
fn what_is_not_counted_at_addresses_has_no_sample() {
    let mut vm = vm();
    vm.counts.remove(&Metric::Rings);
    let samples = samples(&written(&[vm]));
    let value = |name| value(&samples, name, "pid");
    assert!(value("vmbell_vm_address_exits_to_vmm_total").is_some());
    assert_eq!(value("vmbell_vm_address_ioeventfds_total"), None);
}
