//! `vmbell lab` from outside, in cases that need neither the network nor a boot.
#![allow(clippy::unwrap_used, clippy::tests_outside_test_module)]

#[path = "lab_support/mod.rs"]
mod support;

use std::fs;
use std::time::{Duration, Instant};

use assert_cmd::assert::OutputAssertExt;
use predicates::prelude::*;
use predicates::str::{contains, is_match};
use support::Sandbox;

const HASH: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

#[test]
fn without_apt_the_way_around_is_told() {
    let sandbox = Sandbox::new();
    sandbox.failed_preparation().stderr(contains(
        "no apt-get on this system, so the lab cannot download QEMU: give it --qemu instead",
    ));
    let qemu = sandbox.qemu("9.0.0", "");
    sandbox.vmbell().args(["lab", "prepare", "--qemu"]).arg(qemu).assert().code(125).stderr(contains(
        "no apt-get on this system, so the lab cannot download a kernel: give it --kernel instead",
    ));
}

#[test]
fn without_network_and_with_an_empty_cache_the_clients_reason_is_shown() {
    let sandbox = Sandbox::new();
    let update = "echo 'W: old' >&2; echo 'E: Failed to fetch indexes  Could not resolve host' >&2; exit 100";
    sandbox.apt(
        update,
        "echo 'E: Unable to locate package' >&2; exit 100",
        "exit 100",
    );
    sandbox.failed_preparation().stderr(contains(
        "vmbell: cannot fetch the package indexes: E: Failed to fetch indexes  Could not resolve host",
    ));
}

#[test]
fn sources_that_never_answer_are_told_after_some_seconds_and_given_up() {
    let sandbox = Sandbox::new();
    sandbox.apt("exec sleep 600", "exit 100", "exit 100");
    let started = Instant::now();
    let mut vmbell = sandbox
        .vmbell()
        .args(["lab", "prepare"])
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let said = std::io::BufReader::new(vmbell.stderr.take().unwrap());
    let mut lines = std::io::BufRead::lines(said).map(Result::unwrap);
    assert_eq!(lines.next().unwrap(), "lab: fetching the package indexes");
    assert_eq!(
        lines.next().unwrap(),
        "lab: no answer from the package sources yet: is there a network, or a proxy to be set?"
    );
    assert!(started.elapsed() < Duration::from_secs(20));
    assert_eq!(
        lines.next().unwrap(),
        "vmbell: cannot fetch the package indexes: no answer within 20 s"
    );
    assert_eq!(vmbell.wait().unwrap().code(), Some(125));
}

#[test]
fn a_signal_ends_a_preparation_with_all_that_it_was_doing() {
    use std::os::unix::process::ExitStatusExt;
    for (signal, number) in [("TERM", 15), ("INT", 2), ("HUP", 1), ("KILL", 9)] {
        let sandbox = Sandbox::new();
        packaged_qemu(&sandbox, "true");
        let file = sandbox.path("unpacking");
        let body = format!(
            "[ $1 = --version ] && exit 0; mkdir -p $3/usr; echo half > $3/usr/half; \
             echo $$ > {0}.new; mv {0}.new {0}; exec sleep 600",
            file.display()
        );
        sandbox.script("dpkg-deb", &body);
        let mut vmbell = sandbox
            .vmbell()
            .args(["lab", "prepare", "--quiet"])
            .spawn()
            .unwrap();
        wait_for("dpkg-deb", &|| file.exists());
        support::kill(&vmbell, signal);
        assert_eq!(vmbell.wait().unwrap().signal(), Some(number));
        if signal != "KILL" {
            assert_eq!(sandbox.left(), ["downloads"], "SIG{signal}");
            let pid = fs::read_to_string(&file).unwrap();
            wait_for("the end of dpkg-deb", &|| support::is_gone(&pid));
        }
        // The next run needs no preparation, and removes what is left all the same.
        let mut command = sandbox.run(&sandbox.qemu("9.0.0", "exit 9"));
        command.args(["--quiet", "--", "/bin/true"]);
        command.assert().code(125);
        assert_eq!(sandbox.left(), [""; 0], "SIG{signal}");
    }
}

