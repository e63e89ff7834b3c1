//! `vmbell bench vmms` with doubles of VMMs: shell scripts that print what a VMM could.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::Duration;

use predicates::prelude::*;
use serde_json::Value;
use tempfile::TempDir;

use super::common::{argument, growing, read_json, stdout, vmbell};
use super::ends::{end, send};
use super::schema::violations;
use super::wait::await_that;

/// What the image prints, with `ticks` in each of three batches of ten operations.
fn printed(ticks: u32) -> String {
    format!(
        r#"firmware
=== vmbell-probe start ===
row cpuid
=== vmbell-probe begin 1 ===
{{"version":1,"boot":"pvh","cpu":{{"vendor":"GenuineIntel","brand":"A CPU"}},"hypervisor":"KVMKVMKVM","apic":"xapic","cpus":1,"tsc_hz":1000000000,"tsc_source":"pvclock","devices":[{{"kind":"rng","transport":"pci","found_by":"pci-cf8","interrupt":"msix","gsi":null}}],"rows":[{{"name":"cpuid","mark":1,"operations":10,"samples":[{ticks},{ticks},{ticks}]}},{{"name":"pm-timer-read","mark":9,"reason":"the FADT names no PM timer"}}],"end":"pm1a"}}
=== vmbell-probe end ===
"#
    )
}

/// A folder with scripts that stand for VMMs.
struct Doubles {
    folder: TempDir,
    words: Vec<String>,
}

