//! A recording of `vmbell top` for its page: VMs with many addresses, hostile names, and sources that are missing.

use serde_json::{Value, json};

use super::reports::HOSTILE;
use vmbell_report::{Host, RecordingHeader};

/// How many tables it has: more than a curve has points.
const TABLES: u64 = 1000;

/// The text, whose last line is cut off.
pub(super) fn text() -> String {
    let host = Host {
        kernel: HOSTILE.to_owned(),
        cpu: format!("{HOSTILE}{}", "incomprehensibilities".repeat(8)),
        ..Host::default()
    };
    let header = RecordingHeader::new("2026-11-26T09:00:00Z".into(), HOSTILE.into(), host);
    let mut text = json!(header).to_string() + "\n";
    for second in 0..TABLES {
        let line = json!({
            "seconds": second,
            "bpf": {"used": true, "missing": [format!("EOIs: {HOSTILE}")]},
            "counters": {"used": false, "missing": [HOSTILE]},
            "lost": second,
            "vms": (0..3).map(|vm| self::vm(vm, second)).collect::<Vec<_>>(),
        });
        text += &format!("{line}\n");
    }
    text + "{\"seconds\":"
}

fn vm(number: u64, second: u64) -> Value {
    // Waves of 100 seconds.
    let count = (0..second).map(|second| (second % 100) * (number + 1) * 1000);
    let count: u64 = count.sum();
    let address = |address: u64| {
        json!({
            "space": "mmio", "address": 0xffff_ffff_fe00_0000_u64 + address, "exits_to_vmm": count / 30,
            "ioeventfds": count, "name": HOSTILE, "name_source": "guess",
        })
    };
    json!({
        "pid": 4711 + number, "fd": 9, "vmm": HOSTILE, "name": HOSTILE.repeat(1 + usize::from(number == 2)),
        "vcpus": [], "cpu_seconds": second, "exits_to_vmm": count, "ioeventfds": count, "irqfds": count,
        "addresses": (0..30).map(address).collect::<Vec<_>>(),
        "reasons": {(HOSTILE): count},
        "irqfds_by_gsi": [{"gsi": 24, "signals": count, "by_worker": count / 2}],
    })
}
