//! `vmbell top` on a guest that runs under QEMU and under vmbell at the same time: exits and ioeventfds of each match
//! the guest's own accesses. Another test has a VMM whose eventfd another process shares.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use vmbell_lab::arch::Arch;
use vmbell_lab::cache::Cache;
use vmbell_lab::{LabProgress, Provision};

use super::top::{advised, in_l1, lines, said, vms};

/// Operations in a batch, and batches.
const OPERATIONS: u64 = 150;
const BATCHES: u64 = 3;
/// A port without a device.
const PORT: u64 = 0xed;
/// The serial port's data.
const SERIAL: u64 = 0x3f8;

/// QEMU with the guest.
const QEMU: &str = "-M pc,accel=kvm -m 64 -nodefaults -no-user-config -no-reboot -display none -serial stdio \
     -kernel /image -device virtio-rng-pci";

/// Runs a VMM until its guest has finished. The guest may fail to finish under emulated SVM: docs/emulator-bugs.md.
const RUN: &str = r#"
"$vmbell" bench vmms image -o /image || fail no image
run() {
    name=$1; shift
    for try in 1 2 3; do
        "$@" </dev/null >/out/$name & pid=$!
        for time in $(seq 900); do
            if grep -q 'vmbell-probe end' /out/$name; then wait $pid; echo "$name: $pid"; return; fi
            sleep 0.2
        done
        kill -KILL $pid; wait $pid
    done
}
"#;

/// The lab's QEMU for L1, as arguments of `--with`: its files, and a script with this path in L1.
fn qemu(folder: &Path, place: &str) -> Vec<String> {
    let cache = Cache::user().unwrap();
    let board = super::BOARD;
    let mut provision =
        Provision::new(Arch::host().unwrap(), board, &cache, LabProgress::new(true));
    let qemu = provision.qemu(None).unwrap();
    let script = folder.join("qemu");
    fs::write(&script, qemu.script()).unwrap();
    let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(&script, executable).unwrap();
    let files = qemu.files().into_iter();
    let files = files.map(|file| file.to_str().unwrap().to_owned());
    files
        .chain([format!("{}:{place}", script.display())])
        .collect()
}

/// Runs a script in L1 that starts QEMU as `/qemu`.
fn in_l1_with_qemu(script: &str) -> (String, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let mut with = qemu(folder.path(), "/qemu");
    with.extend(["/bin/sh", "/usr/bin/seq"].map(str::to_owned));
    let options: Vec<&str> = with.iter().flat_map(|with| ["--with", with]).collect();
    in_l1(&options, script)
}

/// The addresses of a VM with this count.
fn with_count<'a>(vm: &'a Value, kind: &str, count: u64) -> Vec<&'a Value> {
    let addresses = vm["addresses"].as_array().unwrap().iter();
    addresses.filter(|address| address[kind] == count).collect()
}

#[test]
#[ignore = "boots the lab: cargo xtask lab"]
fn top_counts_a_guest_under_qemu_and_under_vmbell_as_the_guest_does() {
    let words =
        format!("ops={OPERATIONS} batches={BATCHES} only=virtio-rng-notify-idle,pio-unassigned");
    let script = format!(
        r#"{RUN}
start_top
run exits /qemu {QEMU},ioeventfd=off -name exits -append "{words}" & exits=$!
run vmbell "$vmbell" run /image --memory 64M --device virtio-rng --append "{words}" & vmbell_runs=$!
wait $exits $vmbell_runs
run rings /qemu {QEMU} -name rings,debug-threads=on -append "{words}"
seen
kill $top; wait $top; true
"#
    );
    let (shown, folder) = in_l1_with_qemu(&script);
    let lines = lines(folder.path());
    for line in &lines {
        assert_eq!(line["lost"], 0);
    }
    // The guest's own accesses: a request and a check when it finds the device, an operation and a check before the
    // first batch, and a check after each batch.
    let notifications = 2 + 2 + BATCHES * (OPERATIONS + 1);
    let writes = 1 + BATCHES * OPERATIONS;
    for (name, vmm, own_name, space, by_exit) in [
        ("exits", "qemu", json!("exits"), "mmio", true),
        ("rings", "qemu", json!("rings"), "mmio", false),
        ("vmbell", "vmbell", Value::Null, "port", false),
    ] {
        let pid = said(&shown, &format!("{name}: "));
        let all: Vec<_> = lines.iter().flat_map(|line| vms(line, pid)).collect();
        let vm = all.last().unwrap();
        assert_eq!(vm["ended"], true, "{vm}");
        assert_eq!((&vm["vmm"], &vm["name"]), (&vmm.into(), &own_name), "{vm}");
        let (kind, other) = match by_exit {
            true => ("exits_to_vmm", "ioeventfds"),
            false => ("ioeventfds", "exits_to_vmm"),
        };
        let notified = with_count(vm, kind, notifications);
        let [notified] = notified[..] else {
            panic!("{notifications}: {vm}");
        };
        assert_eq!(notified[other], 0, "{vm}");
        assert_eq!(notified["space"], space);
        assert_eq!(notified["name"], "virtio-pci notify");
        assert_eq!(notified["accesses"], json!([{"write": true, "size": 2}]));
        assert_eq!(vm["ioeventfds"], if by_exit { 0 } else { notifications });
        // Each letter of the guest's report is an exit.
        let printed = fs::read(folder.path().join(name)).unwrap().len();
        for (port, count) in [(PORT, writes), (SERIAL, printed.try_into().unwrap())] {
            let at = with_count(vm, "address", port);
            let [at] = at[..] else {
                panic!("{port}: {vm}");
            };
            assert_eq!(
                (&at["space"], &at["exits_to_vmm"]),
                (&"port".into(), &count.into()),
                "{vm}"
            );
        }
    }
}

