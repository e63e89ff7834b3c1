//! Tests of what forbids a comparison.

use super::*;
use crate::{Timing, sample};

fn found(change: impl Fn(&mut Report)) -> Vec<(String, bool)> {
    let mut new = sample::report();
    change(&mut new);
    let found = differences(&[sample::report()], &[new], false);
    found
        .into_iter()
        .map(|one| (one.to_string(), one.refused))
        .collect()
}

#[test]
fn equal_reports_differ_in_nothing() {
    assert_eq!(found(|_| {}), []);
}

#[test]
fn another_cpu_unit_policy_or_mode_is_refused() {
    let refused = found(|new| {
        new.host.cpu = "Other CPU".to_owned();
        new.timing = Timing::Instructions;
        new.backends[0].emulates_kernel_mode = true;
        for row in &mut new.results {
            row.setting.spin = Some("spin".to_owned());
        }
    });
    let expected = [
        "CPU: Example(R) CPU @ 2.50GHz before, Other CPU now",
        "guest's kernel mode on usermode: run by the CPU before, emulated now",
        "spin policy of usermode: sleep before, spin now",
        "unit: native before, instructions now",
    ];
    assert_eq!(refused, expected.map(|text| (text.to_owned(), true)));
}

#[test]
fn another_kernel_microcode_or_version_is_shown() {
    let shown = found(|new| {
        new.host.kernel = "Linux 6.19.0".to_owned();
        new.host.microcode = None;
        new.tool.version = "0.2.0".to_owned();
    });
    let expected = [
        "kernel: Linux 6.18.0 before, Linux 6.19.0 now",
        "microcode: 0x1 before, none or unknown now",
        "version: 0.1.0 (0123456789ab) before, 0.2.0 (0123456789ab) now",
    ];
    assert_eq!(shown, expected.map(|text| (text.to_owned(), false)));
}

#[test]
fn the_parameters_of_kvm_that_only_one_side_has_are_one_line() {
    let with = |parameters: &[(&str, &str)]| {
        let mut report = sample::report();
        let named = parameters.iter();
        let named = named.map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        report.host.kvm_params = named.collect();
        [report]
    };
    let found = |old: &[(&str, &str)], new: &[(&str, &str)]| -> Vec<String> {
        let found = differences(&with(old), &with(new), false);
        found.iter().map(ToString::to_string).collect()
    };
    let old = [("kvm.a", "1"), ("kvm.b", "1"), ("kvm.both", "0")];
    let only = "KVM's parameters that only one side has: kvm.a and kvm.b before, ";
    let new = [("kvm.both", "1"), ("kvm_amd.c", "1")];
    let expected = [
        "KVM's parameter kvm.both: 0 before, 1 now".to_owned(),
        format!("{only}kvm_amd.c now"),
    ];
    assert_eq!(found(&old, &new), expected);
    assert_eq!(found(&old, &old[2..]), [format!("{only}none now")]);
}

#[test]
fn values_with_commas_are_quoted() {
    let shown = found(|new| new.host.kernel = "Linux 6.19.0, patched; yes".to_owned());
    let expected = "kernel: 'Linux 6.18.0' before, 'Linux 6.19.0, patched; yes' now";
    assert_eq!(shown, [(expected.to_owned(), false)]);
}

#[test]
fn other_work_is_refused_and_another_smt_is_shown() {
    let mut others = [sample::rings(), sample::report()];
    let crate::Kind::Rings { work } = &mut others[0].kind else {
        panic!("{:?}", others[0].kind);
    };
    work.text = "900 buffers a run".to_owned();
    others[1].host.smt = Some(true);
    let expected = [
        (
            "work: 500 buffers a run (buffer) before, 900 buffers a run (buffer) now",
            true,
        ),
        ("SMT: off before, on now", false),
    ];
    for ((old, new), expected) in [sample::rings(), sample::report()]
        .into_iter()
        .zip(others)
        .zip(expected)
    {
        let found = differences(&[old], &[new], false);
        let found: Vec<_> = found
            .iter()
            .map(|one| (one.to_string(), one.refused))
            .collect();
        assert_eq!(found, [(expected.0.to_owned(), expected.1)]);
    }
}

#[test]
fn a_version_that_is_not_known_is_shown_or_if_versions_count_left_out() {
    let of = |version: Option<&str>| {
        let mut vmm = sample::vmm("a", 1, false);
        vmm.version = version.map(str::to_owned);
        [sample::of_vmms(vec![vmm], vec![])]
    };
    for (old, new, is_exact, expected) in [
        (
            Some("1"),
            Some("2"),
            false,
            Some(("version of a: 1 before, 2 now", false)),
        ),
        (
            Some("1"),
            Some("2"),
            true,
            Some(("version of a: 1 before, 2 now", true)),
        ),
        (
            Some("1"),
            None,
            false,
            Some(("version of a: 1 before, unknown now", false)),
        ),
        (Some("1"), None, true, None),
        (None, Some("2"), true, None),
        (None, None, true, None),
    ] {
        let found = differences(&of(old), &of(new), is_exact);
        let found: Vec<_> = found
            .iter()
            .map(|one| (one.to_string(), one.refused))
            .collect();
        let expected: Vec<_> = expected
            .iter()
            .map(|(text, refused)| ((*text).to_owned(), *refused))
            .collect();
        assert_eq!(found, expected, "{old:?} {new:?}");
    }
}

#[test]
fn a_row_that_always_spins_has_no_other_policy() {
    let mut report = sample::report();
    for row in &mut report.results {
        if row.command.ends_with("+spin") {
            row.setting.spin = Some("spin".to_owned());
        }
    }
    assert_eq!(spins(&report)["usermode"], "sleep");
}

#[test]
fn reports_of_one_side_that_differ_are_found_too() {
    let mut other = sample::report();
    other.host.cpu = "Other CPU".to_owned();
    let mixed = [sample::report(), other];
    let found = differences(&mixed, &mixed, false);
    assert_eq!(
        found[0].to_string(),
        "CPU: Example(R) CPU @ 2.50GHz and Other CPU on both sides"
    );
}
