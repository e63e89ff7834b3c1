//! `vmbell lab` with real boots; `cargo xtask lab` runs these tests.
//!
//! Nothing is skipped here: without a prepared cache and without the network these tests fail.
#![allow(clippy::unwrap_used, clippy::tests_outside_test_module)]

#[path = "../../vmbell/tests/pc/image.rs"]
mod image;

#[path = "command/schema.rs"]
mod schema;

#[path = "lab_boot/devices.rs"]
mod devices;
#[path = "lab_boot/exits.rs"]
mod exits;
#[path = "lab_boot/linux.rs"]
mod linux;
#[path = "lab_boot/vmm.rs"]
mod vmm;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Mutex;

/// One boot at a time: each uses two CPUs, and several at once would run into their time limits.
static BOOT: Mutex<()> = Mutex::new(());

fn lab(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_vmbell"));
    command
        .args(["lab", "run"])
        .args(arguments)
        .stdin(Stdio::null());
    command
}

fn output(command: &mut Command) -> Output {
    let _one = BOOT
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    let output = command.output().unwrap();
    eprint!("{}", String::from_utf8_lossy(&output.stderr));
    output
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

fn example(name: &str) -> String {
    let folder = Path::new(env!("CARGO_BIN_EXE_vmbell")).parent().unwrap();
    folder
        .join("examples")
        .join(name)
        .to_str()
        .unwrap()
        .to_owned()
}

#[test]
#[ignore = "boots the lab: cargo xtask lab"]
fn streams_stay_apart_and_all_eight_bits_of_the_status_come_back() {
    let output = output(&mut lab(&[
        "--",
        "/bin/sh",
        "-c",
        "echo to stdout; echo to stderr >&2; exit 200",
    ]));
    assert_eq!(output.status.code(), Some(200));
    assert_eq!(text(&output.stdout), "to stdout\n");
    assert!(text(&output.stderr).contains("\nto stderr\n"));
    assert!(text(&output.stderr).contains("lab: exit status 200; "));
}

#[test]
#[ignore = "boots the lab: cargo xtask lab"]
fn a_death_by_signal_is_told_as_such() {
    let output = output(&mut lab(&["--", "/bin/sh", "-c", "kill -SEGV $$"]));
    assert_eq!(output.status.code(), Some(128 + 11));
    assert!(text(&output.stderr).contains("lab: killed by signal 11"));
}

#[test]
#[ignore = "boots the lab: cargo xtask lab"]
fn environment_directory_and_arguments_are_the_callers() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().canonicalize().unwrap();
    let script = r#"echo "$0|$1|$FROM_HOST|$FROM_OPTION|$PWD|$HOME""#;
    let mut command = lab(&[
        "--env",
        "FROM_OPTION=b c",
        "--",
        "/bin/sh",
        "-c",
        script,
        "zero",
        "one two",
    ]);
    let output = output(command.env("FROM_HOST", "a").current_dir(&folder));
    assert_eq!(
        text(&output.stdout),
        format!("zero|one two|a|b c|{}|/root\n", folder.display())
    );
}

#[test]
#[ignore = "boots the lab: cargo xtask lab"]
fn standard_input_and_megabytes_of_output_pass_whole() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("input");
    let bytes: Vec<u8> = (0..3_000_000_u32)
        .map(|index| u8::try_from((index / 7 + index) % 251).unwrap())
        .collect();
    fs::write(&file, &bytes).unwrap();
    let output = output(lab(&["-i", "--", "cat"]).stdin(fs::File::open(&file).unwrap()));
    assert!(output.status.success());
    assert!(
        output.stdout == bytes,
        "{} bytes came back",
        output.stdout.len()
    );
}

#[test]
#[ignore = "boots the lab: cargo xtask lab"]
fn files_go_in_and_come_back() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("in")).unwrap();
    fs::write(folder.path().join("in/a"), "content").unwrap();
    let (out, with) = (
        folder.path().join("out"),
        format!("{}:/data", folder.path().join("in").display()),
    );
    let script = "mkdir /out/sub; cp /data/a /out/sub/b; exit 3";
    let arguments = [
        "--out",
        out.to_str().unwrap(),
        "--with",
        &with,
        "--with",
        "/bin/mkdir",
        "--with",
        "/bin/cp",
    ];
    let output = output(lab(&arguments).args(["--", "/bin/sh", "-c", script]));
    assert_eq!(output.status.code(), Some(3));
    assert_eq!(fs::read_to_string(out.join("sub/b")).unwrap(), "content");
}