#[test]
fn a_half_downloaded_package_is_fetched_again_and_at_last_reported() {
    let sandbox = Sandbox::new();
    let list = format!("echo \"'u' x.deb 10 SHA256:{HASH}\"");
    let download = format!(
        "echo again >> {}; printf abc > $archives/x.deb",
        sandbox.path("count").display()
    );
    sandbox.apt("", &list, &download);
    sandbox
        .failed_preparation()
        .stderr(contains(
            "downloading qemu-system-x86: 1 package, 10 B, into",
        ))
        .stderr(contains(
            "x.deb is broken after 3 downloads: 3 bytes instead of 10",
        ));
    assert_eq!(
        fs::read_to_string(sandbox.path("count"))
            .unwrap()
            .lines()
            .count(),
        3
    );
}

#[test]
fn a_package_of_the_right_size_with_another_digest_is_broken_too() {
    let sandbox = Sandbox::new();
    sandbox.apt(
        "",
        &format!("echo \"'u' x.deb 3 SHA256:{HASH}\""),
        "printf abc > $archives/x.deb",
    );
    sandbox.failed_preparation().stderr(contains(
        "x.deb is broken after 3 downloads: SHA-256 ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad instead of",
    ));
}

#[test]
fn a_download_that_is_mended_goes_on() {
    let sandbox = Sandbox::new();
    let flag = sandbox.path("flag").display().to_string();
    let list = format!("echo \"'u' x.deb 0 SHA256:{HASH}\"");
    let download = format!(
        "if [ -e {flag} ]; then : > $archives/x.deb; else echo half > $archives/x.deb; : > {flag}; fi"
    );
    sandbox.apt("", &list, &download);
    // The package is empty, so the next error is about the file that it should contain.
    sandbox
        .failed_preparation()
        .stderr(contains("the unpacked QEMU package has no dynamic loader"));
    assert_eq!(sandbox.unfinished(), Vec::<String>::new());
}

#[test]
fn a_disk_that_is_too_small_is_told_before_the_download() {
    let sandbox = Sandbox::new();
    sandbox.apt(
        "",
        &format!("echo \"'u' x.deb 1000000000000000 SHA256:{HASH}\""),
        "echo never > /dev/null",
    );
    sandbox.failed_preparation().stderr(
        is_match(
            r"6\.0 PB needed in .*vmbell/lab, [0-9.]+ [GT]B free: make room or set XDG_CACHE_HOME",
        )
        .unwrap(),
    );
}

#[test]
fn a_package_that_does_not_unpack_is_named() {
    let sandbox = Sandbox::new();
    sandbox.apt(
        "",
        &format!("echo \"'u' x.deb 0 SHA256:{HASH}\""),
        ": > $archives/x.deb",
    );
    sandbox.script(
        "dpkg-deb",
        "[ $1 = --version ] || { echo 'dpkg-deb: error: unexpected end of file' >&2; exit 2; }",
    );
    sandbox.failed_preparation().stderr(contains(
        "dpkg-deb -x x.deb failed (exit status: 2): dpkg-deb: error: unexpected end of file",
    ));
}

#[test]
fn a_home_is_needed() {
    let sandbox = Sandbox::new();
    sandbox
        .vmbell()
        .env_remove("XDG_CACHE_HOME")
        .args(["lab", "status"])
        .assert()
        .code(125)
        .stderr(contains("neither XDG_CACHE_HOME nor HOME is set"));
}

#[test]
fn an_empty_cache_has_a_status_and_can_be_cleaned() {
    let sandbox = Sandbox::new();
    sandbox
        .vmbell()
        .args(["lab", "status"])
        .assert()
        .success()
        .stdout(contains("not prepared").count(2));
    sandbox
        .vmbell()
        .args(["lab", "clean"])
        .assert()
        .success()
        .stdout(contains("removed 0 B from"));
}

#[test]
fn the_key_of_a_cache_is_one_word_that_needs_no_cache() {
    let sandbox = Sandbox::new();
    let mut command = sandbox.vmbell();
    command.args(["lab", "status", "--key"]);
    let word = is_match("^vmbell-lab-qemu-[0-9a-f]{12}-linux-[0-9a-f]{12}\n$").unwrap();
    command.assert().success().stdout(word);
    assert!(!sandbox.path("cache").exists());
}

