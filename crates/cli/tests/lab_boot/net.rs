//! `vmbell lab -- vmbell bench net`: what netperf costs over each path; a spinning guest is ended.

use std::fs;
use std::process::{Command, Stdio};

use serde_json::Value;

use super::boots::linux::{PARTS, line};
use super::boots::{LIMITS, host_vmbell, lab, output, text};
use kit::schema::violations;

const TRANSACTIONS: f64 = 400.0;

fn row<'r>(report: &'r Value, way: &str) -> &'r Value {
    let rows = report["results"].as_array().unwrap();
    let is_it = |row: &&Value| row["backend"] == way && row["command"] == "rr";
    rows.iter()
        .find(is_it)
        .unwrap_or_else(|| panic!("{way}: {report}"))
}

/// The count per round trip, in the only run.
fn of_a_trip(row: &Value, count: &str) -> f64 {
    row["counts"][count][0].as_f64().unwrap() / TRANSACTIONS
}

/// The report of one run of each of these paths, and the output.
fn measured(ways: &[&str]) -> (Value, String) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("report.json");
    let mut command = Command::new(host_vmbell());
    command.args(["lab", "kernel", "--functional"]).args(LIMITS);
    command.args(["--", "vmbell", "bench", "net", "--runs", "1"]);
    command.args(ways).arg("--export-json").arg(&path);
    let transactions = TRANSACTIONS.to_string();
    command.args(["--exits", "on", "--transactions", &transactions]);
    let output = output(command.stdin(Stdio::null()));
    let said = text(&output.stdout).to_owned();
    assert!(output.status.success(), "{said}");
    let report: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    let schema = include_str!("../../../../docs/report.schema.json");
    let schema = serde_json::from_str(schema).unwrap();
    assert_eq!(violations(&schema, &report), Vec::<String>::new());
    (report, said)
}

#[test]
#[ignore = "boots the lab: cargo xtask lab"]
fn round_trip_goes_to_the_vmm_by_exits_only_and_paravirtual_eoi_spares_it_one_of_most_interrupts() {
    let ways = [
        ("vmbell-no-pv-eoi", 0.0, 0.01),
        ("vmbell-exit", 0.9, 1.5),
        ("vmbell-ioeventfd", 0.0, 0.01),
        ("vmbell-nested", 0.0, 0.01),
        ("vmbell-vhost", 0.0, 0.01),
        ("vmbell-assigned", 0.0, 0.01),
    ];
    let (report, said) = measured(&ways.map(|(way, ..)| way));
    for (way, least, most) in ways {
        let row = row(&report, way);
        assert!(row["median"].as_f64() > Some(0.0), "{said}");
        let userspace = row["exits"]["userspace"].as_f64().unwrap();
        assert!((least..=most).contains(&userspace), "{way}: {said}");
        // The counts are the whole host's: other queues than the guest's may notify and interrupt too.
        let kicks = of_a_trip(row, "kicks");
        match way {
            // Notifications go to the card, without an exit.
            "vmbell-assigned" => assert_eq!(kicks, 0.0, "{said}"),
            // How often the thread polls while the guest sends depends on this machine's speed. No interrupt reports
            // that a packet was sent.
            "vmbell-nested" => assert!(of_a_trip(row, "interrupts") < 1.5, "{said}"),
            _ => assert!(kicks > 0.5, "{way}: {said}"),
        }
        assert!(of_a_trip(row, "interrupts") > 0.5, "{way}: {said}");
        // Each notification is an exit, no matter what handles it.
        let exits = row["exits"]["total"].as_f64().unwrap();
        assert!(exits >= kicks - 0.01, "{way}: {said}");
        // A waiting guest halts, unless something wakes it first. If the host's netperf shares a CPU with the vCPU, it
        // runs when its request arrives, and the reply is there before the guest continues. How often this happens
        // depends on the scheduler.
        let reasons = row["exit_reasons"]["kvm_exit"].as_object().unwrap();
        assert!(reasons.contains_key("hlt"), "{way}: {said}");
        let hosts = |reason: &str| ["interrupt", "nmi", "vintr"].contains(&reason);
        let guests = reasons.iter().filter(|(reason, _)| !hosts(reason));
        let sum: f64 = guests.filter_map(|(_, count)| count.as_f64()).sum();
        assert!(
            (sum - exits).abs() < 0.01,
            "{way}: {sum} {reasons:?}: {said}"
        );
    }
    let [without, with] = ["vmbell-no-pv-eoi", "vmbell-ioeventfd"].map(|way| {
        let reasons = &row(&report, way)["exit_reasons"]["kvm_exit"];
        reasons["msr"].as_f64().unwrap_or_default()
    });
    assert!(without > with + 0.5, "{without} {with}: {said}");
}

