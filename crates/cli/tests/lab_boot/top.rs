//! `vmbell top` on the VMs of L1: its counts match those of the guests and of KVM, and it leaves nothing attached.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde_json::Value;

use super::boots::{example, host_vmbell, lab, output, text};

/// The functions that programs are attached to.
const ATTACHED: &str = "/sys/kernel/tracing/enabled_functions";

/// What the scripts share.
const BEGIN: &str = include_str!("top.sh");

/// Runs a script in L1, and returns its output and the folder with its files.
pub(super) fn in_l1(options: &[&str], script: &str) -> (String, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let (vmbell, guest) = (host_vmbell(), example("kvm_smoke"));
    let guest = guest.to_str().unwrap();
    let mut command = lab(options);
    command.arg("--out").arg(folder.path());
    for with in [
        vmbell,
        guest,
        "/bin/sleep",
        "/bin/grep",
        "/bin/sed",
        "/usr/bin/setpriv",
        "/usr/bin/unshare",
        "/usr/bin/mkfifo",
        "/bin/mount",
        "/bin/cat",
        "/bin/stty",
        "/usr/bin/script",
        "/bin/umount",
    ] {
        command.args(["--with", with]);
    }
    let script = format!("{BEGIN}{script}");
    let output = output(command.args(["--", "/bin/sh", "-c", &script, "sh", vmbell, guest]));
    let said = text(&output.stdout).to_owned();
    assert!(output.status.success(), "{said}");
    (said, folder)
}

/// The lines of JSON that the command printed.
pub(super) fn lines(folder: &Path) -> Vec<Value> {
    let text = fs::read_to_string(folder.join("lines")).unwrap();
    // The last line may be incomplete if the command was killed.
    let whole = text.rsplit_once('\n').unwrap().0.lines();
    whole
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// The number that a script printed after this name.
pub(super) fn said<'a>(text: &'a str, name: &str) -> &'a str {
    let mut lines = text.lines().filter_map(|line| line.strip_prefix(name));
    lines
        .next()
        .unwrap_or_else(|| panic!("no {name} in {text}"))
        .trim()
}

/// The highest counts of a process in any line, summed over its VMs.
pub(super) fn counts(lines: &[Value], pid: &str) -> BTreeMap<String, u64> {
    let mut highest = BTreeMap::new();
    for line in lines {
        let mut sums: BTreeMap<String, u64> = BTreeMap::new();
        for vm in vms(line, pid) {
            for (name, count) in vm.as_object().unwrap() {
                *sums.entry(name.clone()).or_default() += count.as_u64().unwrap_or_default();
            }
        }
        for (name, sum) in sums {
            let known: &mut u64 = highest.entry(name).or_default();
            *known = sum.max(*known);
        }
    }
    highest
}

/// The rows of the table of advice. Without a terminal's limit, each is one line.
pub(super) fn advised(text: &str) -> Vec<&str> {
    let titles = |line: &&str| !line.ends_with("WHAT WOULD COST LESS");
    let rows = text.lines().skip_while(titles).skip(1);
    rows.take_while(|line| !line.is_empty()).collect()
}

pub(super) fn vms<'a>(line: &'a Value, pid: &str) -> Vec<&'a Value> {
    let pid: u64 = pid.parse().unwrap();
    let vms = line["vms"].as_array().unwrap().iter();
    vms.filter(|vm| vm["pid"] == pid).collect()
}

#[test]
#[ignore = "boots the lab: cargo xtask lab"]
fn top_counts_to_the_unit_what_two_guests_do_at_once() {
    // Linux 7 may preempt a program, and then reports lost events: docs/top.md.
    for (kernel, boots) in [("debian:6.1", 1), ("debian:6.12", 1), ("debian:newest", 3)] {
        assert!(
            (0..boots).any(|_| counts_what_two_guests_do_at_once(kernel)),
            "{kernel}"
        );
    }
}

