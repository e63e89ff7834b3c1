//! Ends of a run: time limits, panics, crashes, signals.

use std::fs;
use std::io::Read as _;
use std::process::Stdio;
use std::thread;
use std::time::Duration;

use assert_cmd::assert::OutputAssertExt;
use predicates::prelude::*;
use predicates::str::contains;
use rustix::thread::{CapabilitySet, remove_capability_from_bounding_set};

use super::support::{self, Sandbox};
use kit::signals::hear_signals;
use kit::wait::{HANG, await_that, growing};

#[test]
fn l1_that_hangs_ends_at_the_time_limit_with_its_console() {
    let sandbox = Sandbox::new();
    let qemu = sandbox.qemu("9.0.0", "echo 'last words'; exec sleep 1000");
    let has_spoken = growing(Duration::from_secs(1)).any(|limit| {
        let seconds = limit.as_secs();
        let output = sandbox
            .run(&qemu)
            .args(["--boot-timeout", &format!("{seconds}s"), "--", "/bin/true"])
            .assert()
            .code(124);
        let error = String::from_utf8_lossy(&output.get_output().stderr);
        let message = format!(
            "L1 did not start the program within {seconds} s (--boot-timeout), in which QEMU had "
        );
        let (_, spent) = error.split_once(&message).expect(&error);
        let (spent, _) = spent.split_once(" s of CPU").expect(&error);
        assert!(spent.parse::<f64>().is_ok(), "{error}");
        error.contains("; its console ends with:\n  | last words")
    });
    assert!(has_spoken, "the console never has a word");
}

/// A QEMU that starts the program, which writes a word, and then runs a script. It needs bash, because dash cannot
/// redirect to descriptors above 9.
pub fn begins(then: &str) -> String {
    format!(
        r#"exec bash -c '
        fd() {{ echo "$*" | sed "s/.*id=lab.$1,fd=\([0-9]*\).*/\1/"; }}
        control=$(fd control "$@") stdout=$(fd stdout "$@")
        echo "\"started\"" >&$control; echo partial >&$stdout; {then}' bash "$@""#
    )
}

/// The end of such a QEMU, with this exit status of the program.
pub fn reports(status: u8) -> String {
    let report = r#"{\"report\":{\"ending\":{\"exited\":STATUS},\"sent\":[8,0,0],\"notes\":[]}}"#;
    let report = report.replace("STATUS", &status.to_string());
    format!("echo \"{report}\" >&$control; exit 15")
}

#[test]
fn time_in_which_the_lab_is_stopped_does_not_count_towards_the_programs_limit() {
    let sandbox = Sandbox::new();
    let goes_on = sandbox.path("goes-on");
    let waits = format!("until [ -e {} ]; do sleep 0.01; done", goes_on.display());
    let ends = format!("{waits}; {}", reports(7));
    let qemu = sandbox.qemu("9.0.0", &begins(&ends));
    // A busy host may reach a short limit before the process is stopped.
    let ended = growing(Duration::from_secs(2)).any(|limit| {
        let _ = fs::remove_file(&goes_on);
        let mut command = sandbox.run(&qemu);
        command.args(["--timeout", &format!("{}s", limit.as_secs())]);
        command.args(["--", "/bin/true"]).stdout(Stdio::piped());
        let mut vmbell = command.spawn().unwrap();
        let mut word = [0; 8];
        let stdout = vmbell.stdout.as_mut().unwrap();
        stdout.read_exact(&mut word).unwrap();
        support::kill(vmbell.id(), "STOP");
        thread::sleep(limit * 2);
        support::kill(vmbell.id(), "CONT");
        fs::write(&goes_on, "").unwrap();
        vmbell.wait().unwrap().code() == Some(7)
    });
    assert!(ended, "no limit is long enough");
}

