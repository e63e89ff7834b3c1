use std::time::Duration;

use super::*;
use crate::stat::Mode;

fn counted(mode: Mode, counts: [(&str, u64); 4], spared: u64) -> Counted {
    let events = counts.map(|(name, count)| (name.to_owned(), count));
    Counted {
        mode,
        source: "tracepoints of the kernel".into(),
        exits: counts[0].1,
        events: events.into_iter().collect(),
        interrupts: 500,
        spared,
        elapsed: Duration::from_millis(1500),
    }
}

fn sample() -> [Counted; 2] {
    let counts = |exits, msr, pv_eoi| {
        [
            ("kvm:kvm_exit", exits),
            ("kvm:kvm_msr", msr),
            ("kvm:kvm_pv_eoi", pv_eoi),
            ("kvm:kvm_cpuid", 0),
        ]
    };
    [
        counted(Mode::Off, counts(2000, 500, 0), 0),
        counted(Mode::On, counts(1500, 1, 499), 499),
    ]
}

fn backend() -> Backend {
    Backend {
        name: "kvm".into(),
        why: "chosen by --backend".into(),
    }
}

#[test]
fn the_table() {
    let text = table(&sample(), &Rows::default(), &backend(), "500 interrupts");
    insta::assert_snapshot!(text);
}

#[test]
fn rows_that_never_happened_are_left_out_if_asked() {
    let rows = Rows {
        only_counted: true,
        ..Rows::default()
    };
    assert!(!table(&sample(), &rows, &backend(), "").contains("kvm_cpuid"));
    let all = table(&sample(), &Rows::default(), &backend(), "");
    assert!(all.contains("kvm_cpuid"));
}

#[test]
fn filter_keeps_the_names_that_contain_it() {
    let rows = Rows {
        filter: Some("eoi".into()),
        ..Rows::default()
    };
    let text = table(&sample(), &rows, &backend(), "");
    assert!(text.contains("kvm:kvm_pv_eoi") && !text.contains("kvm:kvm_exit"));
}

#[test]
fn json_has_both_modes_by_name() {
    let text = table_json(&sample(), &Rows::default(), &backend(), "500 interrupts").unwrap();
    let json: serde_json::Value = serde_json::from_str(&text).unwrap();
    let on = &json["modes"]["pv-eoi-on"];
    assert_eq!(on["events"]["kvm:kvm_pv_eoi"], 499);
    assert_eq!(on["interrupts"], 500);
    assert_eq!(on["exits_per_interrupt"], 3.0);
    assert_eq!(json["modes"]["pv-eoi-off"]["exits_per_interrupt"], 4.0);
    assert_eq!(json["backend"], "kvm");
}

#[test]
fn change_is_in_per_cent_of_the_first() {
    assert_eq!(change((200, 100)), "-50.0 %");
    assert_eq!(change((0, 7)), "new");
    assert_eq!(change((7, 7)), "");
}
