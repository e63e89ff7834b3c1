use std::fs;
use std::path::Path;

use super::*;

/// Triggers in a folder that is like tracefs, whose files `trigger` keep what is written.
fn triggers(folder: &Path, isa: Option<Isa>) -> Triggers {
    let instance = Instance::of_name(folder, "vmbell-top-91-1073").unwrap();
    fs::write(folder.join("synthetic_events"), "").unwrap();
    let synthetic = [MMIO, PORT].map(|what| format!("synthetic/{}", instance.synthetic(what)));
    for event in [
        USERSPACE_EXIT,
        ACCESS,
        EXIT,
        EOI,
        PV_EOI,
        &*synthetic[0],
        &*synthetic[1],
    ] {
        let folder = events(folder).join(event);
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("trigger"), "").unwrap();
        fs::write(folder.join("hist"), "").unwrap();
    }
    Triggers::new(instance, isa)
}

fn events(folder: &Path) -> std::path::PathBuf {
    folder.join("instances/vmbell-top-91-1073/events")
}

fn counts(folder: &Path, hists: &[(&str, &str, &str)]) -> Traced {
    let triggers = triggers(folder, Some(Isa::Svm));
    let mut texts: HashMap<&str, String> = HashMap::new();
    for (event, trigger, entries) in hists {
        let text = texts.entry(*event).or_default();
        *text += &format!(
            "# trigger info: {trigger} [active]\n#\n\n{entries}\n\nTotals:\n    Dropped: 2\n\n\n"
        );
    }
    for (event, text) in texts {
        fs::write(events(folder).join(event).join("hist"), text).unwrap();
    }
    triggers.read().unwrap()
}

#[test]
fn an_exit_has_its_address_and_those_without_one_are_the_rest() {
    let folder = tempfile::tempdir().unwrap();
    let traced = counts(
        folder.path(),
        &[
            (
                USERSPACE_EXIT,
                "hist:keys=common_pid:onmatch(kvm.kvm_mmio).trace(vmbell_top_91_1073_mmio,$a0,$l0,$t0) if reason == 6",
                "{ common_pid: 176 } hitcount: 607",
            ),
            (
                USERSPACE_EXIT,
                "hist:keys=common_pid:onmatch(kvm.kvm_exit).trace(vmbell_top_91_1073_port,$i0) if reason == 2",
                "{ common_pid: 169 } hitcount: 591",
            ),
            (
                USERSPACE_EXIT,
                "hist:keys=common_pid,reason,errno if (reason != 6 && reason != 2) || errno < 0",
                "{ common_pid: 169, reason: 10, errno: 18446744073709551612 } hitcount: 1\n{ common_pid: 169, reason: 5, errno: 0 } hitcount: 9",
            ),
            (
                "synthetic/vmbell_top_91_1073_mmio",
                "hist:keys=common_pid,gpa,len if type == 2",
                "{ common_pid: 176, gpa: 3489661008, len: 4 } hitcount: 600",
            ),
            (
                "synthetic/vmbell_top_91_1073_mmio",
                "hist:keys=common_pid,gpa,len if type == 0",
                "{ common_pid: 176, gpa: 3489661036, len: 1 } hitcount: 5",
            ),
            (
                "synthetic/vmbell_top_91_1073_port",
                "hist:keys=common_pid,info",
                "{ common_pid: 169, info: 185008144 } hitcount: 592",
            ),
            (
                ACCESS,
                "hist:keys=common_pid:a0=gpa",
                "{ common_pid: 176 } hitcount: 3000",
            ),
        ],
    );
    let event = |thread, kind, address, is_write, size| ThreadEvent {
        thread,
        vcpu: None,
        kind,
        address,
        is_write,
        size,
    };
    let expected = HashMap::from([
        (event(176, Kind::Mmio, 0xd000_0050, true, 4), 600),
        (event(176, Kind::Mmio, 0xd000_006c, false, 1), 5),
        (event(176, Kind::Other, 6, false, 0), 2),
        (event(169, Kind::Port, 0xb07, true, 1), 592),
        // One more came before its address was read.
        (event(169, Kind::Other, 2, false, 0), 0),
        (event(169, Kind::Failed, 0xffff_fffc, false, 0), 1),
        (event(169, Kind::Other, 5, false, 0), 9),
    ]);
    assert_eq!(traced.counts, expected);
    assert_eq!(traced.lost, 14);
}

