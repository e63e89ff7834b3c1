//! Tests of names and globs.

use super::*;
use crate::SubjectError;

fn entry(group: Group, name: &str) -> BenchEntry {
    BenchEntry::new(group, name, "", |_| Err(SubjectError::Skipped("no".into())))
}

fn catalogue() -> Vec<BenchEntry> {
    vec![
        entry(Group::Scenario, "portio-no-eventfd"),
        entry(Group::Scenario, "portio-wildcard-eventfd"),
        entry(Group::Scenario, "portio-wildcard-eventfd+int3"),
        entry(Group::Scenario, "mmio-no-eventfd"),
        entry(Group::Scenario, "mmio-wildcard-eventfd"),
        entry(Group::Floor, "floor-getppid"),
        entry(Group::Floor, "floor-eventfd-write"),
        entry(Group::Debug, "debug-portio"),
    ]
}

fn names(patterns: &[&str], companions: bool) -> Result<Vec<String>, SelectError> {
    let patterns: Vec<String> = patterns.iter().map(ToString::to_string).collect();
    let wanted = WantedEntries::Named {
        patterns: &patterns,
        companions,
    };
    let selected = select(catalogue(), wanted)?;
    Ok(selected.iter().map(|e| e.name().to_owned()).collect())
}

#[test]
fn all_means_all_but_debug() {
    assert_eq!(select(catalogue(), WantedEntries::All).unwrap().len(), 7);
}

#[test]
fn rows_of_one_name_stand_side_by_side() {
    let on = |backend, names: &[&str]| -> Vec<BenchEntry> {
        let names = names.iter();
        let entries = names.map(|name| entry(Group::Scenario, name).on_backend(backend));
        entries.collect()
    };
    let all = crate::catalogue::all(vec![
        on("kvm", &["a", "c", "k"]),
        on("usermode", &["a", "b", "c"]),
    ]);
    let scenarios = all.iter().filter(|entry| entry.group() == Group::Scenario);
    let order: Vec<_> = scenarios.map(|e| (e.name(), e.backend())).collect();
    let (k, u) = ("kvm", "usermode");
    assert_eq!(
        order,
        [("a", k), ("a", u), ("b", u), ("c", k), ("c", u), ("k", k)]
    );
}

#[test]
fn a_glob_takes_all_that_match_and_no_debug_entry() {
    assert_eq!(
        names(&["*portio*"], false).unwrap(),
        [
            "portio-no-eventfd",
            "portio-wildcard-eventfd",
            "portio-wildcard-eventfd+int3"
        ]
    );
}

#[test]
fn a_scenario_brings_its_device_model_and_the_floors() {
    assert_eq!(
        names(&["mmio-wildcard-eventfd"], true).unwrap(),
        [
            "mmio-no-eventfd",
            "mmio-wildcard-eventfd",
            "floor-getppid",
            "floor-eventfd-write"
        ]
    );
}

#[test]
fn a_floor_comes_alone() {
    assert_eq!(names(&["floor-getppid"], true).unwrap(), ["floor-getppid"]);
}

#[test]
fn a_chosen_reference_comes_along_and_is_compared_with_nothing() {
    let all = set_reference(catalogue(), "floor-eventfd-write").unwrap();
    let wanted = WantedEntries::Named {
        patterns: &["floor-getppid".to_owned()],
        companions: true,
    };
    let chosen = select(all, wanted).unwrap();
    assert_eq!(chosen.len(), 2);
    assert_eq!(chosen[0].reference(), Some("floor-eventfd-write"));
    assert_eq!(chosen[1].name(), "floor-eventfd-write");
    assert_eq!(chosen[1].reference(), None);
}

#[test]
fn an_unknown_reference_is_an_error() {
    let error = set_reference(catalogue(), "floor-getpid").unwrap_err();
    assert!(error.to_string().contains("'floor-getppid'"), "{error}");
}