impl Doubles {
    fn new() -> Self {
        Self {
            folder: TempDir::new().unwrap(),
            words: Vec::new(),
        }
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    /// Adds a VMM that runs this script.
    fn script(mut self, name: &str, script: &str) -> Self {
        let path = self.path(&format!("{name}.sh"));
        fs::write(&path, script).unwrap();
        self.words.push(format!(
            "{name}=/bin/sh '{path}' {{image}} {{cmdline}} {{disk}}"
        ));
        self
    }

    /// Adds a VMM that prints this text.
    fn prints(self, name: &str, text: &str) -> Self {
        let path = self.path(&format!("{name}.txt"));
        fs::write(&path, text).unwrap();
        self.script(name, &format!("cat '{path}'\n"))
    }

    /// The command with all of them, in their order.
    fn command(&self, names: &[&str], args: &[&str]) -> assert_cmd::Command {
        let mut words = vec!["bench", "vmms"];
        words.extend(names);
        for word in &self.words {
            words.extend(["--vmm", word]);
        }
        words.extend(args);
        if !args.contains(&"--exits") {
            // The same boots whatever this host allows.
            words.extend(["--exits", "off"]);
        }
        vmbell(&words)
    }
}

fn shared(text: &str, name: &str) -> String {
    let line = text.lines().find(|line| line.starts_with(name));
    line.unwrap_or_else(|| panic!("no line {name} in:\n{text}"))
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ")
}

#[test]
fn vmms_stand_side_by_side_and_the_best_is_marked() {
    let doubles = Doubles::new()
        .prints("one", &printed(1000))
        .prints("two", &printed(2000));
    let text = stdout(&mut doubles.command(&["one", "two"], &["--runs", "2"]));
    assert_eq!(shared(&text, "cpuid"), "cpuid 100 ns* 200 ns", "{text}");
    assert!(text.contains("boots by pvh"), "{text}");
    assert!(text.contains("the FADT names no PM timer"), "{text}");
}

#[test]
fn ratios_are_to_the_first_vmm() {
    let doubles = Doubles::new()
        .prints("one", &printed(1000))
        .prints("two", &printed(2000));
    let text = stdout(&mut doubles.command(&["two", "one"], &["--runs", "1", "--ratios"]));
    assert_eq!(shared(&text, "cpuid"), "cpuid 1 0.50*", "{text}");
}

#[test]
fn vmms_take_turns_in_the_order_of_a_seed() {
    let mut doubles = Doubles::new();
    let (log, report) = (doubles.path("log"), doubles.path("report.json"));
    for name in ["a", "b", "c"] {
        let text = doubles.path("text");
        fs::write(&text, printed(1000)).unwrap();
        doubles = doubles.script(name, &format!("printf {name} >> '{log}'; cat '{text}'\n"));
    }
    let order = |seed: &[&str]| {
        let _ = fs::remove_file(&log);
        let args = [&["--runs", "9", "--export-json", &report], seed].concat();
        doubles.command(&["a", "b", "c"], &args).assert().code(0);
        fs::read_to_string(&log).unwrap()
    };
    let first = order(&[]);
    let turns: BTreeSet<&[u8]> = first.as_bytes().chunks(3).collect();
    let whole = turns
        .iter()
        .all(|turn| b"abc".iter().all(|vmm| turn.contains(vmm)));
    assert!(first.len() == 27 && whole, "{first}");
    // All nine turns are of one order by chance once in more than a million runs.
    assert!(turns.len() > 1, "{first}");
    let seed = read_json(Path::new(&report))["seed"].to_string();
    assert_eq!(order(&["--seed", &seed]), first);
}

#[test]
fn the_time_limit_of_the_command_ends_it_with_what_is_finished() {
    let one = Doubles::new().prints("one", &printed(1000));
    let doubles = one.script("two", "exec sleep 1000");
    let report = doubles.path("report.json");
    // With this seed the first VMM is booted before the other one.
    let args = ["--seed", "1", "--export-json", &report, "--timeout"];
    let is_enough = growing(Duration::from_secs(1)).any(|timeout| {
        let timeout = argument(timeout);
        let args = [&args[..], &[&timeout]].concat();
        let assert = doubles.command(&["one", "two"], &args).assert().code(124);
        let text = String::from_utf8_lossy(&assert.get_output().stdout).into_owned();
        assert!(
            text.contains("; TIME LIMIT reached before the end"),
            "{text}"
        );
        read_json(Path::new(&report))["vmms"][0]["boots"] == 1
    });
    assert!(is_enough);
    let report = read_json(Path::new(&report));
    assert_eq!(report["timed_out"], true);
    assert_eq!(report["interrupted"], false);
    assert_eq!(report["vmms"][1]["status"], "skipped");
}

#[test]
fn a_vmm_runs_on_the_cpus_that_are_asked_for() {
    let doubles = Doubles::new();
    let (seen, text, report) = (
        doubles.path("seen"),
        doubles.path("text"),
        doubles.path("report.json"),
    );
    fs::write(&text, printed(1000)).unwrap();
    let script = format!("grep Cpus_allowed_list /proc/self/status > '{seen}'; cat '{text}'");
    let doubles = doubles.script("one", &script);
    let args = ["--runs", "1", "--cpu", "0", "--export-json", &report];
    doubles.command(&["one"], &args).assert().code(0);
    assert_eq!(
        fs::read_to_string(&seen).unwrap(),
        "Cpus_allowed_list:\t0\n"
    );
    assert_eq!(
        read_json(Path::new(&report))["cpus"],
        serde_json::json!([0])
    );
}

#[test]
fn an_absent_cpu_is_refused_by_every_suite() {
    for suite in ["vmms", "rings", "eoi", "paths"] {
        vmbell(&["bench", suite, "--cpu", "1023"])
            .assert()
            .code(2)
            .stderr(predicate::str::contains(
                "CPU 1023 does not exist or is not allowed",
            ));
    }
}

#[test]
fn a_double_is_given_the_image_its_words_and_a_disk() {
    let doubles = Doubles::new();
    let (seen, text) = (doubles.path("seen"), doubles.path("text"));
    fs::write(&text, printed(1000)).unwrap();
    let script = format!(
        "head -c 4 \"$1\" > '{seen}'; echo \" $2\" >> '{seen}'; wc -c < \"$3\" >> '{seen}'; cat '{text}'\n"
    );
    let doubles = doubles.script("one", &script);
    doubles
        .command(
            &["one"],
            &[
                "--runs",
                "1",
                "--ops",
                "7",
                "--batches",
                "3",
                "--only",
                "cpuid,timer",
            ],
        )
        .assert()
        .code(0);
    assert_eq!(
        fs::read_to_string(seen).unwrap(),
        "\x7fELF ops=7 batches=3 verbose only=cpuid,timer\n1048576\n"
    );
}

#[test]
fn each_bad_vmm_has_a_clear_result_and_the_others_go_on() {
    let whole = printed(1000);
    let half = &whole[..whole.find("samples").unwrap()];
    let doubles = Doubles::new()
        .prints("garbage", "\u{1b}[31m\u{fffd}\u{0}one two\n")
        .prints("half", half)
        .prints("nothing", "")
        .script("too-much", "exec yes abc")
        .script(
            "endless",
            "echo '=== vmbell-probe start ==='; echo row rtc-read; exec sleep 1000",
        )
        .script("dies", "echo 'fatal: no such machine' >&2; exit 3")
        .prints("good", &whole);
    let names = [
        "garbage", "half", "nothing", "too-much", "endless", "dies", "good",
    ];
    let report = doubles.path("report.json");
    // One limit is enough for all but the one that does not end.
    let limit = growing(Duration::from_secs(4)).find(|limit| {
        let limit = argument(*limit);
        let words = ["--time-limit", &limit, "--runs", "2", "--style", "none"];
        let args = [&words[..], &["--export-json", &report]].concat();
        doubles.command(&names, &args).assert().code(1);
        let vmms = &read_json(Path::new(&report))["vmms"];
        let is_late = |vmm: &&Value| vmm.to_string().contains("it took longer than");
        let has_begun = vmms[4].to_string().contains("it was in the row rtc-read");
        has_begun && vmms.as_array().unwrap().iter().filter(is_late).count() == 1
    });
    let limit = limit.expect("some limit is enough");
    let report = read_json(Path::new(&report));
    let vmms = report["vmms"].as_array().unwrap();
    let facts: Vec<(&str, &str, Value)> = vmms
        .iter()
        .map(|vmm| {
            let text = |field: &str| vmm[field].as_str().unwrap_or("-");
            (text("name"), text("reason"), vmm["last_output"].clone())
        })
        .collect();
    let nothing = "it printed nothing of the image";
    let ended = "it ended with exit status: 0";
    let last = |text: &str| Value::from(text);
    assert_eq!(
        facts,
        [
            (
                "garbage",
                &*format!("{nothing}; {ended}"),
                last("[31m\u{fffd}one two")
            ),
            (
                "half",
                &*format!("the image's results break off; {ended}"),
                last("firmware")
            ),
            ("nothing", &*format!("{nothing}; {ended}"), Value::Null),
            (
                "too-much",
                &*format!("{nothing}; it printed more than 1 MiB and was ended"),
                last("abc")
            ),
            (
                "endless",
                &*format!(
                    "the image started and did not come to its results (it was in the row rtc-read); \
                     it took longer than {limit:?}"
                ),
                Value::Null
            ),
            (
                "dies",
                &*format!("{nothing}; it ended with exit status: 3"),
                last("fatal: no such machine")
            ),
            ("good", "-", Value::Null),
        ]
    );
    assert_eq!(vmms[6]["boots"], 2);
    assert_eq!(report["results"][0]["backend"], "good");
}

#[test]
fn what_is_exported_conforms_to_the_schema() {
    let doubles = Doubles::new()
        .prints("one", &printed(1000))
        .prints("two", &printed(2000))
        .prints("bad", "");
    let report = doubles.path("report.json");
    let args = ["--style", "none", "--export-json", &report];
    doubles
        .command(&["one", "two", "bad"], &args)
        .assert()
        .code(1);
    let schema = serde_json::from_str(include_str!("../../../../docs/report.schema.json")).unwrap();
    let report = read_json(Path::new(&report));
    assert_eq!(violations(&schema, &report), Vec::<String>::new());
    let ratio = &report["results"][2]["ratio"];
    assert_eq!(
        (&ratio["reference"], &ratio["value"]),
        (&"cpuid (one)".into(), &2.0.into())
    );
}

#[test]
fn markdown_and_csv_can_go_to_stdout() {
    let doubles = Doubles::new().prints("one", &printed(1000));
    let text = stdout(&mut doubles.command(&["one"], &["--export-markdown", "-"]));
    assert!(text.contains("| `cpuid` | 100 ns |"), "{text}");
    let text = stdout(&mut doubles.command(&["one"], &["--runs", "1", "--export-csv", "-"]));
    assert!(text.contains("cpuid,scenario,one,,1,10,100\n"), "{text}");
}

#[test]
fn what_a_vmm_printed_can_be_kept() {
    let doubles = Doubles::new().script("one", "echo out; echo err >&2");
    let kept = doubles.path("kept");
    doubles
        .command(&["one"], &["--keep", &kept])
        .assert()
        .code(1);
    let read = |name: &str| fs::read_to_string(Path::new(&kept).join(name)).unwrap();
    assert_eq!(
        (&*read("one-1.log"), &*read("one-1.err")),
        ("out\n", "err\n")
    );
}

#[test]
fn nothing_is_left_in_the_temporary_folder() {
    let doubles = Doubles::new().prints("one", &printed(1000));
    let temporary = doubles.folder.path().join("tmp");
    fs::create_dir(&temporary).unwrap();
    let mut command = doubles.command(&["one"], &["--runs", "1"]);
    command.env("TMPDIR", &temporary).assert().code(0);
    assert_eq!(fs::read_dir(&temporary).unwrap().count(), 0);
}

#[test]
fn a_template_without_a_place_for_the_image_is_wrong() {
    vmbell(&["bench", "vmms", "--vmm", "x=my-vmm --kernel image"])
        .assert()
        .code(2)
        .stderr(predicate::str::contains(
            "the command has no {image}, so it would not run the image",
        ));
}

#[test]
fn an_unknown_name_is_wrong_and_a_like_one_is_suggested() {
    vmbell(&["bench", "vmms", "qemu-p"])
        .assert()
        .code(2)
        .stderr(predicate::str::contains(
            "no VMM is called 'qemu-p', did you mean 'qemu-pc'?",
        ));
}

#[test]
fn a_name_may_not_be_given_twice() {
    vmbell(&["bench", "vmms", "--vmm", "alioth=x {image}"])
        .assert()
        .code(2)
        .stderr(predicate::str::contains("two VMMs are called 'alioth'"));
}

#[test]
fn where_no_vmm_can_run_it_says_which_were_looked_for_and_how_to_add_one() {
    vmbell(&["bench", "vmms", "--accel", "tcg"])
        .env("PATH", "/nonexistent")
        .assert()
        .code(77)
        .stderr(
            predicate::str::contains("qemu-microvm: qemu-system-x86_64 is not on PATH")
                .and(predicate::str::contains("alioth: alioth is not on PATH"))
                .and(predicate::str::contains("vmbell: it has no TCG, only KVM"))
                .and(predicate::str::contains("--vmm NAME='COMMAND ... {image}")),
        );
}

#[test]
fn a_vmm_that_is_named_and_not_here_is_skipped_with_the_reason() {
    vmbell(&["bench", "vmms", "alioth"])
        .env("PATH", "/nonexistent")
        .assert()
        .code(77)
        .stdout(predicate::str::contains("skipped: alioth is not on PATH"));
}

#[test]
fn a_program_that_may_not_be_executed_says_so() {
    let doubles = Doubles::new();
    let program = doubles.path("vmm");
    fs::write(&program, "").unwrap();
    vmbell(&[
        "bench",
        "vmms",
        "mine",
        "--vmm",
        &format!("mine='{program}' {{image}}"),
    ])
    .assert()
    .code(77)
    .stdout(predicate::str::contains("may not be executed"));
}

#[test]
fn the_list_says_where_programs_are() {
    let text = stdout(
        vmbell(&["bench", "vmms", "--list", "--vmm", "mine=/bin/sh {image}"])
            .env("PATH", "/nonexistent"),
    );
    assert!(
        text.contains("alioth        not found: alioth is not on PATH\n"),
        "{text}"
    );
    assert!(text.contains("mine          /bin/sh\n"), "{text}");
    assert!(
        shared(&text, "vmbell").contains(concat!(" vmbell ", env!("CARGO_PKG_VERSION"), " (")),
        "{text}"
    );
}

#[test]
fn the_image_can_be_written() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("probe.elf");
    let args = ["bench", "vmms", "image", "-o", path.to_str().unwrap()];
    vmbell(&args).assert().code(0);
    assert_eq!(&fs::read(&path).unwrap()[..4], b"\x7fELF");
    let args = [
        "bench",
        "vmms",
        "image",
        "-o",
        path.to_str().unwrap(),
        "--format",
        "bzimage",
    ];
    vmbell(&args).assert().code(0);
    assert_eq!(&fs::read(&path).unwrap()[0x202..0x206], b"HdrS");
}

