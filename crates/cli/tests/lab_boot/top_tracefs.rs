//! `vmbell top` without BPF, by histograms of tracepoints: they count what programs count, and nothing stays behind.

use std::fs;

use serde_json::{Value, json};

use super::top::{counts, in_l1, lines, said, vms};

/// What is left in the kernel, or is there while the command runs.
const LEFT: &str = r#"
T=/sys/kernel/tracing
left() { (ls $T/instances; sed 's/\t.*//' $T/synthetic_events) | tr '\n' ' '; }
gone() { soon '[ -z "$(left)" ]'; echo "$1: $(left)"; }
"#;
const PROGRAMS: [&str; 4] = ["--with", "/bin/ls", "--with", "/usr/bin/tr"];

fn with<'a>(options: &[&'a str]) -> Vec<&'a str> {
    options.iter().copied().chain(PROGRAMS).collect()
}

#[test]
#[ignore = "boots the lab: cargo xtask lab"]
fn tracefs_counts_to_the_unit_what_guests_and_programs_count() {
    let script = r#"
"$vmbell" top --json -d 300ms --with reasons >/out/bpf & bpf=$!
start_top --source tracefs --with reasons
until [ -s /out/bpf ]; do sleep 0.1; done
start_guests
seen; echo guests: $(lines)
for row in mmio-no-eventfd mmio-wildcard-eventfd eoi-pv eoi-x2apic; do
    "$vmbell" bench --backend kvm --only $row --runs 1 --ops 1000 >/out/$row 2>&1 & pid=$!
    wait $pid || fail $row failed; echo $row: $pid; seen
done
seen
kill $top $bpf; wait $top $bpf
exec 3>&- 4>&-
wait
gone left
"#;
    let script = format!("{LEFT}{script}");
    // The other tests here count on an older kernel, and those of `top` on three.
    let options = ["--kernel", "debian:newest", "--vcpus", "4"];
    let (shown, folder) = in_l1(&with(&options), &script);
    let traced = lines(folder.path());
    fs::rename(folder.path().join("bpf"), folder.path().join("lines")).unwrap();
    let by_programs = lines(folder.path());
    for line in &traced {
        assert_eq!(line["tracefs"], json!({"used": true, "missing": []}));
        assert_eq!(line["bpf"], json!({"used": false, "missing": []}));
    }
    // A bench has also guests that end before their threads are seen, and loses their events.
    let until: usize = said(&shown, "guests: ").parse().unwrap();
    assert_eq!(traced[until - 1]["lost"], 0);
    for line in &by_programs {
        assert_eq!(line["tracefs"], json!({"used": false, "missing": []}));
    }
    for way in ["exit", "ioeventfd"] {
        is_what_the_guest_did(&shown, way, &traced, &by_programs);
    }
    let most = |lines: &[Value], row: &str| {
        let all = counts(lines, said(&shown, &format!("{row}: ")));
        ["exits_to_vmm", "eois", "pv_eois"].map(|name| all[name])
    };
    let pv = most(&traced, "eoi-pv");
    assert!(pv[1] >= 2000 && pv[2] * 4 >= pv[1] * 3, "{pv:?}");
    let register = most(&traced, "eoi-x2apic");
    assert!(register[1] >= 2000 && register[2] == 0, "{register:?}");
    // A round to warm up, and a run.
    assert_eq!(notifies(&traced, said(&shown, "mmio-no-eventfd: ")), 2000);
    let by_eventfd = said(&shown, "mmio-wildcard-eventfd: ");
    assert_eq!(notifies(&traced, by_eventfd), 0);
    assert_eq!(said(&shown, "left: "), "");
}

/// The guest's own counts, and all others as programs count them.
fn is_what_the_guest_did(shown: &str, way: &str, traced: &[Value], by_programs: &[Value]) {
    let pid = said(shown, &format!("{way}: "));
    let [traced, by_programs] = [traced, by_programs].map(|lines| {
        let [vm] = vms(lines.last().unwrap(), pid)[..] else {
            panic!("{:?}", lines.last());
        };
        vm
    });
    let exits = if way == "exit" { 2000 } else { 0 };
    assert_eq!(traced["exits_to_vmm"], exits + 1, "{traced}");
    for name in [
        "exits_to_vmm",
        "reasons",
        "exits_by_reason",
        "vcpus",
        "eois",
        "pv_eois",
    ] {
        assert_eq!(traced[name], by_programs[name], "{name} of {traced}");
    }
    for name in [
        "ioeventfds",
        "irqfds",
        "msi_ioctls",
        "lines_raised",
        "kicks",
    ] {
        assert!(traced[name].is_null(), "{name} of {traced}");
    }
    let addresses = traced["addresses"].as_array().unwrap();
    let places: Vec<_> = addresses
        .iter()
        .map(|address| {
            (
                &address["space"],
                &address["address"],
                &address["exits_to_vmm"],
            )
        })
        .collect();
    match exits {
        // A write that signals an ioeventfd is no exit to the VMM.
        0 => assert!(places.is_empty(), "{traced}"),
        _ => assert_eq!(places, [(&"port".into(), &0xb07.into(), &exits.into())]),
    }
    for address in addresses {
        assert_eq!(address["accesses"], json!([{"write": true, "size": 1}]));
        assert!(address["ioeventfds"].is_null(), "{address}");
    }
}