#[test]
fn l1_that_hangs_ends_at_the_time_limit_with_its_console() {
    let sandbox = Sandbox::new();
    let qemu = sandbox.qemu("9.0.0", "echo 'last words'; exec sleep 60");
    let started = Instant::now();
    sandbox
        .run(&qemu)
        .args(["--boot-timeout", "1.5s", "--", "/bin/true"])
        .assert()
        .code(124)
        .stderr(contains(
            "L1 did not start the program within 1.5 s (--boot-timeout); its console ends with:\n  | last words",
        ));
    assert!(started.elapsed() < Duration::from_secs(30));
}

/// A QEMU that starts the program, which writes a word, and then hangs. It is a script for bash, because dash
/// cannot redirect to descriptors above 9.
const HANGS: &str = r#"exec bash -c '
    fd() { echo "$*" | sed "s/.*id=lab.$1,fd=\([0-9]*\).*/\1/"; }
    control=$(fd control "$@") stdout=$(fd stdout "$@")
    echo "\"started\"" >&$control; echo partial >&$stdout; echo stuck; exec sleep 60' bash "$@""#;

#[test]
fn a_program_that_hangs_in_an_l1_that_hangs_is_told_with_its_times() {
    let sandbox = Sandbox::new();
    let qemu = sandbox.qemu("9.0.0", HANGS);
    let started = Instant::now();
    let message = r"the program started at [0-9.]+ s and was still running at [0-9.]+ s: its limit is 1 s \(--timeout\), and L1 does not answer; its console ends with:\n  \| stuck";
    sandbox
        .run(&qemu)
        .args(["--timeout", "1", "--", "/bin/true"])
        .assert()
        .code(124)
        .stdout("partial\n")
        .stderr(is_match(message).unwrap());
    assert!(started.elapsed() < Duration::from_secs(40));
}

#[test]
fn an_oops_ends_the_run_at_once_with_its_text() {
    let sandbox = Sandbox::new();
    let oops = "printf '[ 2.0] BUG: unable to handle page fault for address: 0000001300007ed8\\n'; \
                i=0; while [ $i -lt 30 ]; do echo '[ 2.0] a register'; i=$((i + 1)); done; \
                echo '[ 2.0] Kernel panic - not syncing: Fatal exception'; exec sleep 60";
    let qemu = sandbox.qemu("9.0.0", oops);
    let started = Instant::now();
    sandbox
        .run(&qemu)
        .args(["--", "/bin/true"])
        .assert()
        .code(125)
        .stderr(contains(
            "L1's kernel panicked in each of 2 boots; its console ends with:\n  | [ 2.0] BUG: unable to handle page fault",
        ));
    assert!(started.elapsed() < Duration::from_secs(40));
}

#[test]
fn a_crash_of_qemu_is_retried_once_and_told() {
    let sandbox = Sandbox::new();
    let boots = sandbox.path("boots");
    let qemu = sandbox.qemu(
        "9.0.0",
        &format!(
            "echo boot >> {}; echo 'qemu: Assertion `cpu == current_cpu` failed' >&2; kill -ABRT $$",
            boots.display()
        ),
    );
    sandbox
        .run(&qemu)
        .args(["--", "/bin/true"])
        .assert()
        .code(125)
        .stderr(
            contains("QEMU crashed (signal: 6 (SIGABRT)")
                .and(contains("starting it once more; qemu: Assertion")),
        )
        .stderr(
            is_match(
                r"QEMU crashed in each of 2 boots \(signal: 6 \(SIGABRT\).*\): qemu: Assertion",
            )
            .unwrap(),
        );
    assert_eq!(fs::read_to_string(boots).unwrap().lines().count(), 2);
}