#[test]
fn an_image_that_cannot_be_written_is_an_error() {
    vmbell(&["bench", "vmms", "image", "-o", "/nonexistent/probe.elf"])
        .assert()
        .code(1)
        .stderr(predicate::str::contains(
            "cannot write the image to '/nonexistent/probe.elf': No such file or directory",
        ));
}

#[test]
fn a_boot_that_hung_is_repeated_once_and_the_report_says_so() {
    let doubles = Doubles::new();
    let (text, flag) = (doubles.path("text"), doubles.path("flag"));
    fs::write(&text, printed(1000)).unwrap();
    let hangs = "echo '=== vmbell-probe start ==='; echo row rtc-read; exec sleep 1000";
    let doubles = doubles
        .script(
            "once",
            &format!("if [ -e '{flag}' ]; then cat '{text}'; else : > '{flag}'; {hangs}; fi"),
        )
        .script("always", hangs);
    let report = doubles.path("report.json");
    // A limit that a busy host reaches with a boot that does not hang, too, is too short.
    let is_enough = growing(Duration::from_secs(2)).any(|limit| {
        let _ = fs::remove_file(&flag);
        let limit = argument(limit);
        let words = ["--time-limit", &limit, "--runs", "2"];
        let args = [&words[..], &["--export-json", &report]].concat();
        let output = doubles.command(&["once", "always"], &args).assert().code(1);
        let printed = String::from_utf8_lossy(&output.get_output().stdout).into_owned();
        assert!(
            printed.contains("a boot hung and was repeated"),
            "{printed}"
        );
        let vmms = &read_json(Path::new(&report))["vmms"];
        let has_begun = |vmm: &Value| {
            let reason = vmm["repeated"].as_str().unwrap_or_default();
            reason.contains("it was in the row rtc-read")
        };
        vmms[0]["status"] == "ok" && vmms.as_array().unwrap().iter().all(has_begun)
    });
    assert!(is_enough);
    let report = read_json(Path::new(&report));
    let schema = serde_json::from_str(include_str!("../../../../docs/report.schema.json")).unwrap();
    assert_eq!(violations(&schema, &report), Vec::<String>::new());
    let vmm = |index: usize| &report["vmms"][index];
    assert_eq!(
        (&vmm(0)["status"], &vmm(0)["boots"]),
        (&"ok".into(), &2.into())
    );
    assert_eq!(
        (&vmm(1)["status"], &vmm(1)["boots"]),
        (&"failed".into(), &0.into())
    );
}