/// A kernel that loops forever with interrupts off: an ELF file with a PVH entry in its note. The loop is mostly `nop`,
/// which QEMU executes faster than jumps.
pub(super) fn kernel_that_spins() -> Vec<u8> {
    const ENTRY: u32 = 0x20_0000;
    const CODE_AT: u16 = 0x1000;
    const NOTE_AT: u64 = 0x40 + 2 * 0x38;
    const IN_LOOP: i32 = 400;
    // The jump is relative to its end.
    let jump = (-IN_LOOP - 5).to_le_bytes();
    let code = [&[0xfa], &[0x90; IN_LOOP as usize][..], &[0xe9], &jump].concat();
    let note = b"\x04\0\0\0\x04\0\0\0\x12\0\0\0Xen\0";
    let note = [note, &ENTRY.to_le_bytes()[..]].concat();
    // Type and machine; version; entry and the offset of the program headers; then sizes.
    let mut file = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x02\0\x3e\0\x01\0\0\0".to_vec();
    let fields = [u64::from(ENTRY), 0x40, 0];
    file.extend(fields.map(u64::to_le_bytes).as_flattened());
    let fields = [0, 0, 0x40, 0x38, 2, 0, 0, 0];
    file.extend(fields.map(u16::to_le_bytes).as_flattened());
    for (kind, at, address, len) in [
        (1, CODE_AT.into(), ENTRY.into(), code.len()),
        (4, NOTE_AT, 0, note.len()),
    ] {
        file.extend([kind, 5].map(u32::to_le_bytes).as_flattened());
        let fields = [at, address, address, len as u64, len as u64, 4];
        file.extend(fields.map(u64::to_le_bytes).as_flattened());
    }
    file.extend(note);
    file.resize(CODE_AT.into(), 0);
    file.extend(code);
    file
}

#[test]
#[ignore = "boots the lab: cargo xtask lab"]
fn guest_that_spins_is_ended_long_before_its_time_limit_where_instructions_are_counted() {
    let folder = tempfile::tempdir().unwrap();
    let kernel = folder.path().join("kernel");
    fs::write(&kernel, kernel_that_spins()).unwrap();
    // A guest that spun for this long would take this host hours.
    let script = "\"$0\" bench net --runs 1 --modules /modules --busybox /busybox --netserver /bin/true --netperf /bin/true \
         vmbell-exit --kernel /kernel --run-timeout 1h 2>&1; echo status: $?";
    let vmbell = host_vmbell();
    let modules = format!("{}:/modules", PARTS.0.modules.as_ref().unwrap().display());
    let mut command = lab(&["--deterministic", "--module", "tun"]);
    for with in [
        vmbell,
        "/bin/true",
        &format!("{}:/kernel", kernel.display()),
        &format!("{}:/busybox", PARTS.1.display()),
        &modules,
    ] {
        command.args(["--with", with]);
    }
    let output = output(command.args(["--", "/bin/sh", "-c", script, vmbell]));
    let said = text(&output.stdout);
    assert_eq!(line(said, "status: "), ["1"], "{said}");
    let words: Vec<&str> = said.split_whitespace().collect();
    let report = words.join(" ");
    let spun = "the guest spun for 250ms without an exit";
    assert!(report.contains(&format!("failed: {spun}")), "{said}");
    let repeated = format!("a boot hung and was repeated: {spun} (the last of 8)");
    assert!(report.contains(&repeated), "{said}");
}
