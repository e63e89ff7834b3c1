//! Measurements in L1: the reports of `bench`, and deterministic mode.

use std::fs;
use std::process::{Command, Output, Stdio};
use std::sync::LazyLock;

use serde_json::Value;

use super::boots::{LIMITS, example, host_vmbell, lab, output, text};

/// A deterministic bench without devices.
static DETERMINISTIC: LazyLock<(Output, Value)> = LazyLock::new(|| deterministic(&[]));

/// The same programs run twice in deterministic mode, each time in a new boot: their output, and the report of
/// `bench eoi`.
static TWICE: LazyLock<[(Output, Value); 2]> = LazyLock::new(|| {
    [(), ()].map(|()| {
        let out = tempfile::tempdir().unwrap();
        let vmbell = host_vmbell();
        let smoke = example("kvm_smoke");
        let smoke = smoke.to_str().unwrap();
        let script = "\"$0\" && \"$1\" bench eoi --deterministic --interrupts 500 --export-json /out/report >/dev/null";
        let mut command = lab(&["--deterministic", "--with", vmbell, "--with", smoke]);
        command.arg("--out").arg(out.path());
        let output = output(command.args(["--", "/bin/sh", "-c", script, smoke, vmbell]));
        let report = fs::read_to_string(out.path().join("report"));
        let report = report.unwrap_or_else(|error| panic!("{error}: {output:?}"));
        (output, serde_json::from_str(&report).unwrap())
    })
});

fn deterministic(options: &[&str]) -> (Output, Value) {
    let names = [
        "floor-getppid",
        "floor-cache-line",
        "debug-constant",
        "portio-no-eventfd",
    ];
    bench(&[&["--deterministic"], options].concat(), &names)
}

fn bench(machine: &[&str], arguments: &[&str]) -> (Output, Value) {
    let folder = tempfile::tempdir().unwrap();
    let report = folder.path().join("report.json");
    let mut command = Command::new(host_vmbell());
    command.args(["lab", "kernel"]).args(LIMITS).args(machine);
    command.args(["--", "vmbell", "bench", "--only", "--export-json"]);
    command.arg(&report).args(arguments).stdin(Stdio::null());
    let output = output(&mut command);
    let report = serde_json::from_str(&fs::read_to_string(report).unwrap()).unwrap();
    (output, report)
}

fn row<'r>(report: &'r Value, name: &str) -> &'r Value {
    let rows = report["results"].as_array().unwrap();
    rows.iter().find(|row| row["command"] == name).unwrap()
}

/// The output, with its lines joined.
fn words(printed: &[u8]) -> String {
    let text = text(printed);
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
#[ignore = "boots the lab: cargo xtask lab"]
fn deterministic_mode_says_the_same_twice() {
    let [first, second] = &*TWICE;
    assert!(first.0.status.success());
    assert_eq!(text(&first.0.stdout), text(&second.0.stdout));
    println!("{}", text(&first.0.stdout));
    assert_eq!(first.1["results"], second.1["results"]);
}

#[test]
#[ignore = "boots the lab: cargo xtask lab"]
fn a_deterministic_bench_counts_instructions_and_skips_what_needs_two_cpus() {
    let (output, report) = &*DETERMINISTIC;
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(report["timing"], "emulated");
    assert_eq!(report["unit"], "instructions");
    // A system call takes a few hundred instructions on every kernel.
    let instructions = row(report, "floor-getppid")["instructions"]
        .as_f64()
        .unwrap();
    assert!((50.0..5000.0).contains(&instructions), "{instructions}");
    assert_eq!(row(report, "debug-constant")["instructions"], 100.0);
    let skipped = row(report, "floor-cache-line");
    assert_eq!(skipped["status"], "skipped");
    assert_eq!(skipped["reason"], "needs two CPUs, and may use only CPU 0");
    assert!(words(&output.stdout).contains("timing emulated: numbers are instructions"));
}

#[test]
#[ignore = "boots the lab: cargo xtask lab"]
fn an_idle_device_leaves_the_figures_of_a_deterministic_bench() {
    let of = |(output, report): &(Output, Value)| {
        assert!(output.status.success());
        let row = row(report, "portio-no-eventfd");
        let instructions = row["instructions"].as_f64().unwrap();
        (instructions, row["exits"].clone())
    };
    let (without, with) = (of(&DETERMINISTIC), of(&deterministic(&["--device", "edu"])));
    assert_eq!(without.1, with.1);
    let ratio = with.0 / without.0;
    assert!((0.95..1.05).contains(&ratio), "{without:?} {with:?}");
}

#[test]
#[ignore = "boots the lab: cargo xtask lab"]
fn a_benchs_own_status_passes_through_with_its_report_and_the_usermode_backend_runs_too() {
    let rows = ["portio-no-eventfd", "portio-wildcard-eventfd", "self-ipi"];
    let debug = ["debug-constant", "debug-fail"];
    let arguments = ["--backend", "usermode", "--ops", "200"];
    let arguments = [&arguments[..], &rows, &debug].concat();
    let (output, report) = bench(&["--functional"], &arguments);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(report["timing"], "emulated");
    assert_eq!(report["unit"], "time");
    for name in rows {
        assert_eq!(
            row(&report, name)["status"],
            "ok",
            "{}",
            text(&output.stdout)
        );
    }
    let constant = row(&report, "debug-constant");
    assert_eq!(constant["instructions"], Value::Null);
    assert_eq!(row(&report, "debug-fail")["status"], "failed");
}

#[test]
#[ignore = "boots the lab: cargo xtask lab"]
fn a_bench_at_the_labs_time_limit_shows_and_exports_the_rows_that_it_has() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("report.json");
    let mut command = Command::new(host_vmbell());
    command.args(["lab", "--timeout", "5s", "--", "vmbell", "bench", "--only"]);
    command.args(["debug-constant", "debug-loop", "--run-timeout", "0"]);
    // In this order, the row that never ends is the second.
    command.args(["--warmup", "0", "--ops", "10", "--seed", "1"]);
    command.arg("--export-json").arg(&path);
    let output = output(command.stdin(Stdio::null()));
    assert_eq!(output.status.code(), Some(124));
    let said = text(&output.stdout);
    let limit = "TIME LIMIT reached before the end";
    assert!(words(&output.stdout).contains(limit), "{said}");
    assert!(said.contains("\ndebug-constant "), "{said}");
    let missing = "debug-loop was still running at the time limit";
    assert!(said.contains(missing), "{said}");
    let report: Value = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
    assert_eq!(report["timed_out"], true);
    assert_eq!(row(&report, "debug-constant")["instructions"], 100.0);
    assert_eq!(row(&report, "debug-loop")["reason"], missing);
}