/// The most exits to the VMM for a notification of a process's device.
fn notifies(lines: &[Value], pid: &str) -> u64 {
    let vms = lines.iter().flat_map(|line| vms(line, pid));
    let addresses = vms.flat_map(|vm| vm["addresses"].as_array().unwrap());
    let here = addresses.filter(|one| one["address"] == 0xd000_0050_u64);
    here.map(|one| one["exits_to_vmm"].as_u64().unwrap())
        .max()
        .unwrap_or_default()
}

#[test]
#[ignore = "boots the lab: cargo xtask lab"]
fn tracefs_leaves_nothing_behind_whoever_is_killed() {
    let script = r#"
# A shell without job control has its background processes ignore SIGINT.
run() { env --default-signal=INT "$vmbell" top --once -d 1000 --source tracefs >/dev/null & top=$!; until left | grep -q "vmbell-top-$top-.* vmbell_top_${top}_[0-9]*_port "; do kill -0 $top || fail top ended; sleep 0.1; done; }
guards() { grep -lsz '^remove-tracing-instance$' /proc/[0-9]*/cmdline; }
left_at() { echo "$1: $(left)"; }
left_at before
run; kill -TERM $top; wait $top; left_at term
run; kill -INT $top; wait $top; left_at int
run; kill -KILL $top; wait $top; gone kill
run; guard=$(guards | sed 's,/proc/,,;s,/.*,,'); kill -KILL $guard; kill -TERM $top; wait $top; left_at guard
run; guard=$(guards | sed 's,/proc/,,;s,/.*,,'); kill -KILL $guard $top; wait $top; sleep 1; both=$(left)
[ -n "$both" ] || fail an instance outlives its process
"$vmbell" top --once -d 0.1 --source counters >/dev/null || fail top failed
left_at next
run; first=$top; run; kill -TERM $top; wait $top; left | grep -q "vmbell-top-$first-" || fail the other one is gone
kill -TERM $first; wait $first; left_at two
echo "guards: $(guards)"
"#;
    for kernel in ["debian:6.1", "debian:newest"] {
        let options = with(&["--kernel", kernel, "--with", "/usr/bin/env"]);
        let (shown, _folder) = in_l1(&options, &format!("{LEFT}{script}"));
        for name in [
            "before", "term", "int", "kill", "guard", "next", "two", "guards",
        ] {
            assert_eq!(said(&shown, &format!("{name}: ")), "", "{name}: {shown}");
        }
    }
}

#[test]
#[ignore = "boots the lab: cargo xtask lab"]
fn tracefs_of_one_process_counts_its_vcpus_and_no_others() {
    let script = r#"
"$guest" forever >/dev/null & other=$!
# It does not end by itself before the others have looked.
"$vmbell" bench --backend kvm --only mmio-no-eventfd --runs 1 --ops 10000000 >/dev/null 2>&1 & this=$!
echo this: $this
# Between two of its guests it has no VM.
until [ -s /out/lines ]; do
    kill -0 $this || fail the guests ended
    "$vmbell" top --json -d 300ms --source tracefs --pid $this >/out/lines 2>/dev/null & top=$!
    while [ -e /proc/$top/exe ] && ! [ -s /out/lines ]; do sleep 0.1; done
done
until [ "$(grep -h 'hitcount: ' $T/instances/*/events/kvm/kvm_userspace_exit/hist)" ]; do sleep 0.1; done
seen
echo filter: $(grep -h '^hist:keys=common_pid,reason' $T/instances/*/events/kvm/kvm_userspace_exit/trigger)
echo others: $(grep -h "common_pid: *$other " $T/instances/*/events/*/*/hist)
kill $top; wait $top
kill -KILL $this $other; wait
gone left
"#;
    let (shown, folder) = in_l1(&with(&[]), &format!("{LEFT}{script}"));
    let lines = lines(folder.path());
    let this = said(&shown, "this: ");
    for line in &lines {
        let all = line["vms"].as_array().unwrap().len();
        assert_eq!(all, vms(line, this).len(), "{line}");
    }
    // Those before the first reading that sees the vCPU's thread are not counted.
    assert!(notifies(&lines, this) > 0);
    assert!(
        said(&shown, "filter: ").contains("(common_pid =="),
        "{shown}"
    );
    assert_eq!(said(&shown, "others:"), "", "{shown}");
    assert_eq!(said(&shown, "left: "), "", "{shown}");
}

