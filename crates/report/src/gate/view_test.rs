use super::super::figures::BootRange;
use super::super::verdict::{FailedBoot, GateQuantity, GateRow, GoneRow};
use super::*;
use crate::sample::plain;

fn name(row: &str) -> GateRow {
    GateRow {
        place: GatePlace {
            kernel: "debian:6.12".to_owned(),
            vmm: "alioth".to_owned(),
        },
        row: row.to_owned(),
    }
}

fn verdict() -> GateVerdict {
    let change = |row: &str, quantity, budget: f64, allowed, now: f64| GateChange {
        name: name(row),
        quantity,
        budget: BootRange([budget; 3]),
        allowed,
        now: BootRange([now; 3]),
        reasons: BTreeMap::new(),
    };
    GateVerdict {
        held: 38,
        grown: vec![
            GateChange {
                reasons: [("io".to_owned(), [1.0, 2.0])].into(),
                ..change("virtio-blk-notify", GateQuantity::Exits, 1.0, 1.05, 2.0)
            },
            change(
                "virtio-blk-notify",
                GateQuantity::Instructions,
                16143.0,
                16183.0,
                18643.0,
            ),
        ],
        shrunk: vec![change(
            "cpuid",
            GateQuantity::Instructions,
            2991.0,
            2998.0,
            2791.0,
        )],
        gone: vec![GoneRow {
            name: name("rtc-read"),
            reason: "there is no clock".to_owned(),
        }],
        failed: [1, 2]
            .map(|seed| FailedBoot {
                place: name("").place,
                seed,
                reason: "it gave no results".to_owned(),
                last_output: Some("bad \u{1b}[31m address".to_owned()),
            })
            .into(),
        new: vec![name("virtio-net-notify")],
        wide: vec![name("ipi-to-vcpu")],
        versions: Vec::new(),
    }
}

#[test]
fn a_terminal_shows_what_grew_and_why() {
    insta::assert_snapshot!(plain(&blocks(&verdict())));
}

#[test]
fn markdown_shows_the_same() {
    insta::assert_snapshot!(crate::markdown(&blocks(&verdict())));
}

#[test]
fn what_is_within_budget_is_one_line() {
    let verdict = GateVerdict {
        held: 38,
        ..GateVerdict::default()
    };
    assert_eq!(plain(&blocks(&verdict)), "within budget: 38 rows held\n");
}
