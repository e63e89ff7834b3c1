use super::*;
use crate::gate::boots::tests::{OfBoot, boot};
use crate::gate::merged;
use crate::{Outcome, sample};

fn measured(exits: f64) -> Report {
    let row = OfBoot {
        row: "virtio-blk-notify",
        batches: &[16000.0],
        exits: Some([exits, 0.0]),
        events: &[("port 0x70", 40)],
    };
    let mut boot = boot(1, &[row]);
    let mut absent = sample::of_vmm("vmm", "rtc-read", 1.0);
    absent.outcome = Outcome::Skipped { reason: None };
    boot.results.push(absent);
    merged(&[boot]).unwrap()
}

#[test]
fn a_verdict_has_the_figures_of_each_row_that_was_measured() {
    let now = measured(2.0);
    let mut verdict = GateVerdict::default();
    let baseline = measured(1.0);
    verdict
        .hold("debian:6.12", Some(&baseline), &now, |_| false)
        .unwrap();
    let text = json(&verdict, &[("debian:6.12".to_owned(), now)].into());
    insta::assert_snapshot!(text);
}

#[test]
fn a_verdict_without_measurements_is_within_budget() {
    let text = json(&GateVerdict::default(), &BTreeMap::new());
    let read: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(read["within_budget"], true);
    assert_eq!(read["measured"], serde_json::json!([]));
}