#[test]
#[ignore = "boots the lab: cargo xtask lab"]
fn exits_whose_addresses_have_no_room_are_lost_and_counted_without_an_address() {
    let script = r#"
start_top --source tracefs
mkfifo /ports; "$guest" every-port </ports >/out/ports & echo ports: $!
exec 3>/ports
until grep -q '^[0-9]* [0-9]*$' /out/ports; do kill -0 $! || fail the guest failed; sleep 0.1; done
seen; seen
kill $top; wait $top
exec 3>&-
wait
"#;
    let (shown, folder) = in_l1(&[], script);
    let lines = lines(folder.path());
    let last = lines.last().unwrap();
    let [vm] = vms(last, said(&shown, "ports: "))[..] else {
        panic!("{last}");
    };
    // And the halt at its end.
    assert_eq!(vm["exits_to_vmm"], 65536, "{}", vm["reasons"]);
    let lost = last["lost"].as_u64().unwrap();
    assert!(lost > 0, "{}", vm["reasons"]);
    assert_eq!(vm["reasons"], json!({"hlt": 1, "unknown port": lost}));
}

#[test]
#[ignore = "boots the lab: cargo xtask lab"]
fn a_host_without_tracefs_says_what_to_do_and_nothing_is_used_in_its_place() {
    let script = r#"
try() { echo "== $1"; shift; "$@" 2>&1; echo status $?; }
try time "$vmbell" top --once -d 0.1 --source tracefs --with time
try user setpriv --reuid 1000 --clear-groups "$vmbell" top --once -d 0.1 --source tracefs
try namespace unshare --pid --fork "$vmbell" top --once -d 0.1 --source tracefs
try reasons setpriv --bounding-set=-sys_admin --inh-caps=-sys_admin "$vmbell" top --once -d 0.1 --with reasons
try both setpriv --bounding-set=-sys_admin --inh-caps=-sys_admin "$vmbell" top --once -d 0.1 --with reasons,time
mount -t securityfs none /sys/kernel/security
echo integrity >/sys/kernel/security/lockdown
try integrity "$vmbell" top --once -d 0.1 --source tracefs
umount /sys/kernel/debug || fail cannot umount debugfs
umount /sys/kernel/tracing || fail cannot umount tracefs
try nowhere "$vmbell" top --once -d 0.1 --source tracefs
try available "$vmbell" top --once -d 0.1
mount -t tracefs none /sys/kernel/tracing
try again "$vmbell" top --once -d 0.1 --source tracefs
echo confidentiality >/sys/kernel/security/lockdown
try confidentiality "$vmbell" top --once -d 0.1 --source tracefs
"#;
    let (shown, _folder) = in_l1(&[], script);
    let part = |name: &str, status: i32| {
        let (_, rest) = shown.split_once(&format!("== {name}\n")).unwrap();
        let part = rest.split("== ").next().unwrap();
        assert!(part.ends_with(&format!("status {status}\n")), "{part}");
        part
    };
    for (name, error) in [
        ("time", "time in the VMM cannot be counted by tracefs"),
        ("user", "tracefs is for root: run as root"),
        ("namespace", "this is not the host's first PID namespace"),
        (
            "nowhere",
            "tracefs is not mounted: `mount -t tracefs none /sys/kernel/tracing`",
        ),
        (
            "confidentiality",
            "the kernel's lockdown (confidentiality) forbids tracefs",
        ),
    ] {
        let line = format!("error: the source tracefs cannot be used: {error}");
        assert!(part(name, 69).contains(&line), "{}", part(name, 69));
    }
    // Reasons can be had without BPF, the VMM's time cannot.
    let reasons = part("reasons", 0);
    assert!(
        reasons.contains(" by tracefs and counters\n")
            && reasons.contains("\nno bpf: it needs CAP_SYS_ADMIN"),
        "{reasons}"
    );
    assert!(part("both", 69).contains("the source bpf cannot be used"));
    assert!(part("available", 0).contains(" by bpf\n"));
    for name in ["integrity", "again"] {
        assert!(part(name, 0).contains(" by tracefs\n"), "{}", part(name, 0));
    }
}