#[test]
#[ignore = "boots the lab: cargo xtask lab"]
fn what_a_program_leaves_running_does_not_hold_up_the_end() {
    let output = output(&mut lab(&[
        "--with",
        "/bin/sleep",
        "--",
        "/bin/sh",
        "-c",
        "sleep 1000 & echo done",
    ]));
    assert!(output.status.success());
    assert_eq!(text(&output.stdout), "done\n");
}

#[test]
#[ignore = "boots the lab: cargo xtask lab"]
fn kvm_is_real_in_functional_mode() {
    let output = output(&mut lab(&["--", &example("kvm_smoke")]));
    assert!(output.status.success(), "{}", text(&output.stdout));
    println!("{}", text(&output.stdout));
}

#[test]
#[ignore = "boots the lab: cargo xtask lab"]
fn deterministic_mode_says_the_same_twice() {
    let run = || output(&mut lab(&["--deterministic", "--", &example("kvm_smoke")]));
    let (first, second) = (run(), run());
    assert!(first.status.success());
    assert_eq!(text(&first.stdout), text(&second.stdout));
    println!("{}", text(&first.stdout));
}

#[test]
#[ignore = "boots the lab: cargo xtask lab"]
fn a_real_panic_is_retried_once() {
    let output = output(&mut lab(&[
        "--",
        "/bin/sh",
        "-c",
        "echo c > /proc/sysrq-trigger; while :; do :; done",
    ]));
    assert_eq!(output.status.code(), Some(125));
    assert!(text(&output.stderr).contains("panicked in each of 2 boots"));
    assert!(text(&output.stderr).contains("sysrq triggered crash"));
}

#[test]
#[ignore = "boots the lab: cargo xtask lab"]
fn an_oops_of_l1s_kernel_ends_the_run_with_its_text() {
    // With SMAP, the usermode backend makes L1's kernel oops if QEMU is older than 9.1.
    let vmbell = env!("CARGO_BIN_EXE_vmbell");
    let smap = ["--qemu-arg", "-cpu", "--qemu-arg", "max", "--", vmbell];
    let row = ["--only", "portio-wildcard-eventfd", "--ops", "100"];
    let output = output(
        lab(&smap)
            .args(["bench", "--backend", "usermode"])
            .args(row),
    );
    let said = text(&output.stderr);
    if output.status.success() {
        assert!(!said.contains("panicked"));
    } else {
        assert_eq!(output.status.code(), Some(125));
        assert!(said.contains("panicked in each of 2 boots"));
        assert!(said.contains("  | ") && said.contains("supervisor read access in user mode"));
    }
}

#[test]
#[ignore = "boots the lab: cargo xtask lab"]
fn a_program_that_never_ends_is_killed_and_its_output_and_files_come_back() {
    let folder = tempfile::tempdir().unwrap();
    for mode in ["--smp=2", "--deterministic"] {
        let out = folder.path().join(mode);
        let arguments = ["--timeout", "5s", "--out", out.to_str().unwrap(), mode];
        let script = "echo started; echo content > /out/a; while :; do :; done";
        let output = output(lab(&arguments).args(["--", "/bin/sh", "-c", script]));
        assert_eq!(output.status.code(), Some(124), "{mode}");
        assert_eq!(text(&output.stdout), "started\n", "{mode}");
        assert_eq!(fs::read_to_string(out.join("a")).unwrap(), "content\n");
        let said = text(&output.stderr);
        assert!(said.contains("lab: killed at its time limit; "));
        assert!(said.contains("vmbell: the program started at "));
        assert!(said.contains(": its limit is 5 s (--timeout)"));
    }
}

#[test]
#[ignore = "boots the lab: cargo xtask lab"]
fn two_boots_at_once_do_not_disturb_each_other() {
    let _one = BOOT
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    let start = |word: &str| {
        lab(&["--", "/bin/sh", "-c", &format!("echo {word}")])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap()
    };
    for (child, word) in [(start("first"), "first\n"), (start("second"), "second\n")] {
        assert_eq!(text(&child.wait_with_output().unwrap().stdout), word);
    }
}