#[test]
fn a_program_that_has_begun_begins_again_only_as_often_as_the_user_says() {
    let sandbox = Sandbox::new();
    let boots = sandbox.path("boots");
    let panics = format!(
        "echo boot >> {}; echo \"[ 9.0] Kernel panic - not syncing: x\"",
        boots.display()
    );
    let qemu = sandbox.qemu("9.0.0", &begins(&panics));
    for (options, times, said) in [
        (
            &[][..],
            1,
            "lab: the program had started, so it is not run again; `vmbell lab kernel --retries N` allows that",
        ),
        (
            &["--retries", "2"],
            3,
            "L1's kernel panicked in each of 3 boots",
        ),
        (
            &["--retries", "2", "-i"],
            1,
            "L1's kernel panicked; its console",
        ),
        (
            &["--depth", "2", "--memory", "512M"],
            4,
            "L1's kernel panicked in each of 4 boots",
        ),
    ] {
        let _ = fs::remove_file(&boots);
        sandbox
            .run(&qemu)
            .args(options)
            .args(["--", "/bin/true"])
            .assert()
            .code(125)
            .stdout("partial\n".repeat(times))
            .stderr(contains(said));
        let booted = fs::read_to_string(&boots).unwrap();
        assert_eq!(booted.lines().count(), times, "{options:?}");
    }
}

#[test]
fn an_oops_ends_the_run_at_once_with_its_text() {
    let sandbox = Sandbox::new();
    let oops = "printf '[ 2.0] BUG: unable to handle page fault for address: 0000001300007ed8\\n'; \
                i=0; while [ $i -lt 30 ]; do echo '[ 2.0] a register'; i=$((i + 1)); done; \
                echo '[ 2.0] Kernel panic - not syncing: Fatal exception'; exec sleep 1000";
    let qemu = sandbox.qemu("9.0.0", oops);
    let mut command = sandbox.run(&qemu);
    command.args(["--", "/bin/true"]);
    assert_cmd::Command::from_std(command)
        .timeout(HANG)
        .assert()
        .code(125)
        .stderr(contains(
            "L1's kernel panicked in each of 2 boots; its console ends with:\n  | [ 2.0] BUG: unable to handle page fault",
        ));
}

#[test]
fn what_ends_without_a_report_is_told_and_retried_once_if_that_may_help() {
    const CRASH: &str = "echo 'qemu: Assertion `cpu == current_cpu` failed' >&2; kill -ABRT $$";
    const PANIC: &str = "echo '[ 1.0] Kernel panic - not syncing: no init'";
    // QEMU's status is also 1 when a guest writes 0 to the debug-exit device.
    const FAILURE: &str = "echo 'qemu: no such machine' >&2; exit 1";
    let panicked = "L1's kernel panicked; its console ends with:\n  | [ 1.0] Kernel panic";
    let twice =
        "L1's kernel panicked in each of 2 boots; its console ends with:\n  | [ 1.0] Kernel panic";
    let rows: [(_, &[&str], _, &[&str]); 5] = [
        (
            CRASH,
            &[],
            2,
            &[
                "QEMU crashed (signal: 6 (SIGABRT)",
                "starting it once more; qemu: Assertion",
                "QEMU crashed in each of 2 boots (signal: 6 (SIGABRT)",
                "): qemu: Assertion",
            ],
        ),
        (PANIC, &[], 2, &["starting it once more", twice]),
        // The crashed program had already read standard input.
        (PANIC, &["-i"], 1, &[panicked]),
        (
            FAILURE,
            &[],
            1,
            &["QEMU ended (exit status: 1) without a report from L1: qemu: no such machine"],
        ),
        ("exit 7", &[], 1, &["exit status 7, L1's debug-exit code 3"]),
    ];
    for (ends, options, boots, says) in rows {
        let sandbox = Sandbox::new();
        let qemu = sandbox.qemu("9.0.0", &format!("echo boot >> $root/boots; {ends}"));
        let mut command = sandbox.run(&qemu);
        command.args(options).args(["--", "/bin/true"]);
        let mut assert = command.assert().code(125);
        for text in says {
            assert = assert.stderr(contains(*text));
        }
        assert.stderr(contains("starting it once more").count(boots - 1));
        let booted = fs::read_to_string(sandbox.path("boots")).unwrap();
        assert_eq!(booted.lines().count(), boots, "{ends} {options:?}");
    }
}

