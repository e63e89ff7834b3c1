use super::*;
use crate::sample::{self, vmm};

/// A report of two VMMs. Each row has the kicks of its runs, of ten operations each.
fn report(rows: &[(&str, &str, &[u64])]) -> Report {
    let row = |(vmm, name, kicks): &(&str, &str, &[u64])| {
        let mut row = sample::of_vmm(vmm, name, 1000.0);
        let measured = sample::of(&mut row);
        measured.times.ops = vec![10; kicks.len()];
        measured.counts =
            Counts::from_iter((!kicks.is_empty()).then(|| ("kicks".to_owned(), kicks.to_vec())));
        row
    };
    let vmms = vec![vmm("a", 1, false), vmm("b", 1, false)];
    sample::of_vmms(vmms, rows.iter().map(row).collect())
}

const ROWS: [(&str, &str, &[u64]); 4] = [
    ("a", "rr", &[10, 40, 20]),
    ("b", "rr", &[5]),
    ("a", "boot", &[]),
    ("b", "boot", &[]),
];

#[test]
fn a_count_has_a_table_of_medians_for_one_operation() {
    let text = sample::plain(&blocks(&report(&ROWS)));
    let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    let lines: Vec<String> = text.lines().map(words).collect();
    assert_eq!(lines, ["kicks/op a b", "rr 2 0.5"]);
    let text = crate::markdown(&blocks(&report(&ROWS)));
    assert_eq!(
        text,
        "| kicks/op | a | b |\n|:---|---:|---:|\n| `rr` | 2 | 0.5 |\n"
    );
}

#[test]
fn a_row_of_one_vmm_without_the_count_has_a_dash() {
    let rows = [ROWS[0], ("b", "boot", &[5][..])];
    let text = crate::markdown(&blocks(&report(&rows)));
    assert!(text.contains("| `rr` | 2 | - |\n"), "{text}");
    assert!(text.contains("| `boot` | - | 0.5 |\n"), "{text}");
}

#[test]
fn a_report_without_counts_has_no_table() {
    assert_eq!(blocks(&report(&ROWS[2..])), []);
}
