//! `vmbell bench eoi` on the backend that runs on every machine: its counts agree with each other.

use super::common::{json, stdout, vmbell};
use serde_json::Value;

const COUNT: u64 = 300;

/// The two rows of a run with exact counts, in which the guest asks for each interrupt.
fn modes() -> [Value; 2] {
    let words = format!("--deterministic --interrupts {COUNT} --export-json - --style none");
    let report = json(&mut vmbell(&format!(
        "bench eoi --backend usermode {words}"
    )));
    let modes = ["pv-eoi-off", "pv-eoi-on"];
    [0, 1].map(|index| {
        let mode = report["results"][index].clone();
        assert_eq!(mode["command"], modes[index]);
        mode
    })
}

fn event(mode: &Value, name: &str) -> u64 {
    mode["events"][format!("kvm:kvm_{name}")][0]
        .as_u64()
        .unwrap()
}

#[test]
fn stat_counts_every_interrupt_on_its_way_and_its_end() {
    for mode in modes() {
        for name in ["msi_set_irq", "apic_accept_irq", "inj_virq", "eoi"] {
            assert_eq!(event(&mode, name), COUNT, "{name}: {mode:#}");
        }
        assert_eq!(mode["ops"], serde_json::json!([COUNT]));
        assert_eq!(mode["counts"]["interrupts taken"][0], COUNT);
        assert_eq!(event(&mode, "exit"), event(&mode, "entry"));
        // Each interrupt ends in one of two ways.
        assert_eq!(event(&mode, "pv_eoi") + event(&mode, "msr"), COUNT);
        assert_eq!(mode["counts"]["ends by the bit"][0], event(&mode, "pv_eoi"));
        #[allow(clippy::cast_precision_loss, reason = "a few hundred")]
        let exits = event(&mode, "exit") as f64 / COUNT as f64;
        // Reports are rounded to thousandths.
        let total = mode["exits"]["total"].as_f64().unwrap();
        assert!((total - exits).abs() < 0.001, "{total}, {exits}");
    }
}

#[test]
fn stat_has_one_exit_less_for_each_interrupt_with_the_bit() {
    let [off, on] = modes();
    assert_eq!(event(&off, "pv_eoi"), 0);
    // A vCPU that waits for its CPU may be interrupted in the guest, by a signal that makes it leave.
    let late = COUNT / 10;
    assert!(event(&on, "pv_eoi") >= COUNT - late, "{on:#}");
    let saved = event(&off, "exit").abs_diff(event(&on, "exit"));
    assert!(saved.abs_diff(COUNT) <= late, "{off:#}\n{on:#}");
}

#[test]
fn stat_leaves_out_what_nobody_wants_to_see_and_nothing_else() {
    let text = |args: &[&str]| {
        let mut command = vmbell("bench eoi --backend usermode --deterministic");
        stdout(command.args(args))
    };
    assert!(text(&[]).contains("kvm:kvm_mmio"));
    assert!(!text(&["-z"]).contains("kvm:kvm_mmio"));
    let eoi = text(&["-f", "eoi"]);
    assert!(
        eoi.contains("kvm:kvm_pv_eoi") && !eoi.contains("kvm:kvm_exit"),
        "{eoi}"
    );
    assert!(
        eoi.contains("exits per interrupt") && !eoi.contains("  - "),
        "{eoi}"
    );
}

#[test]
fn modes_take_turns_and_are_compared_for_each_interrupt_with_an_interval() {
    let words = "bench eoi --backend usermode --rate 4000000000 -d 200ms --export-json -";
    let output = vmbell(words).output().unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let [off, on] = [0, 1].map(|row| &report["results"][row]);
    assert_eq!(off["times"].as_array().unwrap().len(), 10);
    assert_eq!(off["ops"], on["ops"]);
    let exits = &on["ratios"]["kvm:kvm_exit"];
    assert!(
        exits["ci_low"].is_number() && exits["value"].as_f64() < Some(1.0),
        "{exits}"
    );
    // No host reaches this rate.
    let warnings = String::from_utf8(output.stderr).unwrap();
    assert!(warnings.contains("of 4000000000 per second"), "{warnings}");
}