#[test]
fn no_end_of_a_run_leaves_a_temporary_file() {
    let sandbox = Sandbox::new();
    let (file, temporary) = (sandbox.path("booted"), sandbox.path("tmp"));
    fs::create_dir(&temporary).unwrap();
    // The file tree has no name in any folder, but QEMU can read it.
    let qemu = sandbox.qemu(
        "9.0.0",
        "while [ \"$1\" != -initrd ]; do shift; done; head -c 6 $2 > $root/new; mv $root/new $root/booted; exec sleep 1000",
    );
    let run = || {
        let mut command = sandbox.run(&qemu);
        command.args(["--quiet", "--out", "never", "--", "/bin/true"]);
        command
    };
    let vmm = || {
        let mut command = sandbox.run(&qemu);
        command.args(["--quiet", "--", "vmbell", "bench", "vmms"]);
        command
    };
    for signal in ["TERM", "INT", "HUP", "KILL"] {
        for mut command in [run(), vmm()] {
            let _ = fs::remove_file(&file);
            command.env("TMPDIR", &temporary);
            let mut vmbell = hear_signals(&mut command).spawn().unwrap();
            await_that("QEMU", || file.exists());
            assert_eq!(fs::read(&file).unwrap(), b"070701");
            support::kill(vmbell.id(), signal);
            assert!(!vmbell.wait().unwrap().success());
            let left: Vec<_> = fs::read_dir(&temporary).unwrap().collect();
            assert!(left.is_empty(), "SIG{signal}, {command:?}: {left:?}");
        }
    }
}

#[test]
fn qemu_does_not_outlive_vmbell() {
    let sandbox = Sandbox::new();
    let file = sandbox.path("pid");
    let qemu = sandbox.qemu(
        "9.0.0",
        "echo $$ > $root/new; mv $root/new $root/pid; exec sleep 1000",
    );
    let mut vmbell = sandbox
        .run(&qemu)
        .args(["--", "/bin/true"])
        .spawn()
        .unwrap();
    await_that("QEMU", || file.exists());
    let pid = fs::read_to_string(&file).unwrap();
    vmbell.kill().unwrap();
    vmbell.wait().unwrap();
    await_that("the end of QEMU", || support::is_gone(&pid));
}

#[test]
fn what_a_script_or_an_interpreter_lacks_is_named() {
    let sandbox = Sandbox::new();
    let (script, modules) = (sandbox.path("script"), sandbox.path("lib/python9"));
    let python = sandbox.script("python9", "");
    fs::copy("/bin/true", &python).unwrap();
    fs::create_dir_all(&modules).unwrap();
    fs::write(&script, format!("#!{}\n", python.display())).unwrap();
    let names = [&python, &script, &modules].map(|path| path.to_str().unwrap());
    let [python, script, modules] = names;
    let run = |status: u8, words: &[&str]| {
        let qemu = sandbox.qemu("9.0.0", &begins(&reports(status)));
        let mut command = sandbox.run(&qemu);
        let code = i32::from(status);
        command.args(words).assert().code(code)
    };
    let is_silent = || contains("--with").not();
    let needs = format!("{script} needs --with {python} --with {modules}");
    for status in [126, 127] {
        run(status, &["--with", script, "--", "/bin/sh"]).stderr(contains(needs.as_str()));
    }
    run(127, &["--", "/bin/sh"]).stderr(contains("a program that it starts was not found"));
    run(126, &["--", "/bin/sh"]).stderr(is_silent());
    let lacks = format!("the modules of {python} are not in L1: --with {modules}");
    run(1, &["--with", script, "--", python, script]).stderr(contains(lacks));
    run(0, &["--", python]).stderr(is_silent());
    run(1, &["--with", modules, "--", python]).stderr(is_silent());
}

#[test]
fn a_cache_that_cannot_be_written_is_used_as_it_is() {
    let sandbox = Sandbox::new();
    let qemu = sandbox.qemu("9.0.0", &begins(&reports(0)));
    let run = |words: &[&str]| {
        let mut command = sandbox.run_as(words, &qemu);
        command.args(["--", "/bin/true"]).assert()
    };
    run(&["lab", "kernel", "--cold"]).success();
    fs::create_dir(sandbox.path("cache/vmbell/states")).unwrap();
    let cache = sandbox.path("cache");
    support::set_writable(&cache, false);
    let test = || {
        // With this capability root may write everywhere; a child process gets no more rights than this thread.
        let _ = remove_capability_from_bounding_set(CapabilitySet::DAC_OVERRIDE);
        run(&["lab", "kernel"])
            .success()
            .stderr(contains("cannot").not())
            .stderr(contains(
                "booted (the folder for saved states is not writable)",
            ));
    };
    let ended = thread::scope(|scope| scope.spawn(test).join());
    support::set_writable(&cache, true);
    ended.unwrap();
}
