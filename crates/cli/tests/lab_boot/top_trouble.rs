//! `vmbell top` when things go wrong: VMs that are killed, many VMs, and hosts that forbid or lack something.

use std::fs;

use super::top::{in_l1, lines, said, vms};

#[test]
#[ignore = "boots the lab: cargo xtask lab"]
fn top_shows_a_vm_that_is_killed_once_as_ended_with_its_last_counts() {
    let script = r#"
start_top
for n in 1 2 3 4; do
    "$guest" forever >/out/$n & echo "guest $n: $!"
    until [ -s /out/$n ]; do sleep 0.1; done
    seen
    # At another time within a reading's interval.
    sleep 0.$n; kill -KILL $!
    wait $!
done
seen; seen
kill $top; wait $top; true
"#;
    let (shown, folder) = in_l1(&[], script);
    let lines = lines(folder.path());
    for guest in 1..=4 {
        let pid = said(&shown, &format!("guest {guest}: "));
        let of_guest: Vec<_> = lines.iter().flat_map(|line| vms(line, pid)).collect();
        let (last, before) = of_guest.split_last().unwrap();
        assert!(before.iter().all(|vm| vm["ended"] == false), "{of_guest:?}");
        assert_eq!(last["ended"], true, "{of_guest:?}");
        assert_eq!(last["vmm"], "kvm_smoke");
        // The last exit may have come before its dot was printed.
        let printed = fs::read_to_string(folder.path().join(guest.to_string())).unwrap();
        let dots = printed.matches('.').count();
        let at_port = last["addresses"][0]["exits_to_vmm"].as_u64().unwrap();
        let at_port = usize::try_from(at_port).unwrap();
        assert!(at_port == dots || at_port == dots + 1, "{dots} {last}");
        let counts = of_guest.iter().map(|vm| vm["exits_to_vmm"].as_u64());
        assert!(counts.is_sorted(), "{of_guest:?}");
    }
    for line in &lines {
        assert_eq!(line["lost"], 0);
    }
}

#[test]
#[ignore = "boots the lab: cargo xtask lab"]
fn top_counts_fifty_vms_at_once_to_the_unit() {
    const GUESTS: usize = 50;
    let script = r#"
start_top
mkfifo /end
exec 3<>/end
n=0
while [ $n -lt 50 ]; do
    n=$((n + 1)); way=exit
    [ $((n % 2)) = 0 ] || way=ioeventfd
    "$guest" $way </end >/out/$n & echo "guest $n: $!"
done
for n in $(seq 50); do
    until grep -q '^[0-9]* [0-9]*$' /out/$n; do sleep 0.2; done
done
seen
echo table; "$vmbell" top --once; echo end
kill $top; wait $top; true
"#;
    let (shown, folder) = in_l1(&["--with", "/usr/bin/seq"], script);
    let lines = lines(folder.path());
    let last = lines.last().unwrap();
    assert_eq!(last["lost"], 0);
    for guest in 1..=GUESTS {
        let pid = said(&shown, &format!("guest {guest}: "));
        let [vm] = vms(last, pid)[..] else {
            panic!("{last}");
        };
        let (exits, rings) = if guest % 2 == 0 { (2000, 0) } else { (0, 2000) };
        let address = &vm["addresses"][0];
        assert_eq!(
            (&address["exits_to_vmm"], &address["ioeventfds"]),
            (&exits.into(), &rings.into()),
            "{vm}"
        );
        assert_eq!(vm["reasons"], serde_json::json!({"hlt": 1}), "{vm}");
        assert_eq!(vm["statistics"]["io_exits"], exits + rings, "{vm}");
        assert_eq!(vm["ended"], false, "{vm}");
    }
    let (_, table) = shown.split_once("table\n").unwrap();
    assert_eq!(table.matches(" kvm_smoke ").count(), GUESTS, "{table}");
}