#[test]
fn a_name_given_twice_runs_once() {
    assert_eq!(
        names(&["floor-*", "floor-getppid"], true).unwrap(),
        ["floor-getppid", "floor-eventfd-write"]
    );
}

#[test]
fn a_debug_entry_needs_its_exact_name() {
    assert_eq!(names(&["debug-portio"], true).unwrap(), ["debug-portio"]);
}

#[test]
fn a_name_is_similar_if_it_is_mistyped_or_begun_and_not_by_a_few_common_letters() {
    for (typed, names, expected) in [
        ("vmss", ["vmms", "net"], Some("vmms")),
        ("rgn", ["rng", "blk"], Some("rng")),
        (
            "portio",
            ["portio-no-eventfd", "net"],
            Some("portio-no-eventfd"),
        ),
        ("vmss", ["vmcall", "ioeventfd-assign-later"], None),
        ("", ["net", "eoi"], None),
    ] {
        assert_eq!(similar(typed, &names), expected, "{typed}");
    }
}

#[test]
fn a_typing_error_names_the_nearest() {
    let error = names(&["floor-eventfd-wriet"], true).unwrap_err();
    assert_eq!(
        error.to_string(),
        "unknown scenario 'floor-eventfd-wriet', did you mean 'floor-eventfd-write'?"
    );
}

#[test]
#[cfg(target_arch = "aarch64")]
fn ports_are_known_to_be_absent() {
    for name in [
        "portio-coalesced",
        "notify-portio-*x",
        "outl_to_kernel",
        "floor-kvm-run-pio",
    ] {
        assert_eq!(names(&[name], true), Err(SelectError::NoPorts(name.into())));
    }
}

#[test]
fn a_name_like_nothing_offers_nothing() {
    let error = names(&["zzz"], true).unwrap_err();
    assert_eq!(error.to_string(), "unknown scenario 'zzz'");
}

#[test]
fn a_glob_without_a_match_is_an_error() {
    assert_eq!(
        names(&["nvme-*"], true),
        Err(SelectError::NoMatch("nvme-*".into()))
    );
}

#[test]
fn globs_backtrack() {
    assert!(picks("*a*b", "xaxbab"));
    assert!(picks("?b*", "ab"));
    assert!(picks("*", ""));
    assert!(picks("**", "x"));
    assert!(!picks("a*b", "abc"));
    assert!(!picks("?", ""));
    assert!(!picks("", "a"));
}

/// The rows of a host, where one row needs a device that the host may lack.
fn with_device(is_ready: fn() -> bool) -> Vec<BenchEntry> {
    let name = "edu";
    let device = NeededDevice { name, is_ready };
    vec![
        entry(Group::Scenario, "passthrough-msi-irqfd").with_device(device),
        entry(Group::Scenario, "msi-to-running"),
    ]
}

#[test]
fn all_leaves_out_what_needs_a_device_that_is_not_here() {
    let count = |all| select(all, WantedEntries::All).unwrap().len();
    assert_eq!(count(with_device(|| false)), 1);
    assert_eq!(count(with_device(|| true)), 2);
}

#[test]
fn a_name_selects_what_needs_a_device_so_that_it_is_skipped_with_the_reason() {
    for pattern in ["passthrough-msi-irqfd", "passthrough-*"] {
        let wanted = WantedEntries::Named {
            patterns: &[pattern.to_owned()],
            companions: true,
        };
        let selected = select(with_device(|| false), wanted).unwrap();
        assert_eq!(selected[0].name(), "passthrough-msi-irqfd");
    }
}

#[test]
fn patterns_of_ports_are_known_where_there_are_none() {
    for (pattern, is_of_ports) in [
        ("portio-no-eventfd", true),
        ("notify-portio-*", true),
        ("outl_*", true),
        ("floor-kvm-run-pio", true),
        ("mmio-*", false),
        ("floor-kvm-run-mmio", false),
        ("*", false),
    ] {
        assert_eq!(means_ports(pattern), is_of_ports, "{pattern}");
    }
}
