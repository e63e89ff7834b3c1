use super::*;
use crate::sample::{self, vmm};

/// A VMM, the name of a row, and its exits.
type MeasuredExits<'a> = (&'a str, &'a str, Result<(f64, f64), &'a str>);

/// A report of two VMMs. Each row has exits, light and heavy, or the reason why it has none.
fn report(rows: &[MeasuredExits<'_>]) -> Report {
    let row = |(vmm, name, exits): &MeasuredExits<'_>| {
        let mut row = sample::of_vmm(vmm, name, 1000.0);
        let measured = sample::of(&mut row);
        measured.exits = exits.ok().map(|(light, heavy)| Exits {
            total: Some(light + heavy),
            userspace: Some(heavy),
        });
        measured.exits_note = exits.err().map(str::to_owned);
        row
    };
    let vmms = vec![vmm("a", 1, false), vmm("b", 1, false)];
    sample::of_vmms(vmms, rows.iter().map(row).collect())
}

fn lines(text: &str) -> Vec<String> {
    let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    text.lines().map(words).collect()
}

#[test]
fn all_exits_stand_before_those_to_the_vmm() {
    let report = report(&[
        ("a", "cpuid", Ok((1.0, 0.0))),
        ("b", "cpuid", Ok((0.5, 1.0))),
        ("a", "timer", Ok((2.0, 0.0))),
    ]);
    let lines = lines(&sample::plain(&blocks(&report)));
    assert_eq!(lines[0], "exits/op (to the VMM) a b");
    assert_eq!(lines[1..3], ["cpuid 1 (0) 1.5 (1)", "timer 2 (0) -"]);
    let text = crate::markdown(&blocks(&report));
    assert!(text.contains("| `cpuid` | 1 (0) | 1.5 (1) |"), "{text}");
}

#[test]
fn a_reason_for_no_exits_is_said_once() {
    let mut report = report(&[
        ("a", "cpuid", Err("odd marks")),
        ("a", "timer", Err("odd marks")),
        ("b", "cpuid", Ok((1.0, 0.0))),
    ]);
    let crate::Kind::Vmms { vmms } = &mut report.kind else {
        panic!("{:?}", report.kind);
    };
    vmms[0].exits_reason = Some("it takes root".to_owned());
    for text in [
        sample::plain(&blocks(&report)),
        crate::markdown(&blocks(&report)),
    ] {
        let text = text.replace('\\', "");
        assert!(
            text.contains("exits not counted of cpuid (a), timer (a): odd marks"),
            "{text}"
        );
        assert!(
            text.contains("exits not counted of a: it takes root"),
            "{text}"
        );
    }
}

#[test]
fn without_exits_there_is_nothing() {
    let mut report = report(&[("a", "cpuid", Ok((1.0, 0.0)))]);
    sample::of(&mut report.results[0]).exits = None;
    assert_eq!(blocks(&report), []);
}

#[test]
fn the_addresses_of_a_row_are_those_accessed_most_in_any_vmm() {
    let mut report = report(&[
        ("a", "linux-boot", Ok((1.0, 0.0))),
        ("a", "cpuid", Ok((1.0, 0.0))),
        ("b", "linux-boot", Ok((1.0, 0.0))),
    ]);
    let events = |counts: &[(&str, u64)]| {
        let counts = counts.iter();
        counts
            .map(|(address, count)| ((*address).to_owned(), vec![*count]))
            .collect()
    };
    let ports: Vec<String> = (0..11).map(|port| format!("port {port:#x}")).collect();
    let of_a: Vec<(&str, u64)> = ports.iter().map(String::as_str).zip(10..).collect();
    sample::of(&mut report.results[0]).events = events(&of_a);
    sample::of(&mut report.results[2]).events = events(&[("port 0x9", 3), ("port 0x80", 15)]);
    let lines = lines(&sample::plain(&blocks(&report)));
    let title = "linux-boot: accesses by address a b";
    let begin = lines.iter().position(|line| line == title).unwrap();
    let shown = &lines[begin + 1..begin + 1 + DEAREST];
    let first = ["port 0xa 20 -", "port 0x9 19 3", "port 0x8 18 -"];
    assert_eq!(shown[..3], first, "{lines:#?}");
    assert!(shown.contains(&"port 0x80 - 15".to_owned()), "{shown:?}");
    // The two least accessed of the twelve.
    for rest in ["port 0x0 ", "port 0x1 "] {
        assert!(!lines.iter().any(|line| line.starts_with(rest)), "{rest}");
    }
    assert!(!lines.iter().any(|line| line.starts_with("cpuid: ")));
}