#[test]
fn a_signal_ends_the_vmm_and_writes_what_is_finished() {
    let doubles = Doubles::new().prints("one", &printed(1000));
    let pid = doubles.path("pid");
    let doubles = doubles.script("two", &format!("echo $$ > '{pid}'; exec sleep 1000"));
    let report = doubles.path("report.json");
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_vmbell"));
    // With this seed the first VMM is booted before the other one.
    command.args(["bench", "vmms", "one", "two", "--seed", "1"]);
    command.args(["--export-json", &report]);
    for word in &doubles.words {
        command.args(["--vmm", word]);
    }
    let mut child = command.stdout(std::process::Stdio::null()).spawn().unwrap();
    let mut vmm = None;
    await_that("the second vmm", || {
        let text = fs::read_to_string(&pid).unwrap_or_default();
        vmm = text.trim().parse::<i32>().ok();
        vmm.is_some()
    });
    let vmm = vmm.unwrap();
    send(&child, libc::SIGTERM);
    assert_eq!(end(&mut child).code(), Some(143));
    await_that("the end of the vmm", || {
        !Path::new(&format!("/proc/{vmm}")).exists()
    });
    let report = read_json(Path::new(&report));
    assert_eq!(report["interrupted"], true);
    assert_eq!(report["vmms"][0]["boots"], 1);
    assert_eq!(report["vmms"][1]["status"], "skipped");
}

