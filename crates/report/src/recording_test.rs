use super::*;

/// The lines of a recording of one VM: what `vmbell top` writes at these times, with these exits to the VMM.
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

pub(crate) fn line(seconds: f64, vms: &[serde_json::Value]) -> String {
    let source =
        |missing: &[&str]| serde_json::json!({"used": missing.is_empty(), "missing": missing});
    let line = serde_json::json!({
        "schema_version": 1,
        "seconds": seconds,
        "bpf": source(&[]),
        "counters": source(&["the kernel's lockdown (Secure Boot) forbids debugfs"]),
        "lost": 0,
        "unreadable_processes": 0,
        "vms": vms,
    });
    line.to_string() + "\n"
}

pub(crate) fn vm(pid: u32, exits: u64) -> serde_json::Value {
    serde_json::json!({
        "pid": pid, "fd": 9, "vmm": "qemu", "name": "web-<1>", "ended": false,
        "vcpus": [{"id": 0, "thread": 4712}], "cpu_seconds": 0.5, "statistics": null,
        "exits_to_vmm": exits, "ioeventfds": exits * 2, "irqfds": null, "msi_ioctls": 0, "lines_raised": 0,
        "kicks": 0, "eois": 10, "pv_eois": 5,
        "addresses": [{
            "space": "port", "address": 1544, "exits_to_vmm": exits, "ioeventfds": exits * 2, "accesses": [],
            "eventfds": [], "name": "virtio-pci notify", "name_source": "guess",
        }],
        "reasons": {"hlt": exits / 2}, "exits_by_reason": {"npf": exits * 3},
        "irqfds_by_gsi": [{"gsi": 24, "signals": exits, "by_worker": 0, "first_signaller": null}],
    })
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
fn another_version_is_refused() {
    let newer = recording(&[(0.0, 0), (1.0, 10)]).replace("\"version\":1", "\"version\":7");
    assert_eq!(
        Recording::parse(&newer).unwrap_err().to_string(),
        "its version is 7, and this vmbell reads 1: show it with the vmbell that recorded it"
    );
}