fn bench(arguments: &[&str], report: &Path) -> (Output, serde_json::Value) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_vmbell"));
    command
        .args(["lab", "bench", "--only", "--export-json"])
        .arg(report)
        .args(arguments)
        .stdin(Stdio::null());
    let output = output(&mut command);
    let report = serde_json::from_str(&fs::read_to_string(report).unwrap()).unwrap();
    (output, report)
}

#[test]
#[ignore = "boots the lab: cargo xtask lab"]
fn a_deterministic_bench_counts_instructions_and_skips_what_needs_two_cpus() {
    let folder = tempfile::tempdir().unwrap();
    let names = ["floor-getppid", "floor-cache-line", "debug-constant"];
    let arguments = [&["--deterministic"][..], &names].concat();
    let (output, report) = bench(&arguments, &folder.path().join("report.json"));
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(report["timing"], "emulated");
    assert_eq!(report["unit"], "instructions");
    let row = |name: &str| {
        let rows = report["results"].as_array().unwrap();
        rows.iter().find(|row| row["command"] == name).unwrap()
    };
    // A system call takes some hundred instructions on every kernel.
    let instructions = row("floor-getppid")["instructions"].as_f64().unwrap();
    assert!((50.0..5000.0).contains(&instructions), "{instructions}");
    assert_eq!(row("debug-constant")["instructions"], 100.0);
    let skipped = row("floor-cache-line");
    assert_eq!(skipped["status"], "skipped");
    assert_eq!(skipped["reason"], "needs two CPUs, and may use only CPU 0");
    assert!(text(&output.stdout).contains("timing       emulated: numbers are instructions"));
}

#[test]
#[ignore = "boots the lab: cargo xtask lab"]
fn a_benchs_own_status_passes_through_with_its_report() {
    let folder = tempfile::tempdir().unwrap();
    let names = ["debug-constant", "debug-fail"];
    let (output, report) = bench(&names, &folder.path().join("report.json"));
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(report["timing"], "emulated");
    assert_eq!(report["unit"], "time");
    assert_eq!(
        report["results"][0]["instructions"],
        serde_json::Value::Null
    );
}

#[test]
#[ignore = "boots the lab: cargo xtask lab"]
fn the_usermode_backend_runs_in_the_lab_too() {
    let folder = tempfile::tempdir().unwrap();
    let rows = ["portio-no-eventfd", "portio-wildcard-eventfd", "self-ipi"];
    let arguments = [&["--backend", "usermode", "--ops", "200"][..], &rows].concat();
    let (output, report) = bench(&arguments, &folder.path().join("report.json"));
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stdout));
    let results = report["results"].as_array().unwrap();
    let good = results.iter().filter(|row| row["status"] == "ok").count();
    assert_eq!(good, rows.len(), "{}", text(&output.stdout));
}

#[test]
#[ignore = "boots the lab: cargo xtask lab"]
fn a_plain_vmbell_knows_where_it_is() {
    let vmbell = env!("CARGO_BIN_EXE_vmbell");
    let output = output(&mut lab(&["--", vmbell, "bench", "--only", "debug-skip"]));
    assert_eq!(output.status.code(), Some(77));
    assert!(text(&output.stdout).contains("timing       emulated: times say nothing"));
}

#[test]
#[ignore = "boots the lab: cargo xtask lab"]
fn the_kernel_counts_one_exit_less_for_each_interrupt_with_pv_eoi() {
    const INTERRUPTS: u64 = 500;
    let vmbell = env!("CARGO_BIN_EXE_vmbell");
    let stat = ["--deterministic", "--", vmbell, "stat", "--deterministic"];
    let output = output(lab(&stat).args(["--interrupts", "500", "--json"]));
    assert!(output.status.success());
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
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
        // An exit on the way into the guest, for a page that is not mapped yet, makes KVM inject an
        // interrupt twice.
        assert!(count(mode, "inj_virq") >= INTERRUPTS, "{mode}");
        // The filter by reason finds the same exits as the tracepoint of their handler.
        assert_eq!(count(mode, "exit:msr"), count(mode, "msr"), "{mode}");
    }
    let [off, on] = ["pv-eoi-off", "pv-eoi-on"].map(|mode| {
        let events = ["msr", "pv_eoi", "exit"];
        events.map(|event| count(mode, event))
    });
    assert_eq!((off[0], off[1]), (INTERRUPTS, 0));
    // An exit that L1 causes, such as that of its timer, may take the bit back.
    assert!(
        on[0] <= INTERRUPTS / 50 && on[1] >= INTERRUPTS * 99 / 100,
        "{on:?}"
    );
    assert!(off[2] - on[2] >= INTERRUPTS * 98 / 100, "{off:?} {on:?}");
}