#[test]
#[ignore = "boots the lab: cargo xtask lab"]
fn top_names_the_other_process_that_has_an_eventfd() {
    let script = r#"
start_top
mkfifo /end; exec 3<>/end
for way in lent ioeventfd; do
    "$guest" $way </end >/out/$way & echo $way: $!
    has_run $way
done
seen
kill $top; wait $top; true
"#;
    let (shown, folder) = in_l1(&[], script);
    let lines = lines(folder.path());
    let last = lines.last().unwrap();
    for (way, holders) in [("lent", 1), ("ioeventfd", 0)] {
        let vm = vms(last, said(&shown, &format!("{way}: ")))[0];
        let [eventfd] = &vm["addresses"][0]["eventfds"].as_array().unwrap()[..] else {
            panic!("{vm}");
        };
        assert!(eventfd["fd"].is_u64(), "{vm}");
        let found = eventfd["holders"].as_array().unwrap();
        assert_eq!(found.len(), holders, "{vm}");
        assert!(
            found
                .iter()
                .all(|holder| holder["name"] == "sleep" && holder["pid"] != vm["pid"]),
            "{vm}"
        );
    }
}

#[test]
#[ignore = "boots the lab: cargo xtask lab"]
fn an_ioeventfd_is_advised_to_qemu_without_one_and_not_to_one_that_has_it() {
    let script = format!(
        r#"{RUN}
rows="mmio-no-eventfd mmio-wildcard-eventfd notify-mmio-wildcard-eventfd"
"$vmbell" bench --backend kvm --runs 9 --ops 100 $rows --export-json /out/costs >/dev/null 2>&1 || fail no costs
for way in off on; do
    for try in 1 2 3; do
        /qemu {QEMU},ioeventfd=$way -name web-1 -append "ops=100000 batches=20 only=virtio-rng-notify-idle" \
            </dev/null >/out/report-$way & pid=$!
        # There is no table before QEMU has made its VM.
        table() {{ "$vmbell" top --once -d 3 --pid $pid --costs /out/costs >/out/table-$way; }}
        for time in $(seq 20); do
            # The guest has begun to notify, and a whole table of it is next.
            table && grep -q 'virtio-pci notify' /out/table-$way && {{ table || fail no table; break; }}
            sleep 0.5
        done
        kill -KILL $pid; wait $pid
        # It may hang under emulated SVM: docs/emulator-bugs.md.
        grep -q 'virtio-pci notify' /out/table-$way && break
    done
done; true
"#
    );
    let (_, folder) = in_l1_with_qemu(&script);
    let table = |way| fs::read_to_string(folder.path().join(format!("table-{way}"))).unwrap();
    let (off, on) = (table("off"), table("on"));
    for table in [&off, &on] {
        assert!(table.contains("virtio-pci notify?"), "{table}");
    }
    let [advice] = advised(&off)[..] else {
        panic!("{off}");
    };
    assert!(advice.contains("virtio-pci notify?"), "{off}");
    assert!(advised(&on).is_empty(), "{on}");
    println!("{off}{on}");
}