#[test]
fn no_end_of_a_run_leaves_a_temporary_file() {
    let sandbox = Sandbox::new();
    let (file, temporary) = (sandbox.path("booted"), sandbox.path("tmp"));
    fs::create_dir(&temporary).unwrap();
    // The file tree is in no folder, and QEMU can read it.
    let qemu = sandbox.qemu(
        "9.0.0",
        &format!(
            "while [ \"$1\" != -initrd ]; do shift; done; head -c 6 $2 > {0}.new; mv {0}.new {0}; exec sleep 60",
            file.display()
        ),
    );
    for signal in ["TERM", "INT", "HUP", "KILL"] {
        let _ = fs::remove_file(&file);
        let mut vmbell = sandbox
            .run(&qemu)
            .env("TMPDIR", &temporary)
            .args(["--quiet", "--out", "never", "--", "/bin/true"])
            .spawn()
            .unwrap();
        wait_for("QEMU", &|| file.exists());
        assert_eq!(fs::read(&file).unwrap(), b"070701");
        support::kill(&vmbell, signal);
        assert!(!vmbell.wait().unwrap().success());
        let left: Vec<_> = fs::read_dir(&temporary)
            .unwrap()
            .map(|item| item.unwrap().file_name())
            .collect();
        assert!(left.is_empty(), "SIG{signal}: {left:?}");
    }
}

#[test]
fn a_panic_is_retried_once_and_both_are_counted() {
    let sandbox = Sandbox::new();
    let boots = sandbox.path("boots");
    let qemu = sandbox.qemu(
        "9.0.0",
        &format!(
            "echo boot >> {}; echo '[ 1.0] Kernel panic - not syncing: no init'",
            boots.display()
        ),
    );
    sandbox.failed_run(&qemu)
        .stderr(contains("starting it once more").count(1))
        .stderr(contains("L1's kernel panicked in each of 2 boots; its console ends with:\n  | [ 1.0] Kernel panic"));
    assert_eq!(fs::read_to_string(boots).unwrap().lines().count(), 2);
}

#[test]
fn qemus_own_failure_is_no_success_of_l1() {
    let sandbox = Sandbox::new();
    // QEMU's status is also 1 when a guest writes 0 to the debug-exit device.
    let qemu = sandbox.qemu("9.0.0", "echo 'qemu: no such machine' >&2; exit 1");
    sandbox.failed_run(&qemu).stderr(contains(
        "QEMU ended (exit status: 1) without a report from L1: qemu: no such machine",
    ));
    let qemu = sandbox.qemu("9.0.0", "exit 7");
    sandbox
        .failed_run(&qemu)
        .stderr(contains("exit status 7, L1's debug-exit code 3"));
}

#[test]
fn an_old_qemu_is_refused_and_one_on_path_is_named() {
    let sandbox = Sandbox::new();
    let old = sandbox.qemu("6.2.0", "");
    sandbox
        .failed_run(&old)
        .stderr(contains("is QEMU 6.2.0, and the lab needs 7.2 or newer"));
    let qemu = sandbox.qemu("9.1.2", "exit 5");
    fs::rename(&qemu, sandbox.path("bin/qemu-system-x86_64")).unwrap();
    fs::copy("/bin/true", sandbox.path("kernel")).unwrap();
    sandbox
        .vmbell()
        .args(["lab", "run", "--modules", "none", "--kernel"])
        .arg(sandbox.path("kernel"))
        .args(["--", "/bin/true"])
        .assert()
        .code(125)
        .stderr(contains("QEMU 9.1.2 (").and(contains("qemu-system-x86_64, on PATH)")));
}

#[test]
fn programs_that_cannot_run_there_are_refused_before_the_boot() {
    let sandbox = Sandbox::new();
    let qemu = sandbox.qemu("9.0.0", "echo booted >&2; exit 9");
    let script = sandbox.script("script", "true");
    for (program, message) in [
        ("no-such-program", "no program no-such-program on PATH"),
        ("/nonexistent/program", "cannot read /nonexistent/program"),
        (
            script.to_str().unwrap(),
            "is a script (/bin/sh): run its interpreter in the lab and add the script with --with",
        ),
        (
            "/etc/passwd",
            "/etc/passwd is no ELF program for x86_64: it is something else",
        ),
    ] {
        sandbox
            .run(&qemu)
            .args(["--", program])
            .assert()
            .code(125)
            .stderr(contains(message).and(contains("booted").not()));
    }
}