#[test]
#[ignore = "boots the lab: cargo xtask lab"]
fn top_samples_where_vcpus_are_in_their_vmm_without_programs() {
    let script = r#"
"$guest" forever >/out/dots & busy=$!
mkfifo /end; exec 3<>/end
"$guest" ioeventfd </end >/out/quiet & quiet=$!
has_run quiet
"$vmbell" top --json -d 2 -n 2 --source counters >/out/lines
echo table; "$vmbell" top --once --source counters; echo end
echo busy: $busy; echo quiet: $quiet
kill -KILL $busy $quiet; wait
"#;
    for (kernel, is_sampled) in [("debian:6.1", false), ("debian:6.12", true)] {
        let (shown, folder) = in_l1(&["--kernel", kernel], script);
        let lines = lines(folder.path());
        let last = lines.last().unwrap();
        assert_eq!(last["samples"]["used"], is_sampled, "{last}");
        let [busy, quiet] = ["busy: ", "quiet: "].map(|name| vms(last, said(&shown, name))[0]);
        if !is_sampled {
            assert!(busy["sampled"].is_null(), "{busy}");
            assert!(shown.contains("\nno samples: Linux 6.1.0-"), "{shown}");
            continue;
        }
        // One guest prints a dot between two exits, and is in the VMM for most of the time. The other has halted.
        let address = &busy["sampled"]["addresses"][0];
        assert_eq!(
            (&address["space"], &address["address"]),
            (&"port".into(), &0xb07.into()),
            "{busy}"
        );
        assert_eq!(
            address["accesses"],
            serde_json::json!([{"write": true, "size": 1}])
        );
        let share = |part: &serde_json::Value, all: &serde_json::Value| {
            part.as_f64().unwrap() / all["sampled"]["samples"].as_f64().unwrap()
        };
        assert!(
            (0.2..=1.0).contains(&share(&address["samples"], busy)),
            "{busy}"
        );
        let halted = &quiet["sampled"]["reasons"]["hlt"];
        assert!(share(halted, quiet) > 0.9, "{quiet}");
        assert!(busy["exits_to_vmm"].is_null(), "{busy}");
        assert!(
            shown.lines().any(|line| {
                let cells: Vec<&str> = line.split_whitespace().skip(1).collect();
                cells.starts_with(&["port", "0xb07", "w1"]) && cells[3].starts_with('~')
            }),
            "{shown}"
        );
        assert!(shown.contains("\nsampled: "), "{shown}");
    }
}

