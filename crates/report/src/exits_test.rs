//! Tests of what counts as an exit.

use super::*;

fn run(operations: f64, total: u64, userspace: u64) -> ExitsOfRun {
    ExitsOfRun {
        operations,
        total: Some(total),
        userspace: Some(userspace),
    }
}

#[test]
fn exits_are_the_median_over_runs_per_operation() {
    let exits = Exits::of(&[run(10.0, 20, 10), run(10.0, 21, 10), run(10.0, 900, 600)]);
    let expected = Exits {
        total: Some(2.1),
        userspace: Some(1.0),
    };
    assert_eq!(exits, Some(expected));
    assert_eq!(expected.light(), Some(1.1));
}

#[test]
fn exits_that_one_run_did_not_count_are_unknown() {
    let uncounted = ExitsOfRun {
        total: None,
        ..run(10.0, 0, 5)
    };
    let exits = Exits::of(&[run(10.0, 10, 5), uncounted]).unwrap();
    assert_eq!((exits.total, exits.userspace), (None, Some(0.5)));
    assert_eq!(exits.light(), None);
    assert_eq!(Exits::of(&[ExitsOfRun::default()]), None);
    assert_eq!(Exits::of(&[]), None);
}

#[test]
fn exits_for_the_host_and_returns_for_signals_are_left_out() {
    let reasons = |pairs: &[(&str, u64)]| -> Reasons {
        let pairs = pairs.iter();
        pairs
            .map(|(reason, count)| ((*reason).to_owned(), *count))
            .collect()
    };
    let of_run = ReasonsOfRun {
        exits: reasons(&[
            ("IO_INSTRUCTION", 4),
            ("EXTERNAL_INTERRUPT", 7),
            ("vintr", 1),
            ("nmi", 2),
        ]),
        userspace: reasons(&[("KVM_EXIT_IO", 3), ("restart", 5)]),
    };
    assert_eq!(of_run.caused(2.0), run(2.0, 4, 3));
    let all = ExitReasons::of(&[(&of_run, 2.0), (&ReasonsOfRun::default(), 2.0)]);
    assert_eq!(all.kvm_exit["EXTERNAL_INTERRUPT"], 1.75);
    assert_eq!(all.kvm_userspace_exit["restart"], 1.25);
}

#[test]
fn events_that_count_exits_for_the_host_are_known_by_name() {
    for event in [
        "kvm:kvm_exit:EXTERNAL_INTERRUPT",
        "kvm:kvm_exit:nmi",
        "irq_exits",
    ] {
        assert!(is_of_host(event), "{event}");
    }
    for event in [
        "kvm:kvm_exit",
        "kvm:kvm_exit:HLT",
        "exits",
        "halt_exits",
        "irq_injections",
    ] {
        assert!(!is_of_host(event), "{event}");
    }
}