#[test]
fn a_doctest_is_told_how_to_be_left_out() {
    let sandbox = Sandbox::new();
    let qemu = sandbox.qemu("9.0.0", "exit 9");
    let said = |name: &str| {
        let program = sandbox.path(name);
        fs::create_dir_all(program.parent().unwrap()).unwrap();
        fs::copy("/bin/true", &program).unwrap();
        sandbox.run(&qemu).arg("--").arg(program).assert().code(125)
    };
    let hint = "`cargo test --lib --bins --tests` leaves them out";
    said("rustdoctestq2xdmR/rust_out").stderr(contains(hint));
    said("deps/rust_out").stderr(contains(hint).not());
}

#[test]
fn kernels_that_cannot_boot_are_refused() {
    let sandbox = Sandbox::new();
    let qemu = sandbox.qemu("9.0.0", "exit 9");
    let text = sandbox.path("vmlinuz-6");
    fs::write(&text, "text").unwrap();
    let run = |kernel: &str, modules: &[&str]| {
        let mut command = sandbox.vmbell();
        command
            .args(["lab", "run", "--qemu"])
            .arg(&qemu)
            .args(["--kernel", kernel])
            .args(modules)
            .args(["--", "/bin/true"]);
        command.assert().code(125)
    };
    run("/nonexistent", &["--modules", "none"]).stderr(contains("cannot read /nonexistent"));
    run("/nonexistent", &[]).stderr(contains("cannot read /nonexistent"));
    for modules in [&["--modules", "none"][..], &[]] {
        run(text.to_str().unwrap(), modules).stderr(contains(
            "is no kernel: neither a bzImage nor an ELF vmlinux",
        ));
    }
    let mut arm = vec![0; 4096];
    arm[56..60].copy_from_slice(b"ARM\x64");
    fs::write(&text, arm).unwrap();
    run(text.to_str().unwrap(), &[]).stderr(contains("is a kernel for aarch64, and L1 is x86_64"));
    let good = sandbox.path("vmlinuz-7");
    fs::copy("/bin/true", &good).unwrap();
    run(good.to_str().unwrap(), &[]).stderr(contains("no modules of Linux 7 in "));
}

#[test]
fn a_report_that_has_no_place_to_go_is_told_before_the_boot() {
    let sandbox = Sandbox::new();
    let qemu = sandbox.qemu("9.0.0", "echo booted >&2; exit 9");
    sandbox
        .vmbell()
        .args(["lab", "bench", "--modules", "none", "--kernel"])
        .arg(sandbox.kernel())
        .arg("--qemu")
        .arg(qemu)
        .args(["--export-json", "/nonexistent/kvm.json"])
        .assert()
        .code(125)
        .stderr(contains("cannot write to '/nonexistent/kvm.json'").and(contains("booted").not()));
}

#[test]
fn nonsense_is_a_usage_error() {
    let sandbox = Sandbox::new();
    for arguments in [
        &["lab"][..],
        &["lab", "run"],
        &["lab", "run", "--smp", "0", "--", "true"],
        &["lab", "run", "--deterministic", "--smp", "2", "--", "true"],
        &["lab", "run", "--timeout", "0", "--", "true"],
        &["lab", "run", "--timeout", "5 parsecs", "--", "true"],
        &["lab", "run", "--memory", "1", "--", "true"],
        &["lab", "run", "--memory", "2048", "--", "true"],
        &["lab", "run", "--boot-timeout", "0s", "--", "true"],
        &["lab", "run", "--modules", "none", "--", "true"],
        &["lab", "run", "--env", "X", "--", "true"],
        &["lab", "bench", "--deterministic", "--smp", "2"],
        &["lab", "bench", "--only"],
        &["lab", "bench", "--backend", "paper"],
        &["lab", "bench", "--ops", "0"],
    ] {
        sandbox.vmbell().args(arguments).assert().code(2);
    }
}

#[test]
fn qemu_does_not_outlive_vmbell() {
    let sandbox = Sandbox::new();
    let file = sandbox.path("pid");
    let qemu = sandbox.qemu(
        "9.0.0",
        &format!(
            "echo $$ > {0}.new; mv {0}.new {0}; exec sleep 60",
            file.display()
        ),
    );
    let mut vmbell = sandbox
        .run(&qemu)
        .args(["--", "/bin/true"])
        .spawn()
        .unwrap();
    wait_for("QEMU", &|| file.exists());
    let pid = fs::read_to_string(&file).unwrap();
    vmbell.kill().unwrap();
    vmbell.wait().unwrap();
    wait_for("the end of QEMU", &|| support::is_gone(&pid));
}