/// Fails for a wrong count, and returns whether no event was lost.
fn counts_what_two_guests_do_at_once(kernel: &str) -> bool {
    let script = r#"
start_top
start_guests
seen
# Later lines may show a guest that is ending and has already closed some of its descriptors.
echo waiting: $(lines)
echo table; "$vmbell" top --once; echo end
exec 3>&- 4>&-
seen
echo attached: $(attached)
kill -KILL $top; wait $top
# The kernel frees what a killed process had a moment later.
soon '[ $(attached) = 0 ]'
echo left: $(attached)
"#;
    let (shown, folder) = in_l1(&["--kernel", kernel, "--vcpus", "4"], script);
    let lines = lines(folder.path());
    for line in &lines {
        if line["lost"] != 0 {
            return false;
        }
        assert_eq!(
            line["bpf"],
            serde_json::json!({"used": true, "missing": []})
        );
    }
    let guest = |way: &str| fs::read_to_string(folder.path().join(way)).unwrap();
    assert!(guest("exit").contains("\n2000 0\n") && guest("ioeventfd").contains("\n0 2000\n"));
    // The last line while both guests wait.
    let waiting: usize = said(&shown, "waiting: ").parse().unwrap();
    let line = &lines[waiting - 1];
    for (way, exits, rings) in [("exit", 2000, 0), ("ioeventfd", 0, 2000)] {
        let pid = said(&shown, &format!("{way}: "));
        let [vm] = vms(line, pid)[..] else {
            panic!("{line}");
        };
        let address = &vm["addresses"][0];
        assert_eq!(
            (&address["space"], &address["address"]),
            (&"port".into(), &0xb07.into()),
            "{vm}"
        );
        assert_eq!(address["exits_to_vmm"], exits, "{vm}");
        assert_eq!(address["ioeventfds"], rings, "{vm}");
        assert_eq!(
            address["accesses"],
            serde_json::json!([{"write": true, "size": 1}])
        );
        assert_eq!(vm["ended"], false, "{vm}");
        // The guest halts once, at the end.
        assert_eq!(vm["reasons"], serde_json::json!({"hlt": 1}), "{vm}");
        assert_eq!(
            (&vm["exits_to_vmm"], &vm["ioeventfds"]),
            (&(exits + 1).into(), &rings.into())
        );
        assert_eq!(vm["statistics"]["io_exits"], exits + rings, "{vm}");
        // The longer the guest takes, the more exits there are for the host's interrupts.
        let [all, hosts] =
            ["exits", "irq_exits"].map(|name| vm["statistics"][name].as_u64().unwrap());
        assert!(
            (exits + rings + 1..exits + rings + 500).contains(&(all - hosts)),
            "{vm}"
        );
        let eventfds = address["eventfds"].as_array().unwrap();
        assert_eq!(eventfds.len(), usize::from(rings > 0), "{vm}");
        assert!(
            eventfds.iter().all(|eventfd| eventfd["fd"].is_u64()),
            "{vm}"
        );
        assert_eq!(vm["vcpus"][0]["thread"].to_string(), pid);
        assert_eq!(vm["vmm"], "kvm_smoke");
        // One of the later lines reports the VM's end, and the others do not list the VM.
        let last = lines.last().unwrap();
        assert!(vms(last, pid).is_empty(), "{last}");
        let table = said(&shown, "table");
        assert!(
            table.is_empty() && shown.contains(&format!("{pid} kvm_smoke")),
            "{shown}"
        );
    }
    assert_ne!(said(&shown, "attached: "), "0");
    assert_eq!(
        said(&shown, "left: "),
        "0",
        "{ATTACHED} after the command was killed"
    );
    true
}

#[test]
#[ignore = "boots the lab: cargo xtask lab"]
fn top_tells_interrupts_and_their_ends_apart() {
    let script = "start_top
bench_rows irqfd-edge-to-halted eoi-pv eoi-x2apic mmio-wildcard-eventfd
stop";
    let (shown, folder) = in_l1(&[], script);
    let lines = lines(folder.path());
    let of = |row: &str| counts(&lines, said(&shown, &format!("{row}: ")));
    let irqfd = of("irqfd-edge-to-halted");
    // A warm-up round and a run.
    assert!(irqfd["irqfds"] >= 600, "{irqfd:?}");
    assert!(irqfd["kicks"] >= 600, "{irqfd:?}");
    // Linux sets the bit for an interrupt only if no other one is pending.
    let (pv, register) = (of("eoi-pv"), of("eoi-x2apic"));
    assert!(
        pv["eois"] >= 300 && pv["pv_eois"] * 4 >= pv["eois"] * 3,
        "{pv:?}"
    );
    assert!(
        register["eois"] >= 300 && register["pv_eois"] == 0,
        "{register:?}"
    );
    let mmio = of("mmio-wildcard-eventfd");
    assert!(mmio["ioeventfds"] >= 600, "{mmio:?}");
}