/// The reasons for which no exits of the VMMs were counted. A double has no guest, so there always is one.
fn exits_reasons(exits: &str) -> Vec<Option<String>> {
    let doubles = Doubles::new()
        .prints("one", &printed(1000))
        .prints("two", &printed(1000));
    let path = doubles.path("report.json");
    let args = ["--runs", "1", "--exits", exits, "--export-json", &path];
    let text = stdout(&mut doubles.command(&["one", "two"], &args));
    let report = read_json(Path::new(&path));
    let schema = serde_json::from_str(include_str!("../../../../docs/report.schema.json")).unwrap();
    assert_eq!(violations(&schema, &report), Vec::<String>::new());
    let vmms = report["vmms"].as_array().unwrap();
    let reason = |vmm: &Value| vmm["exits_reason"].as_str().map(str::to_owned);
    let reasons: Vec<Option<String>> = vmms.iter().map(reason).collect();
    let is_said = text.contains("exits not counted of one, two: ");
    assert_eq!(is_said, reasons[0].is_some(), "{text}");
    reasons
}

#[test]
fn a_host_that_may_not_trace_says_why_there_are_no_exits() {
    let reasons = exits_reasons("auto");
    let reason = reasons[0].as_deref().unwrap();
    let known = [
        "tracefs is not mounted at /sys/kernel/tracing",
        "it takes root with tracefs",
        "the kernel has no event kvm_exit",
        "the trace has no marks of the image",
    ];
    assert!(
        known.iter().any(|known| reason.starts_with(known)),
        "{reason}"
    );
    assert_eq!(reasons[0], reasons[1]);
    assert_eq!(exits_reasons("off"), [None, None]);
}