fn wait_for(what: &str, done: &dyn Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !done() {
        assert!(Instant::now() < deadline, "no sign of {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Packages that contain a QEMU of two scripts, which reports an acceptable version.
fn packaged_qemu(sandbox: &Sandbox, download: &str) {
    let list = format!("echo \"'u' x.deb 0 SHA256:{HASH}\"");
    sandbox.apt("", &list, &format!("{download}; : > $archives/x.deb"));
    sandbox.script(
        "dpkg-deb",
        r#"[ $1 = --version ] && exit 0
        make() { mkdir -p $(dirname $1); printf '#!/bin/sh\n%s\n' "$2" > $1; chmod +x $1; }
        make $3/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2 'shift 3; exec "$@"'
        make $3/usr/bin/qemu-system-x86_64 'echo QEMU emulator version 9.0.0'"#,
    );
}

#[test]
fn two_preparations_at_once_download_once() {
    let sandbox = Sandbox::new();
    let (count, go) = (sandbox.path("count"), sandbox.path("go"));
    let wait = format!(
        "echo download >> {}; while [ ! -e {} ]; do sleep 0.05; done",
        count.display(),
        go.display()
    );
    packaged_qemu(&sandbox, &wait);
    let prepare = || {
        let mut command = sandbox.vmbell();
        command
            .args(["lab", "prepare", "--modules", "none", "--kernel"])
            .arg(sandbox.kernel())
            .stderr(std::process::Stdio::piped())
            .stdout(std::process::Stdio::null());
        command.spawn().unwrap()
    };
    let first = prepare();
    wait_for("the first download", &|| count.exists());
    let mut second = prepare();
    let mut said = std::io::BufReader::new(second.stderr.take().unwrap());
    let mut line = String::new();
    std::io::BufRead::read_line(&mut said, &mut line).unwrap();
    assert_eq!(
        line,
        "lab: waiting for another `vmbell lab` that prepares this cache\n"
    );
    fs::write(go, "").unwrap();
    first.wait_with_output().unwrap().assert().success();
    assert!(second.wait().unwrap().success());
    assert_eq!(fs::read_to_string(count).unwrap(), "download\n");
    // QEMU and the kernel are whole, and no temporary files are left.
    sandbox
        .vmbell()
        .args(["lab", "status", "--verify"])
        .assert()
        .success()
        .stdout(contains("QEMU 9.0.0").and(contains("Linux kernel")));
    assert_eq!(sandbox.left(), [""; 0]);
}

#[test]
fn a_full_disk_while_unpacking_leaves_nothing_half_made() {
    let sandbox = Sandbox::new();
    packaged_qemu(&sandbox, "true");
    sandbox.script(
        "dpkg-deb",
        "[ $1 = --version ] || { mkdir -p $3/usr/bin; echo half > $3/usr/bin/qemu-system-x86_64; \
         echo 'dpkg-deb: error: failed to write (No space left on device)' >&2; exit 2; }",
    );
    let status = |word: &str| {
        let mut command = sandbox.vmbell();
        command.args(["lab", "status"]);
        command
            .assert()
            .success()
            .stdout(contains(word.to_owned()).count(1));
    };
    sandbox
        .failed_preparation()
        .stderr(contains("No space left on device"));
    status("qemu                not prepared");
    packaged_qemu(&sandbox, "true");
    sandbox
        .vmbell()
        .args(["lab", "prepare", "--modules", "none", "--kernel"])
        .arg(sandbox.kernel())
        .assert()
        .success();
    status("QEMU 9.0.0");
}

#[test]
fn qemu_has_one_cpu_of_the_host() {
    let sandbox = Sandbox::new();
    let mut command = sandbox.vmbell();
    command.args(["lab", "exec", "--", "/usr/bin/nproc"]);
    command.assert().success().stdout("1\n");
}
