use std::collections::BTreeMap;

use super::*;
use crate::{TopAddress, TopIrqfd, TopNameSource, TopSource, TopVm};

/// The lines of a recording of one VM: what `vmbell top` writes at these times, with these numbers of exits to the VMM.
pub(crate) fn recording(exits: &[(f64, u64)]) -> String {
    let header = RecordingHeader::new(
        "2026-11-26T09:00:00Z".to_owned(),
        "0.1.0".to_owned(),
        Host {
            kernel: "Linux 6.12.117".to_owned(),
            cpu: "a CPU".to_owned(),
            cpus: 2,
            ..Host::default()
        },
    );
    let mut text = serde_json::to_string(&header).unwrap() + "\n";
    for (seconds, exits) in exits {
        text += &line(*seconds, &[vm(4711, *exits)]);
    }
    text
}

pub(crate) fn line(seconds: f64, vms: &[TopVm]) -> String {
    let source = |missing: &[&str]| TopSource {
        used: missing.is_empty(),
        missing: missing.iter().map(ToString::to_string).collect(),
    };
    let line = TopLine {
        schema_version: TopLine::VERSION,
        seconds,
        bpf: source(&[]),
        counters: source(&["the kernel's lockdown (Secure Boot) forbids debugfs"]),
        lost: Some(0),
        vms: vms.to_vec(),
        ..TopLine::default()
    };
    serde_json::to_string(&line).unwrap() + "\n"
}

pub(crate) fn vm(pid: u32, exits: u64) -> TopVm {
    let by_reason = |name: &str, count| BTreeMap::from([(name.to_owned(), count)]);
    TopVm {
        pid,
        vmm: Some("qemu".to_owned()),
        name: Some("web-<1>".to_owned()),
        exits_to_vmm: Some(exits),
        ioeventfds: Some(exits * 2),
        eois: Some(10),
        pv_eois: Some(5),
        addresses: vec![TopAddress {
            space: "port".to_owned(),
            address: 1544,
            exits_to_vmm: exits,
            ioeventfds: Some(exits * 2),
            name: Some("virtio-pci notify".to_owned()),
            name_source: Some(TopNameSource::Guess),
            ..TopAddress::default()
        }],
        reasons: by_reason("hlt", exits / 2),
        exits_by_reason: Some(by_reason("npf", exits * 3)),
        irqfds_by_gsi: vec![TopIrqfd {
            gsi: 24,
            signals: exits,
            ..TopIrqfd::default()
        }],
        ..TopVm::default()
    }
}

#[test]
fn a_recording_is_told_from_a_report() {
    assert!(Recording::is_one(&recording(&[])));
    let marked = format!("\u{feff}{}", recording(&[(0.0, 0), (1.0, 10)]));
    assert!(Recording::is_one(&marked) && Recording::parse(&marked).is_ok());
    for text in [
        "",
        "{}",
        "{\"schema_version\": 2}",
        "{\"format\": \"other\"}\n",
    ] {
        assert!(!Recording::is_one(text), "{text}");
    }
}

#[test]
fn a_last_line_that_is_cut_off_is_left_out_with_a_warning() {
    let whole = recording(&[(0.0, 0), (1.0, 10), (2.0, 20)]);
    assert!(Recording::parse(&whole).unwrap().warnings.is_empty());
    let start_of_last = whole.trim_end().rfind('\n').unwrap() + 1;
    for length in start_of_last + 1..whole.len() {
        let read = Recording::parse(&whole[..length]).unwrap();
        assert_eq!(read.lines.len(), 2, "{length}");
        assert_eq!(
            read.warnings,
            ["the last line is cut off: the recorder was killed"]
        );
    }
    // A line that is broken in the middle is an error, and so is a recording without an interval.
    let broken = whole.replacen("\"seconds\":1.0", "\"seconds\":", 1);
    let error = Recording::parse(&broken).unwrap_err();
    assert_eq!(error.to_string(), "line 3 cannot be read");
    let short = recording(&[(0.0, 0)]);
    assert!(matches!(
        Recording::parse(&short),
        Err(RecordingError::Short)
    ));
}

#[test]
fn another_version_of_the_file_or_of_a_line_is_refused() {
    let ours = recording(&[(0.0, 0), (1.0, 10)]);
    for field in ["\"version\":1", "\"schema_version\":1"] {
        let newer = ours.replace(field, &field.replace('1', "7"));
        assert_eq!(
            Recording::parse(&newer).unwrap_err().to_string(),
            "its version is 7, and this vmbell reads 1: show it with the vmbell that recorded it"
        );
    }
}

#[test]
fn a_source_or_a_count_that_is_not_known_is_refused_by_its_name() {
    let ours = recording(&[(0.0, 0), (1.0, 10)]);
    for (known, unknown) in [
        ("\"counters\":", "\"tracefs\":null,\"counters\":"),
        ("\"kicks\":", "\"ipis\":3,\"kicks\":"),
        ("\"gsi\":24", "\"gsi\":24,\"masked\":1"),
        ("\"guess\"", "\"acpi\""),
    ] {
        let other = ours.replacen(known, unknown, 1);
        let error = Recording::parse(&other).unwrap_err();
        assert_eq!(error.to_string(), "line 2 cannot be read");
        let name = unknown.split('"').nth(1).unwrap();
        let source = std::error::Error::source(&error).unwrap().to_string();
        assert!(source.contains(&format!("`{name}`")), "{source}");
    }
}
