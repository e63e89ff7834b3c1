//! What tables show only if it is asked for: the VMM's time, accesses that KVM answers, costs and advice.

use std::fmt::Write;

use super::text::rate;
use vmbell_top::advice;
use vmbell_top::bpf::Metric;
use vmbell_top::costs::Costs;
use vmbell_top::model::{Address, Vm};
use vmbell_top::rates::per_second;

/// Titles of the columns of an address. All VMs have the same ones.
pub(super) fn titles(vm: &Vm, has_costs: bool) -> String {
    let mut out = String::new();
    if vm.counts.contains_key(&Metric::VmmTime) {
        let _ = write!(out, " {:>7} {:>8}", "US/EXIT", "VMM CORE");
    }
    if vm.counts.contains_key(&Metric::ByKvm) {
        let _ = write!(out, " {:>7}", "KVM/s");
    }
    if has_costs {
        let _ = write!(out, " {:>6}", "CORE");
    }
    out
}

/// These columns of an address.
pub(super) fn cells(vm: &Vm, address: &Address, costs: Option<&Costs>, seconds: f64) -> String {
    let mut out = String::new();
    if vm.counts.contains_key(&Metric::VmmTime) {
        let time = per_second(address.vmm_time, 1.0);
        let each = match address.to_vmm {
            0 => "-".to_owned(),
            exits => format!("{:.1}", time / per_second(exits, 1.0) / 1e3),
        };
        let cores = per_second(address.vmm_time, seconds) / 1e9;
        let _ = write!(out, " {each:>7} {cores:>8.3}");
    }
    if vm.counts.contains_key(&Metric::ByKvm) {
        let _ = write!(out, " {:>7}", rate(Some(address.by_kvm), seconds));
    }
    if let Some(costs) = costs {
        let cores = costs.cores(address, seconds);
        let cores = cores.map_or("-".to_owned(), |cores| format!("{cores:.3}"));
        let _ = write!(out, " {cores:>6}");
    }
    out
}

/// What would cost less: a line each, which begins with `!`.
pub(super) fn advice(vms: &[Vm], costs: Option<&Costs>, seconds: f64) -> String {
    let all = costs.map(|costs| advice::advice(vms, costs, seconds));
    let mut out = String::new();
    for advice in all.into_iter().flatten() {
        let _ = writeln!(out, "!{:>6} {}", advice.pid, advice.text);
    }
    if out.is_empty() {
        return out;
    }
    format!("\n{:>7} WHAT WOULD COST LESS\n", "PID") + &out
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use vmbell_top::model::Space;

    fn address() -> Address {
        Address {
            space: Space::Port,
            address: 0x608,
            to_vmm: 200,
            vmm_time: 3_000_000,
            rings: 0,
            by_kvm: 40,
            accesses: BTreeSet::new(),
            eventfds: Vec::new(),
            name: None,
        }
    }

    fn vm(metrics: &[Metric]) -> Vm {
        Vm {
            pid: 4711,
            counts: metrics.iter().map(|metric| (*metric, 0)).collect(),
            ..Vm::default()
        }
    }

    #[test]
    fn columns_are_there_only_if_they_are_counted() {
        let none = vm(&[Metric::ToVmm]);
        let cells = |vm, costs| cells(vm, &address(), costs, 2.0);
        assert_eq!(titles(&none, false) + &cells(&none, None), "");
        let all = vm(&[Metric::VmmTime, Metric::ByKvm]);
        assert_eq!(titles(&all, true), " US/EXIT VMM CORE   KVM/s   CORE");
        let rows = [
            ("portio-no-eventfd", 300_000.0),
            ("outl_to_kernel", 100_000.0),
        ];
        let costs = Costs::new(rows.map(|(name, time)| (name.to_owned(), time)));
        // 100 exits, and 20 accesses that KVM answered, in a second.
        assert_eq!(
            cells(&all, Some(&costs)),
            "    15.0    0.002      20  0.032"
        );
        assert_eq!(cells(&none, Some(&Costs::default())), "      -");
    }

    #[test]
    fn an_address_without_exits_has_no_time_of_one() {
        let address = Address {
            to_vmm: 0,
            vmm_time: 0,
            ..address()
        };
        let vm = vm(&[Metric::VmmTime]);
        assert_eq!(cells(&vm, &address, None, 1.0), "       -    0.000");
    }

    #[test]
    fn advice_begins_with_an_exclamation_mark() {
        let vm = Vm {
            counts: [(Metric::Messages, 10_000), (Metric::Irqfds, 0)].into(),
            ..vm(&[])
        };
        let rows = [
            ("msi-to-running", 5000.0),
            ("irqfd-edge-to-running", 3000.0),
        ];
        let costs = Costs::new(rows.map(|(name, time)| (name.to_owned(), time)));
        let none = Costs::default();
        let advice = |costs| super::advice(std::slice::from_ref(&vm), costs, 1.0);
        let begin =
            "\n    PID WHAT WOULD COST LESS\n!  4711 10000 MSIs by KVM_SIGNAL_MSI a second, ";
        assert!(advice(Some(&costs)).starts_with(begin));
        assert_eq!(advice(Some(&none)), "");
        assert_eq!(advice(None), "");
    }
}