#[test]
#[ignore = "boots the lab: cargo xtask lab"]
fn top_says_why_a_source_is_missing_and_falls_back_only_if_none_was_asked_for() {
    let script = r#"
try() { echo "== $1"; shift; "$@" 2>&1; echo status $?; }
try none "$vmbell" top --once -d 0.1
mkfifo /end; exec 3<>/end
"$guest" ioeventfd </end >/out/quiet &
has_run quiet
try root "$vmbell" top --once -d 0.1
try counters "$vmbell" top --once -d 0.1 --source counters
try no-vm "$vmbell" top --once -d 0.1 --pid $$
try user setpriv --reuid 1000 --clear-groups "$vmbell" top --once -d 0.1
try debugfs-only setpriv --bounding-set=-sys_admin --inh-caps=-sys_admin "$vmbell" top --once -d 0.1
try bpf-only setpriv --bounding-set=-sys_admin --inh-caps=-sys_admin "$vmbell" top --once -d 0.1 --source bpf
try namespace unshare --user --map-root-user "$vmbell" top --once -d 0.1 --source bpf
mount -t tmpfs none /sys/kernel/btf
try no-btf "$vmbell" top --once -d 0.1
try no-btf-bpf "$vmbell" top --once -d 0.1 --source bpf
umount /sys/kernel/btf || fail cannot umount
umount /sys/kernel/debug || fail cannot umount debugfs
try no-debugfs "$vmbell" top --once -d 0.1
try no-debugfs-counters "$vmbell" top --once -d 0.1 --source counters
mount -t debugfs none /sys/kernel/debug
mount -t securityfs none /sys/kernel/security
echo integrity >/sys/kernel/security/lockdown
try integrity "$vmbell" top --once -d 0.1
echo confidentiality >/sys/kernel/security/lockdown
try confidentiality "$vmbell" top --once -d 0.1
try confidentiality-bpf "$vmbell" top --once -d 0.1 --source bpf
try time "$vmbell" top --once -d 0.1 --with time
try reasons "$vmbell" top --once -d 0.1 --with reasons
kill -KILL $!; wait; true
"#;
    let (shown, _folder) = in_l1(&[], script);
    let part = |name: &str| {
        let (_, rest) = shown.split_once(&format!("== {name}\n")).unwrap();
        rest.split("== ").next().unwrap()
    };
    let ends = |name: &str, status: i32| {
        let part = part(name);
        assert!(part.ends_with(&format!("status {status}\n")), "{part}");
        part
    };
    // L1 itself runs no VM.
    let none = ends("none", 0);
    assert!(none.contains("vmbell top: 0 VMs, ") && none.contains("\nno VM runs on KVM here\n"));
    let root = ends("root", 0);
    assert!(root.contains("vmbell top: 1 VM, ") && root.contains(" by bpf and counters\n"));
    let counters = ends("counters", 0);
    assert!(counters.contains(" by counters\n") && !counters.contains("no bpf"));
    assert!(ends("no-vm", 1).contains("has no VM on KVM that this user can see"));
    let user = ends("user", 69);
    for reason in ["CAP_SYS_ADMIN", "debugfs is for root"] {
        assert!(user.contains(reason), "{user}");
    }
    let fallen = ends("debugfs-only", 0);
    assert!(
        fallen.contains(" by counters\n") && fallen.contains("\nno bpf: it needs CAP_SYS_ADMIN: ")
    );
    // What is not counted is not shown as 0.
    let row = fallen
        .lines()
        .find(|line| line.contains(" kvm_smoke "))
        .unwrap();
    let cells: Vec<&str> = row.split_whitespace().rev().take(7).collect();
    assert_eq!(cells, ["-", "-", "-", "-", "-", "-", "0"], "{row}");
    // The table is above the notes.
    assert!(fallen.find(row) < fallen.find("\nno bpf: "), "{fallen}");
    assert!(ends("bpf-only", 69).contains("the source bpf cannot be used: it needs CAP_SYS_ADMIN"));
    const NO_BTF: &str = "this kernel has no /sys/kernel/btf/vmlinux (CONFIG_DEBUG_INFO_BTF";
    let is_missing = |name: &str, used: &str, missing: &str| {
        let part = ends(name, 0);
        part.contains(&format!(" by {used}\n")) && part.contains(&format!("\nno {missing}"))
    };
    assert!(is_missing("no-btf", "counters", &format!("bpf: {NO_BTF}")));
    assert!(ends("no-btf-bpf", 69).contains(NO_BTF));
    const NO_DEBUGFS: &str = "/sys/kernel/debug/kvm does not exist: mount debugfs";
    assert!(is_missing(
        "no-debugfs",
        "bpf",
        &format!("counters: {NO_DEBUGFS}")
    ));
    assert!(ends("no-debugfs-counters", 69).contains(NO_DEBUGFS));
    let integrity = ends("integrity", 0);
    assert!(is_missing(
        "integrity",
        "bpf",
        "counters: the kernel's lockdown"
    ));
    assert!(
        integrity
            .lines()
            .filter(|line| line.starts_with("no "))
            .count()
            == 1
    );
    // If a requested count is unavailable, that is an error, and no table is shown without it.
    for (with, metric) in [("time", "time in the VMM"), ("reasons", "exits by reason")] {
        let line = format!("{metric} cannot be counted: the kernel's lockdown (confidentiality)");
        assert!(ends(with, 69).contains(&line), "{}", part(with));
    }
    let confidentiality = ends("confidentiality", 0);
    // One cause gives one note.
    const LOCKED: &str = "the kernel's lockdown (confidentiality) forbids programs";
    let line = format!("\nno exits to the VMM, ioeventfds: {LOCKED}");
    assert!(confidentiality.contains(&line), "{confidentiality}");
    assert_eq!(
        confidentiality.matches(LOCKED).count(),
        1,
        "{confidentiality}"
    );
    // If the kernel forbids what the source is mainly for, the source cannot be used at all.
    let line = format!("error: the source bpf cannot be used: {LOCKED}");
    let refused = ends("confidentiality-bpf", 69);
    assert!(
        refused.contains(&line) && !refused.contains(" PID "),
        "{refused}"
    );
    assert!(ends("namespace", 69).contains("the source bpf cannot be used: bpf(2) is refused"));
}