#[test]
#[ignore = "boots the lab: cargo xtask lab"]
fn another_projects_cargo_test_runs_on_real_kvm() {
    let project = tempfile::tempdir().unwrap();
    let write = |name: &str, content: &str| {
        let path = project.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    };
    write(
        "Cargo.toml",
        "[package]\nname = \"foreign\"\nversion = \"0.1.0\"\nedition = \"2024\"\n[workspace]\n",
    );
    write("src/lib.rs", "");
    write(
        "tests/kvm.rs",
        r#"
        #[test]
        fn kvm_answers() {
            use std::os::fd::AsRawFd;
            unsafe extern "C" {
                fn ioctl(fd: i32, request: u64, ...) -> i32;
            }
            const KVM_GET_API_VERSION: u64 = 0xae00;
            let kvm = std::fs::File::options().read(true).write(true).open("/dev/kvm").unwrap();
            assert_eq!(unsafe { ioctl(kvm.as_raw_fd(), KVM_GET_API_VERSION, 0) }, 12);
            assert!(std::fs::read_to_string("/proc/version").unwrap().contains("Debian"));
        }
        #[test]
        fn cargo_is_felt() {
            let folder = std::env::var("CARGO_MANIFEST_DIR").unwrap();
            assert_eq!(std::env::current_dir().unwrap(), std::path::Path::new(&folder));
            std::fs::write(std::env::temp_dir().join("x"), "x").unwrap();
            std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        }
        #[test]
        #[ignore = "shows that arguments arrive"]
        fn ignored() {
            panic!("on purpose");
        }
        "#,
    );
    let test = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO"));
        command
            .args(["test", "--offline", "--test", "kvm"])
            .args(arguments)
            .current_dir(project.path());
        let runner = format!(
            "{} lab run --",
            PathBuf::from(env!("CARGO_BIN_EXE_vmbell")).display()
        );
        output(
            command
                .env("CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER", runner)
                .env("CARGO_TARGET_DIR", project.path().join("target")),
        )
    };
    let passing = test(&[]);
    assert!(passing.status.success(), "{}", text(&passing.stdout));
    assert!(text(&passing.stdout).contains("2 passed; 0 failed; 1 ignored"));
    let failing = test(&["--", "--ignored"]);
    assert_eq!(failing.status.code(), Some(101));
    assert!(text(&failing.stdout).contains("on purpose"));
}

#[test]
fn an_image_runs_on_the_pc_inside_and_its_status_comes_back() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("hello.elf");
    let mut code = Vec::new();
    for byte in *b"hello\n" {
        // mov dx, 0x3f8; mov al, byte; out dx, al
        code.extend([0x66, 0xba, 0xf8, 0x03, 0xb0, byte, 0xee]);
    }
    // mov edx, 0xf4; mov eax, 5; out dx, eax; hlt; jmp to the hlt
    code.extend([
        0xba, 0xf4, 0, 0, 0, 0xb8, 5, 0, 0, 0, 0xef, 0xf4, 0xeb, 0xfd,
    ]);
    fs::write(&path, image::elf(&code, &[])).unwrap();
    let path = path.to_str().unwrap();
    let vmbell = env!("CARGO_BIN_EXE_vmbell");
    let devices = ["--smp", "2", "--device", "pci-testdev,pv=on"];
    let mut command = lab(&["--with", path, "--", vmbell, "run", path]);
    let output = output(command.args(devices));
    assert_eq!(output.status.code(), Some(11));
    assert_eq!(text(&output.stdout), "hello\n");
}
