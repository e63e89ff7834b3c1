use super::*;
use crate::sample::{self, vmm};
use crate::{Outcome, Ratio};

fn report(vmms: Vec<Vmm>, medians: &[(&str, &str, f64)]) -> Report {
    let row = |(vmm, name, ns): &(&str, &str, f64)| sample::of_vmm(vmm, name, *ns);
    sample::of_vmms(vmms, medians.iter().map(row).collect())
}

fn shown(report: &Report, look: Look) -> String {
    sample::shown(report, look, None)
}

fn line<'t>(text: &'t str, name: &str) -> Vec<&'t str> {
    let line = text.lines().find(|line| line.starts_with(name)).unwrap();
    line[name.len()..].split_whitespace().collect()
}

#[test]
fn the_least_number_of_a_row_is_marked() {
    let medians = [
        ("a", "cpuid", 900.0),
        ("b", "cpuid", 1100.0),
        ("a", "timer", 30.0),
    ];
    let text = shown(
        &report(vec![vmm("a", 1, false), vmm("b", 1, false)], &medians),
        Look::default(),
    );
    assert_eq!(line(&text, "cpuid"), ["900", "ns*", "1.10", "µs"]);
    assert_eq!(line(&text, "timer"), ["30.0", "ns", "-"], "{text}");
    assert!(text.contains(BEST));
}

#[test]
fn equal_numbers_are_both_marked() {
    let medians = [("a", "cpuid", 900.0), ("b", "cpuid", 900.0)];
    let text = shown(
        &report(vec![vmm("a", 1, false), vmm("b", 1, false)], &medians),
        Look::default(),
    );
    assert_eq!(line(&text, "cpuid"), ["900", "ns*", "900", "ns*"]);
}

#[test]
fn an_emulated_column_is_never_the_best() {
    let medians = [
        ("a", "cpuid", 900.0),
        ("b", "cpuid", 100.0),
        ("c", "cpuid", 950.0),
    ];
    let vmms = vec![vmm("a", 1, false), vmm("b", 1, true), vmm("c", 1, false)];
    let text = shown(&report(vmms, &medians), Look::default());
    assert_eq!(
        line(&text, "cpuid"),
        ["900", "ns*", "100", "ns", "950", "ns"]
    );
    assert!(text.contains("b‡") && text.contains(EMULATED));
}

#[test]
fn ratios_replace_the_numbers_where_they_are_asked_for() {
    let medians = [("a", "cpuid", 900.0), ("b", "cpuid", 1800.0)];
    let mut report = report(vec![vmm("a", 1, false), vmm("b", 1, false)], &medians);
    sample::of(&mut report.results[1]).ratio = Some(Ratio {
        reference: "cpuid (a)".to_owned(),
        value: 2.0,
        ci_low: None,
        ci_high: None,
        is_bound: false,
    });
    let look = Look {
        ratios: true,
        ..Look::default()
    };
    let text = shown(&report, look);
    assert_eq!(line(&text, "cpuid"), ["1*", "2.00"], "{text}");
    assert!(text.contains(RATIOS));
}

#[test]
fn a_vmm_that_failed_has_no_column_and_says_what_it_last_said() {
    let text = shown(
        &report(
            vec![vmm("a", 1, false), vmm("b", 0, false)],
            &[("a", "cpuid", 900.0)],
        ),
        Look::default(),
    );
    assert_eq!(line(&text, "cpuid"), ["900", "ns"]);
    assert!(
        text.contains("failed: it printed nothing of the image"),
        "{text}"
    );
    assert!(
        text.contains("its last output: qemu: no such machine"),
        "{text}"
    );
}