#[test]
fn the_cpu_of_an_exit_and_its_reason_are_told() {
    let folder = tempfile::tempdir().unwrap();
    let reasons = "hist:keys=common_pid,exit_reason,vcpu_id";
    let traced = counts(
        folder.path(),
        &[
            (
                EXIT,
                "hist:keys=common_pid:i0=info1 if exit_reason == 123",
                "{ common_pid: 176 } hitcount: 67",
            ),
            (
                EXIT,
                reasons,
                "{ common_pid: 176, exit_reason: 1024, vcpu_id: 3 } hitcount: 610",
            ),
        ],
    );
    let npf = ThreadEvent {
        thread: 176,
        vcpu: Some(3),
        kind: Kind::Exit,
        address: 0x400,
        is_write: false,
        size: 0,
    };
    assert_eq!(traced.counts, HashMap::from([(npf, 610)]));
}

#[test]
fn both_cpus_tell_the_port_the_direction_and_the_size() {
    // By the first word of AMD's IOIO intercept and by Intel's exit qualification for I/O instructions.
    for (isa, info, expected) in [
        (Isa::Svm, 185_008_144, (0xb07, true, 1)),
        (Isa::Svm, 15_990_848, (0xf4, true, 4)),
        (Isa::Svm, 0x0060_0021, (0x60, false, 2)),
        (Isa::Vmx, 0x0cf8_0003, (0xcf8, true, 4)),
        (Isa::Vmx, 0x0060_0008, (0x60, false, 1)),
    ] {
        assert_eq!(port(isa, info), expected, "{isa:?} {info:#x}");
    }
}

#[test]
fn triggers_of_some_threads_have_them_in_all_their_conditions() {
    let folder = tempfile::tempdir().unwrap();
    let mut triggers = triggers(folder.path(), Some(Isa::Vmx));
    let threads = BTreeSet::from([7, 8, 9, 12]);
    for metric in [Metric::ToVmm, Metric::Eois, Metric::PvEois, Metric::Exits] {
        triggers.add(metric, Some(&threads)).unwrap();
    }
    let only = "((common_pid >= 7 && common_pid <= 9) || common_pid == 12)";
    let mut count = 0;
    for event in [USERSPACE_EXIT, ACCESS, EXIT, EOI, PV_EOI] {
        let text = fs::read_to_string(events(folder.path()).join(event).join("trigger")).unwrap();
        for trigger in text.split("hist:").skip(1) {
            let (_, condition) = trigger.split_once(" if ").unwrap();
            let condition = condition.trim_end();
            assert!(
                condition.ends_with(only.trim_matches(['(', ')'])) || condition.ends_with(only),
                "{trigger}"
            );
            count += 1;
        }
    }
    assert_eq!(count, 8);
}

#[test]
fn a_metric_that_tracepoints_do_not_tell_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let mut triggers = triggers(folder.path(), None);
    let error = triggers.add(Metric::Rings, None).unwrap_err();
    assert_eq!(error.to_string(), "ioeventfds cannot be counted by tracefs");
    assert!(!super::super::tells(Metric::Rings));
}

#[test]
fn a_kernel_without_an_option_or_a_tracepoint_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let mut triggers = triggers(folder.path(), None);
    let path = |name: &str| events(folder.path()).join(name);
    fs::remove_file(path("kvm/kvm_eoi/hist")).unwrap();
    let error = triggers.add(Metric::Eois, None).unwrap_err().to_string();
    assert_eq!(error, "this kernel lacks CONFIG_HIST_TRIGGERS");
    fs::remove_dir_all(path("kvm/kvm_pv_eoi")).unwrap();
    let error = triggers.add(Metric::PvEois, None).unwrap_err().to_string();
    assert_eq!(
        error,
        "this kernel has no tracepoint kvm/kvm_pv_eoi (is kvm loaded?)"
    );
    fs::remove_file(folder.path().join("synthetic_events")).unwrap();
    let error = triggers.prepare(Metric::ToVmm).unwrap_err().to_string();
    assert_eq!(error, "this kernel lacks CONFIG_SYNTH_EVENTS");
}