#[test]
#[ignore = "boots the lab: cargo xtask lab"]
fn top_counts_reasons_and_the_vmms_time_if_it_is_asked_to() {
    let script = r#"
start_top --with reasons,time
start_guest slow-exit
seen
stop
"#;
    let (shown, folder) = in_l1(&[], script);
    let lines = lines(folder.path());
    let last = lines.last().unwrap();
    assert_eq!(last["lost"], 0);
    let [vm] = vms(last, said(&shown, "slow-exit: "))[..] else {
        panic!("{last}");
    };
    let reasons = vm["exits_by_reason"].as_object().unwrap();
    assert_eq!((&reasons["io"], &reasons["hlt"]), (&2000.into(), &1.into()));
    let sum: u64 = reasons.values().map(|count| count.as_u64().unwrap()).sum();
    assert_eq!(vm["statistics"]["exits"], sum, "{vm}");
    let port = &vm["addresses"][0];
    // The VMM slept for a millisecond each time.
    let time = port["vmm_nanoseconds"].as_u64().unwrap();
    assert!(time >= 2000 * 1_000_000, "{vm}");
    // The vCPU is still halted.
    assert_eq!(vm["reasons"]["hlt"], 1);
    assert_eq!(vm["vmm_nanoseconds"], time, "{vm}");
    assert!(port["answered_by_kvm"].is_null());
}

#[test]
#[ignore = "boots the lab: cargo xtask lab"]
fn top_tells_the_exits_of_two_vcpus_apart() {
    let script = r#"
start_top --with reasons --export-openmetrics /out/top.prom
"$vmbell" top -b -d 300ms --with reasons >/out/tables & tables=$!; until [ -s /out/tables ]; do sleep 0.1; done
start_guest two-vcpus
seen
stop $tables
"#;
    let (shown, folder) = in_l1(&[], script);
    let pid = said(&shown, "two-vcpus: ");
    let lines = lines(folder.path());
    let last = lines.last().unwrap();
    assert_eq!(last["lost"], 0);
    let [vm] = vms(last, pid)[..] else {
        panic!("{last}");
    };
    let all = vm["exits_by_reason"].as_object().unwrap();
    let vcpus = vm["vcpus"].as_array().unwrap();
    let of = |vcpu: usize, reason: &str| &vcpus[vcpu]["exits_by_reason"][reason];
    assert_eq!((&vcpus[0]["id"], &vcpus[1]["id"]), (&0.into(), &1.into()));
    assert_ne!(vcpus[0]["thread"], vcpus[1]["thread"], "{vm}");
    for (vcpu, writes) in [(0, 2000), (1, 500)] {
        assert_eq!(
            (of(vcpu, "io"), of(vcpu, "hlt")),
            (&writes.into(), &1.into()),
            "{vm}"
        );
    }
    for (reason, sum) in all {
        let each = [0, 1].map(|vcpu| of(vcpu, reason).as_u64().unwrap_or_default());
        assert_eq!(*sum, each[0] + each[1], "{reason}: {vm}");
    }
    let sum: u64 = all.values().map(|count| count.as_u64().unwrap()).sum();
    assert_eq!(vm["statistics"]["exits"], sum, "{vm}");

    // The metrics and the tables also have both vCPUs.
    let read = |name: &str| fs::read_to_string(folder.path().join(name)).unwrap();
    let (metrics, tables) = (read("top.prom"), read("tables"));
    for (vcpu, writes) in [(0, 2000), (1, 500)] {
        let labels = format!("vcpu=\"{vcpu}\",reason=\"io\"}} {writes}\n");
        let series = format!("vmbell_vm_exits_by_reason_total{{pid=\"{pid}\"");
        let found = metrics
            .split_inclusive('\n')
            .any(|line| line.starts_with(&series) && line.ends_with(&labels));
        assert!(found, "{metrics}");
        let row = format!("{pid} {vcpu} io ");
        let has_row = tables.lines().any(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            words.join(" ").starts_with(&row)
        });
        assert!(has_row, "{tables}");
    }
}

#[test]
#[ignore = "boots the lab: cargo xtask lab"]
fn top_counts_what_kvm_answers_if_it_is_asked_to() {
    let script = "start_top --with kernel
bench_rows eoi-apic eoi-x2apic outl_to_kernel
stop";
    let (shown, folder) = in_l1(&[], script);
    let lines = lines(folder.path());
    let most = |row: &str, space: &str, address: u64| {
        let pid = said(&shown, &format!("{row}: "));
        let vms = lines.iter().flat_map(|line| vms(line, pid));
        let all = vms.flat_map(|vm| {
            assert!(vm["exits_by_reason"].is_null() && vm["vmm_nanoseconds"].is_null());
            vm["addresses"].as_array().unwrap()
        });
        let here = all.filter(|one| one["space"] == space && one["address"] == address);
        here.map(|one| {
            assert!(one["vmm_nanoseconds"].is_null(), "{one}");
            one["answered_by_kvm"].as_u64().unwrap()
        })
        .max()
    };
    // A warm-up round and a run.
    assert!(most("eoi-apic", "mmio", 0xfee0_00b0) >= Some(600));
    assert!(most("eoi-x2apic", "msr", 0x80b) >= Some(600));
    assert!(most("outl_to_kernel", "port", 0x4d0) >= Some(600));
    // EOIs by the x2APIC register only, never by both.
    assert!(most("eoi-x2apic", "mmio", 0xfee0_00b0).is_none());
}

