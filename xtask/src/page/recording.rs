//! Makes a recording of `vmbell top` for its page: VMs with many addresses, hostile names, and missing sources.

use serde_json::json;

use super::reports::HOSTILE;
use vmbell_report::{
    Host, RecordingHeader, TopAddress, TopIrqfd, TopLine, TopNameSource, TopSource, TopVm,
};

/// The number of tables: more than a curve has points.
const TABLES: u32 = 1000;

/// Returns the text of the recording. Its last line is cut off.
pub(super) fn text() -> String {
    let host = Host {
        kernel: HOSTILE.to_owned(),
        cpu: format!("{HOSTILE}{}", "incomprehensibilities".repeat(8)),
        ..Host::default()
    };
    let header = RecordingHeader::new("2026-11-26T09:00:00Z".into(), HOSTILE.into(), host);
    let mut text = json!(header).to_string() + "\n";
    for second in 0..TABLES {
        let source = |used, missing: &str| TopSource {
            used,
            missing: vec![missing.to_owned()],
        };
        let line = json!(TopLine {
            schema_version: TopLine::VERSION,
            seconds: f64::from(second),
            bpf: source(true, &format!("EOIs: {HOSTILE}")),
            counters: source(false, HOSTILE),
            lost: Some(second.into()),
            vms: (0..3).map(|vm| self::vm(vm, second)).collect(),
            ..TopLine::default()
        });
        text += &format!("{line}\n");
    }
    text + "{\"seconds\":"
}

fn vm(number: u32, second: u32) -> TopVm {
    // The rates repeat every 100 seconds.
    let count = (0..second).map(|second| u64::from(second % 100) * u64::from(number + 1) * 1000);
    let count: u64 = count.sum();
    let address = |address: u64| TopAddress {
        space: "mmio".to_owned(),
        address: 0xffff_ffff_fe00_0000 + address,
        exits_to_vmm: count / 30,
        ioeventfds: Some(count),
        name: Some(HOSTILE.to_owned()),
        name_source: Some(TopNameSource::Guess),
        ..TopAddress::default()
    };
    TopVm {
        pid: 4711 + number,
        vmm: Some(HOSTILE.to_owned()),
        name: Some(HOSTILE.repeat(1 + usize::from(number == 2))),
        cpu_seconds: Some(second.into()),
        exits_to_vmm: Some(count),
        ioeventfds: Some(count),
        irqfds: Some(count),
        addresses: (0..30).map(address).collect(),
        reasons: [(HOSTILE.to_owned(), count)].into(),
        irqfds_by_gsi: vec![TopIrqfd {
            gsi: 24,
            signals: count,
            by_worker: count / 2,
            ..TopIrqfd::default()
        }],
        ..TopVm::default()
    }
}