#[test]
fn exits_that_must_be_counted_and_cannot_are_an_error() {
    let reasons = exits_reasons("auto");
    let reason = reasons[0].as_deref().unwrap();
    let doubles = Doubles::new().prints("one", &printed(1000));
    let args = ["--runs", "1", "--exits", "on"];
    let assert = doubles.command(&["one"], &args).assert();
    if reason.contains("no marks") {
        assert.code(0);
        return;
    }
    let said = predicate::str::contains(format!("exits cannot be counted here: {reason}"));
    assert.code(1).stderr(said);
}

#[test]
fn every_command_that_measures_says_what_to_doubt() {
    let doubles = Doubles::new().prints("one", &printed(1000));
    let commands = [
        doubles.command(&["one"], &["--runs", "1"]),
        vmbell(&["bench", "debug-constant", "-v", "--runs", "2"]),
        vmbell(&[
            "stat",
            "--backend",
            "usermode",
            "--deterministic",
            "-n",
            "9",
        ]),
        vmbell(&["virtqueue", "--bufs", "500", "--one-thread", "--cpu", "0"]),
    ];
    for mut command in commands {
        // The CPU is said to be emulated, which is a reason to doubt all times.
        let assert = command.env("VMBELL_TIMING", "emulated").assert();
        let said = "warning: the CPU is emulated; counts are exact";
        assert.stderr(predicate::str::contains(said));
    }
    let mut quiet = doubles.command(&["one"], &["--runs", "1", "--quiet"]);
    let assert = quiet.env("VMBELL_TIMING", "emulated").assert();
    assert.stderr(predicate::str::contains("warning").not());
}