#[test]
#[ignore = "boots the lab: cargo xtask lab"]
fn top_takes_costs_from_a_report_of_this_host_only() {
    let script = r#"
rows="portio-no-eventfd mmio-no-eventfd mmio-wildcard-eventfd"
"$vmbell" bench --backend kvm --runs 9 --ops 100 $rows --export-json /out/costs >/dev/null 2>&1 || fail bench failed
"$vmbell" bench --backend kvm --only mmio-no-eventfd --runs 1 --ops 1000000 >/dev/null 2>&1 & busy=$!
echo busy: $busy
top_until() { until "$vmbell" top --once "$@" >/out/shown 2>&1 && grep -q "$busy  mmio" /out/shown; do kill -0 $busy || fail the guest ended; sleep 0.2; done; }
top_until --costs /out/costs
grep "$busy  mmio\|ADDRESS\|^costs" /out/shown
top_until
echo without; grep "^costs" /out/shown
kill -KILL $busy; wait
sed 's/"kernel": *"Linux /"kernel": "Linux 0./' /out/costs >/out/others
echo other; "$vmbell" top --once --costs /out/others 2>&1; echo status $?
"#;
    let (shown, _folder) = in_l1(&[], script);
    let (with, rest) = shown.split_once("without\n").unwrap();
    let (without, other) = rest.split_once("other\n").unwrap();
    let titles = with.lines().find(|line| line.contains("ADDRESS")).unwrap();
    let row = with.lines().find(|line| line.contains(" mmio ")).unwrap();
    assert!(titles.ends_with("  RINGS/s   CORE  WHAT"), "{with}");
    let cores = row[titles.find("RINGS/s").unwrap() + 7..].split_whitespace();
    let cores: f64 = cores.clone().next().unwrap().parse().unwrap();
    assert!(cores > 0.0, "{with}");
    assert!(!with.contains("\ncosts: "), "{with}");
    assert!(
        without.starts_with("costs: unknown; `vmbell bench --all"),
        "{without}"
    );
    assert!(
        other.contains("it is of another host; there and here differ: kernel: 'Linux 0."),
        "{other}"
    );
    assert!(other.contains("status 1\n"), "{other}");
}

#[test]
#[ignore = "boots the lab: cargo xtask lab"]
fn top_counts_what_it_has_no_room_for_as_lost() {
    let script = r#"
start_top
start_guest every-port
seen
stop
"#;
    let (shown, folder) = in_l1(&[], script);
    let guest = fs::read_to_string(folder.path().join("every-port")).unwrap();
    assert!(guest.ends_with("\n65535 0\n"), "{guest}");
    let lines = lines(folder.path());
    let last = lines.last().unwrap();
    let [vm] = vms(last, said(&shown, "every-port: "))[..] else {
        panic!("{last}");
    };
    let (seen, lost) = (vm["exits_to_vmm"].as_u64(), last["lost"].as_u64());
    // The total includes the halt at the program's end.
    assert_eq!(seen.unwrap() + lost.unwrap(), 65536, "{last}");
    assert!(lost.unwrap() > 0 && seen.unwrap() > 16000);
}

#[test]
#[ignore = "boots the lab: cargo xtask lab"]
fn top_of_one_process_counts_its_vms_and_no_others() {
    let script = r#"
both() { "$vmbell" bench --backend kvm --only mmio-$1-eventfd --runs 1 --ops 1000000 >/dev/null 2>&1 & }
both no; other=$!
both wildcard; this=$!
echo this: $this; echo other: $other
until "$vmbell" top --json -n 1 -d 2 --pid $this >/out/lines 2>/dev/null && grep -q '"address":3489661008' /out/lines; do kill -0 $this $other || fail a guest ended; sleep 0.2; done
kill -KILL $this $other; wait
"#;
    let (shown, folder) = in_l1(&[], script);
    let lines = lines(folder.path());
    let [line] = &lines[..] else {
        panic!("{lines:?}");
    };
    let this = said(&shown, "this: ");
    let mine = vms(line, this).len();
    assert_eq!(line["vms"].as_array().unwrap().len(), mine, "{line}");
    let counts = counts(&lines, this);
    assert!(counts["ioeventfds"] > 0, "{line}");
}