#[test]
fn nothing_is_wider_than_the_shown() {
    let names = [
        "qemu-pc",
        "qemu-q35",
        "qemu-microvm",
        "alioth",
        "vmbell",
        "firecracker",
        "crosvm",
    ];
    let vmms: Vec<Vmm> = names.iter().map(|name| vmm(name, 1, false)).collect();
    let medians: Vec<(&str, &str, f64)> = names
        .iter()
        .map(|name| (*name, "virtio-blk-round-trip-interrupt", 96_715.0))
        .collect();
    let report = report(vmms, &medians);
    let text = sample::shown(&report, Look::default(), Some(80));
    for line in text.lines() {
        assert!(line.chars().count() <= 80, "{line}");
    }
    for name in ["firecracker", "microvm", "crosvm"] {
        assert!(text.contains(name), "{text}");
    }
}

#[test]
fn a_row_stands_after_the_one_that_it_follows() {
    let medians = [
        ("a", "cpuid", 1.0),
        ("a", "timer", 1.0),
        ("b", "cpuid", 1.0),
        ("b", "hypercall", 1.0),
        ("b", "timer", 1.0),
    ];
    let report = report(vec![vmm("a", 1, false), vmm("b", 1, false)], &medians);
    assert_eq!(names(&report), ["cpuid", "hypercall", "timer"]);
}

#[test]
fn markdown_has_one_line_a_row_and_the_best_in_bold() {
    let medians = [("a", "cpuid", 900.0), ("b", "cpuid", 1100.0)];
    let report = report(vec![vmm("a", 1, false), vmm("b", 1, false)], &medians);
    let text = crate::markdown(&blocks(&report, Look::default()));
    assert!(
        text.contains("| median | a | b |\n|:---|---:|---:|\n"),
        "{text}"
    );
    assert!(
        text.contains("| `cpuid` | **900 ns\\*** | 1.10 µs |"),
        "{text}"
    );
}

#[test]
fn rows_that_several_vmms_lack_for_one_reason_are_named_once() {
    let medians = [("a", "timer", 1.0), ("b", "timer", 1.0)];
    let mut report = report(vec![vmm("a", 1, false), vmm("b", 1, false)], &medians);
    for row in &mut report.results {
        row.outcome = Outcome::Skipped {
            reason: Some("there is none".to_owned()),
        };
    }
    let text = shown(&report, Look::default());
    assert!(
        text.contains("not on a, b: timer\n  there is none\n"),
        "{text}"
    );
}

#[test]
fn a_guest_is_told_with_its_cpu_and_the_source_of_its_time() {
    let of = |timing, tsc: (Option<f64>, Option<&str>), cpu: &str, cpus| {
        let mut vmm = vmm("a", 1, false);
        let guest = vmm.guest.as_mut().unwrap();
        (guest.cpu, guest.cpus) = (cpu.to_owned(), cpus);
        (guest.tsc_hz, guest.tsc_source) = (tsc.0, tsc.1.map(str::to_owned));
        let mut report = report(vec![vmm], &[]);
        report.timing = timing;
        let guest = report.vmms()[0].guest.as_ref().unwrap();
        let words = guest_in_words(guest, &report);
        (words[1].clone(), words[3].clone())
    };
    let native = Timing::Native;
    for (timing, tsc, cpu, cpus, expected) in [
        (
            native,
            (Some(2.1e9), Some("pvclock")),
            "A CPU",
            1,
            ("A CPU under KVMKVMKVM", "TSC 2100 MHz by pvclock"),
        ),
        (
            native,
            (Some(2.1e9), None),
            "",
            2,
            ("2 x a CPU without a name under KVMKVMKVM", "TSC 2100 MHz"),
        ),
        (
            native,
            (None, Some("pvclock")),
            "",
            1,
            (
                "a CPU without a name under KVMKVMKVM",
                "TSC frequency unknown, taken as the host's 2500 MHz",
            ),
        ),
        (
            Timing::Instructions,
            (Some(2.1e9), Some("pvclock")),
            "A CPU",
            1,
            ("A CPU under KVMKVMKVM", "TSC of instructions"),
        ),
    ] {
        let (cpu, tsc) = of(timing, tsc, cpu, cpus);
        assert_eq!((cpu.as_str(), tsc.as_str()), expected);
    }
}