#[test]
#[ignore = "boots the lab: cargo xtask lab"]
fn what_kvm_keeps_for_each_thing_that_is_made_is_counted_in_a_cgroup() {
    let (output, report) = bench(&["--deterministic", "--cgroup"], &["vm-*"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stdout));
    let kib = |name: &str| row(&report, name)["kernel_memory_bytes"].as_f64().unwrap() / 1024.0;
    // Linux has a `struct _ioeventfd` or a `struct kvm_kernel_irqfd` for each, and a list of all.
    assert!(
        (50.0..500.0).contains(&kib("vm-1000-ioeventfds")),
        "{report:#}"
    );
    assert!(
        (200.0..1500.0).contains(&kib("vm-1000-irqfds")),
        "{report:#}"
    );
    for name in ["vm-create", "vm-vcpu"] {
        assert!((8.0..2048.0).contains(&kib(name)), "{report:#}");
    }
}

#[test]
#[ignore = "boots the lab: cargo xtask lab"]
fn kvm_copies_a_bus_for_each_registration_so_it_costs_more_with_many_others() {
    let names = [
        "ioeventfd-*-later",
        "irqfd-assign-first",
        "irqfd-deassign-first",
    ];
    let arguments = [&names[..], &["--doorbells", "0,1000"]].concat();
    let (output, report) = bench(&["--deterministic"], &arguments);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stdout));
    let rows = report["results"].as_array().unwrap();
    assert_eq!(rows.len(), 8);
    assert!(rows.iter().all(|row| row["status"] == "ok"));
    let of = |name: &str| row(&report, name)["instructions"].as_f64().unwrap();
    for name in ["ioeventfd-assign-later", "ioeventfd-deassign-later"] {
        let [none, many] = [0, 1000].map(|others| of(&format!("{name},doorbells={others}")));
        // Copying takes at least one instruction for each of them.
        assert!(many > none + 1000.0, "{name}: {none} {many}");
    }
}

#[test]
#[ignore = "boots the lab: cargo xtask lab"]
fn the_kernel_counts_one_exit_less_for_each_interrupt_with_pv_eoi() {
    const INTERRUPTS: u64 = 500;
    let [(_, report), _] = &*TWICE;
    let count = |mode: &str, event: &str| {
        let results = report["results"].as_array().unwrap();
        let row = results.iter().find(|row| row["command"] == mode).unwrap();
        let count = &row["events"][format!("kvm:kvm_{event}")][0];
        count.as_u64().unwrap_or_else(|| panic!("{event}: {count}"))
    };
    for mode in ["pv-eoi-off", "pv-eoi-on"] {
        for event in ["msi_set_irq", "eoi"] {
            assert_eq!(count(mode, event), INTERRUPTS, "{event}, {mode}");
        }
        // If the guest exits while it is being entered, for a page that is not mapped yet, KVM injects the interrupt
        // twice.
        assert!(count(mode, "inj_virq") >= INTERRUPTS, "{mode}");
        // The filter by reason finds the same exits as the tracepoint of their handler.
        assert_eq!(count(mode, "exit:msr"), count(mode, "msr"), "{mode}");
    }
    let [off, on] = ["pv-eoi-off", "pv-eoi-on"].map(|mode| {
        // How often the guest halts, waits until it can take an interrupt, or is interrupted by the host depends on
        // L1's scheduling of the thread that sends interrupts.
        let scheduled = ["exit:hlt", "exit:vintr", "exit:interrupt"];
        let scheduled: u64 = scheduled.iter().map(|event| count(mode, event)).sum();
        let others = count(mode, "exit") - scheduled;
        (count(mode, "msr"), count(mode, "pv_eoi"), others)
    });
    assert_eq!((off.0, off.1), (INTERRUPTS, 0));
    // An exit for L1's own work, such as its timer, may clear the bit.
    assert!(
        on.0 <= INTERRUPTS / 50 && on.1 >= INTERRUPTS * 99 / 100,
        "{on:?}"
    );
    assert!(
        off.2 >= on.2 + INTERRUPTS * 98 / 100,
        "{off:?} {on:?}, {report}"
    );
}
