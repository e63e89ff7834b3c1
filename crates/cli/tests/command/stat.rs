//! `stat` on the backend that every machine has: counts that agree with each other.

use super::common::{stdout, vmbell};
use serde_json::Value;

const COUNT: u64 = 300;

/// The modes of an exact run: each interrupt when the guest asks for it.
fn modes() -> [Value; 2] {
    let count = COUNT.to_string();
    let arguments = [
        "stat",
        "--backend",
        "usermode",
        "--deterministic",
        "--interrupts",
        &count,
        "--json",
    ];
    let report: Value = serde_json::from_str(&stdout(&mut vmbell(&arguments))).unwrap();
    ["pv-eoi-off", "pv-eoi-on"].map(|mode| report["modes"][mode].clone())
}

fn event(mode: &Value, name: &str) -> u64 {
    mode["events"][format!("kvm:kvm_{name}")].as_u64().unwrap()
}

#[test]
fn stat_counts_every_interrupt_on_its_way_and_its_end() {
    for mode in modes() {
        for name in ["msi_set_irq", "apic_accept_irq", "inj_virq", "eoi"] {
            assert_eq!(event(&mode, name), COUNT, "{name}: {mode:#}");
        }
        assert_eq!(mode["interrupts"], COUNT);
        assert_eq!(event(&mode, "exit"), event(&mode, "entry"));
        // Each ends in one way or the other.
        assert_eq!(event(&mode, "pv_eoi") + event(&mode, "msr"), COUNT);
        assert_eq!(mode["eoi_spared"], event(&mode, "pv_eoi"));
    }
}

#[test]
fn stat_has_one_exit_less_for_each_interrupt_with_the_bit() {
    let [off, on] = modes();
    assert_eq!(event(&off, "pv_eoi"), 0);
    // A vCPU that has to wait for its CPU may be found in the guest, by a signal that makes it leave.
    let late = COUNT / 10;
    assert!(event(&on, "pv_eoi") >= COUNT - late, "{on:#}");
    let saved = event(&off, "exit").abs_diff(event(&on, "exit"));
    assert!(saved.abs_diff(COUNT) <= late, "{off:#}\n{on:#}");
}
