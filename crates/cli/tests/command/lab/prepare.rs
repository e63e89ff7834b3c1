//! Preparations: without a network or a disk, interrupted, and two at the same time.

use std::fs;

use assert_cmd::assert::OutputAssertExt;
use predicates::prelude::*;
use predicates::str::contains;

use super::status::has_row;
use super::support::{self, Sandbox};
use kit::signals::hear_signals;
use kit::wait::await_that;

const HASH: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

/// Replaces apt's programs with scripts: what `update` runs, the size of the package x.deb, and what its download and
/// `dpkg-deb -x` run.
fn archive(sandbox: &Sandbox, [update, size, download, unpack]: [&str; 4]) {
    let list = format!("echo \"'u' x.deb {size} SHA256:{HASH}\"");
    sandbox.apt(update, &list, download);
    sandbox.script(
        "dpkg-deb",
        &format!("[ $1 != --version ] || exit 0\n{unpack}"),
    );
}

/// Unpacks a QEMU that consists of two scripts and reports an acceptable version.
const UNPACK_QEMU: &str = r#"make() { mkdir -p $(dirname $1); printf '#!/bin/sh\n%s\n' "$2" > $1; chmod +x $1; }
make $3/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2 'shift 3; exec "$@"'
make $3/usr/bin/qemu-system-x86_64 'echo QEMU emulator version 9.0.0'"#;

/// Downloads an empty package.
const EMPTY: &str = ": > $archives/x.deb";

#[test]
fn without_apt_the_way_around_is_told() {
    let sandbox = Sandbox::new();
    sandbox.qemu("9.0.0", "");
    let rows = "
        prepare => no apt-get on this system, so the lab cannot download QEMU: name a file with `vmbell lab kernel --qemu`
        kernel prepare --qemu bin/fake-qemu => no apt-get on this system, so the lab cannot download a kernel: name a file with `vmbell lab kernel --kernel`
    ";
    sandbox.refuses(125, "lab {}", rows);
}

#[test]
fn without_network_and_with_an_empty_cache_the_clients_reason_is_shown() {
    let sandbox = Sandbox::new();
    let update = "echo 'W: old' >&2; echo 'E: Failed to fetch indexes  Could not resolve host' >&2; exit 100";
    let resolve = "echo 'E: Unable to locate package' >&2; exit 100";
    sandbox.apt(update, resolve, "exit 100");
    let reason = "=> error: cannot fetch the package indexes: E: Failed to fetch indexes  Could not resolve host";
    sandbox.refuses(125, "lab prepare {}", reason);
}

#[test]
fn what_goes_wrong_with_a_package_is_told() {
    let other = "printf abc > $archives/x.deb";
    let mended = "if [ -e $root/flag ]; then : > $archives/x.deb; else echo half > $archives/x.deb; : > $root/flag; fi";
    let short = "echo 'dpkg-deb: error: unexpected end of file' >&2; exit 2";
    let rows = [
        // A package of the right size with a wrong digest is also invalid.
        (
            ["", "3", other, ""],
            "x.deb is broken after 3 downloads: SHA-256 ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad instead of",
        ),
        // After the download is repaired, preparation goes on. The package is empty, so the next error is about the
        // file that it lacks.
        (
            ["", "0", mended, ""],
            "the unpacked QEMU package has no dynamic loader",
        ),
        (
            ["", "0", EMPTY, short],
            "dpkg-deb -x x.deb failed (exit status: 2): dpkg-deb: error: unexpected end of file",
        ),
    ];
    for (programs, message) in rows {
        let sandbox = Sandbox::new();
        archive(&sandbox, programs);
        sandbox.refuses(125, "lab prepare {}", &format!("=> {message}"));
        let left = sandbox.left();
        assert!(
            left.iter().all(|name| name == "downloads"),
            "{message}: {left:?}"
        );
    }
}

#[test]
fn a_half_downloaded_package_is_fetched_again_and_at_last_reported() {
    let sandbox = Sandbox::new();
    let half = "echo again >> $root/count; printf abc > $archives/x.deb";
    archive(&sandbox, ["", "10", half, ""]);
    let broken = "=> x.deb is broken after 3 downloads: 3 bytes instead of 10";
    let said = sandbox.refuses(125, "lab prepare {}", broken);
    let begun = "downloading qemu-system-x86: 1 package, 10 B, into";
    assert!(said.contains(begun), "{said}");
    let count = fs::read_to_string(sandbox.path("count")).unwrap();
    assert_eq!(count, "again\n".repeat(3));
}

#[test]
fn a_disk_that_is_too_small_is_told_before_the_download() {
    let sandbox = Sandbox::new();
    let download = "echo downloaded > $root/downloaded";
    archive(&sandbox, ["", "1000000000000000", download, ""]);
    let said = sandbox.refuses(125, "lab prepare {}", "=> 6.0 PB needed in ");
    let (_, free) = said.split_once("vmbell/lab, ").unwrap();
    let (bytes, advice) = free.split_once("B free: ").unwrap();
    assert!(bytes.ends_with(['G', 'T']), "{said}");
    assert!(
        advice.starts_with("make room or set XDG_CACHE_HOME"),
        "{said}"
    );
    assert!(!sandbox.path("downloaded").exists());
}

#[test]
fn a_signal_ends_a_preparation_with_all_that_it_was_doing() {
    use std::os::unix::process::ExitStatusExt;
    for (signal, number) in [("TERM", 15), ("INT", 2), ("HUP", 1), ("KILL", 9)] {
        let sandbox = Sandbox::new();
        let file = sandbox.path("unpacking");
        let unpack = "mkdir -p $3/usr; echo half > $3/usr/half
            sleep 600 & echo $! > $root/new; mv $root/new $root/unpacking; wait";
        archive(&sandbox, ["", "0", EMPTY, unpack]);
        let mut command = sandbox.vmbell();
        command.args(["lab", "prepare", "--quiet"]);
        let mut vmbell = hear_signals(&mut command).spawn().unwrap();
        await_that("dpkg-deb", || file.exists());
        support::kill(vmbell.id(), signal);
        assert_eq!(vmbell.wait().unwrap().signal(), Some(number));
        let pid = fs::read_to_string(&file).unwrap();
        if signal != "KILL" {
            assert_eq!(sandbox.left(), ["downloads"], "SIG{signal}");
        }
        await_that("the end of what dpkg-deb started", || {
            support::is_gone(&pid)
        });
        // The next run needs no preparation, but still removes leftovers.
        let mut command = sandbox.run(&sandbox.qemu("9.0.0", "exit 9"));
        command.args(["--quiet", "--", "/bin/true"]);
        command.assert().code(125);
        assert_eq!(sandbox.left(), [""; 0], "SIG{signal}");
    }
}

#[test]
fn two_preparations_at_once_download_once() {
    let sandbox = Sandbox::new();
    let (count, go) = (sandbox.path("count"), sandbox.path("go"));
    let wait = "echo download >> $root/count; while [ ! -e $root/go ]; do sleep 0.05; done";
    archive(
        &sandbox,
        ["", "0", &format!("{wait}; {EMPTY}"), UNPACK_QEMU],
    );
    let prepare = || {
        let mut command = sandbox.vmbell();
        command
            .args(["lab", "kernel", "prepare", "--modules", "none", "--kernel"])
            .arg(sandbox.kernel())
            .stderr(std::process::Stdio::piped())
            .stdout(std::process::Stdio::null());
        command.spawn().unwrap()
    };
    let first = prepare();
    await_that("the first download", || count.exists());
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
    // QEMU and the kernel are complete, and no temporary files are left.
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
    let full = "mkdir -p $3/usr/bin; echo half > $3/usr/bin/qemu-system-x86_64
        echo 'dpkg-deb: error: failed to write (No space left on device)' >&2; exit 2";
    archive(&sandbox, ["", "0", EMPTY, full]);
    let status = || {
        let mut command = sandbox.vmbell();
        let assert = command.args(["lab", "status"]).assert().success();
        String::from_utf8(assert.get_output().stdout.clone()).unwrap()
    };
    sandbox.refuses(125, "lab prepare {}", "=> No space left on device");
    assert!(has_row(&status(), "qemu not prepared"));
    archive(&sandbox, ["", "0", EMPTY, UNPACK_QEMU]);
    let mut command = sandbox.vmbell();
    command.args(["lab", "kernel", "prepare", "--modules", "none", "--kernel"]);
    command.arg(sandbox.kernel()).assert().success();
    assert_eq!(status().matches("QEMU 9.0.0").count(), 1);
}

/// An archive with two of Debian's kernels; apt's programs are scripts. It copies the list of sources to `sources`.
#[cfg(target_arch = "x86_64")]
fn archive_of_kernels(sandbox: &Sandbox) {
    let last = "for name; do :; done";
    sandbox.script(
        "apt-get",
        &format!(
            "case \"$*\" in\n\
             update*) cp $(dirname $APT_CONFIG)/sources.list $root/sources ;;\n\
             *--print-uris*) {last}; echo \"'u' $name.deb 0 SHA256:{HASH}\" ;;\n\
             *--download-only*) {last}; : > $(dirname $APT_CONFIG)/archives/$name.deb ;;\n\
             download*) {last}; : > $name.deb ;;\n\
             esac"
        ),
    );
    sandbox.script(
        "apt-cache",
        "echo 'linux-image-6.1.0-56-cloud-amd64 - Linux 6.1'\n\
         for part in base binary image modules; do echo \"linux-$part-7.3.4-cloud-amd64 - Linux 7.3\"; done",
    );
    sandbox.script(
        "dpkg-deb",
        r#"[ $1 = --version ] && exit 0
        case $2 in *busybox*) mkdir -p $3/bin; exec cp /bin/true $3/bin/busybox ;; esac
        release=$(basename $2 .deb); part=${release#linux-}; part=${part%%-*}; release=${release#linux-$part-}
        modules=$3/usr/lib/modules/$release; mkdir -p $3/boot $modules
        case $part in
        image) cp /bin/true $3/boot/vmlinuz-$release ;;
        binary) cp /bin/true $modules/vmlinuz ;;
        esac
        case $part in
        image|modules) for name in virtio_pci virtio_console kvm_amd; do cp /bin/true $modules/$name.ko; done ;;
        esac"#,
    );
}

#[test]
#[cfg(target_arch = "x86_64")]
fn a_qemu_with_nested_arm64_is_that_of_debian_13_on_any_system() {
    let sandbox = Sandbox::new();
    let update = "cp $(dirname $APT_CONFIG)/sources.list $root/sources";
    let resolve = "echo $* > $root/words; echo 'E: no such' >&2; exit 100";
    sandbox.apt(update, resolve, "exit 100");
    let missing = "--depth 2 => the package sources do not have qemu-system-arm/trixie: E: no such";
    sandbox.refuses(125, "lab prepare --arch aarch64 {}", missing);
    let sources = fs::read_to_string(sandbox.path("sources")).unwrap();
    assert!(sources.contains("/debian trixie main\n"), "{sources}");
    let is_debians =
        |line: &str| line.starts_with("deb [arch=amd64 signed-by=/usr/share/keyrings/debian");
    assert!(sources.lines().all(is_debians), "{sources}");
    let words = fs::read_to_string(sandbox.path("words")).unwrap();
    assert!(words.ends_with(" qemu-system-arm/trixie\n"), "{words}");
}

#[test]
#[cfg(target_arch = "x86_64")]
fn a_kernel_of_debian_is_prepared_by_its_version_and_kept() {
    let sandbox = Sandbox::new();
    archive_of_kernels(&sandbox);
    let qemu = sandbox.qemu("9.0.0", "exit 9");
    let prepare = |kernels: &[&str]| {
        let mut command = sandbox.vmbell();
        command
            .args(["lab", "kernel", "prepare", "--qemu"])
            .arg(&qemu);
        for kernel in kernels {
            command.args(["--kernel", kernel]);
        }
        command.assert()
    };
    prepare(&["debian:6.5"]).code(125).stderr(contains(
        "error: debian:6.5: Debian has no such kernel for amd64, only 6.1, 7.3",
    ));
    let both = "Linux 6.1.0-56-cloud-amd64 (debian:6.1)\nLinux 7.3.4-cloud-amd64 (debian:newest)\n";
    prepare(&["debian:6.1", "debian:newest"])
        .success()
        .stdout(contains(both));
    let sources = fs::read_to_string(sandbox.path("sources")).unwrap();
    assert!(
        sources
            .lines()
            .all(|line| line.starts_with("deb [arch=amd64 signed-by="))
    );
    assert!(sources.contains(" trixie-backports main\n"), "{sources}");
    // A release without Debian's mark may come from anyone.
    fs::write(sandbox.path("a.patch"), "").unwrap();
    let patched = "--kvm-patch a.patch => cannot build KVM or a module of it for Linux 7.3.4-cloud-amd64, which is not a kernel of Debian's archive";
    let line = "lab kernel prepare --kernel debian:newest --qemu bin/fake-qemu {}";
    sandbox.refuses(125, line, patched);
    assert_eq!(sandbox.left(), [""; 0]);
    // Entries in the cache need no package client.
    fs::remove_file(sandbox.path("bin/apt-get")).unwrap();
    prepare(&["debian:6.1"]).success();
    let status = |arguments: &[&str]| {
        let mut command = sandbox.vmbell();
        command.args(["lab", "status"]).args(arguments);
        command.assert().success()
    };
    let another = contains("another version of vmbell").not();
    status(&["--verify"]).stdout(contains("(debian:newest)").and(another));
    // For kinds that depend on what a run asked for, no entry counts as another version's.
    let lab = sandbox.path("cache/vmbell/lab");
    let mut entries = fs::read_dir(&lab).unwrap().map(|item| item.unwrap().path());
    let debian = entries.find(|path| path.display().to_string().contains("/debian-"));
    for other in ["netperf-0123", "linux-0123"] {
        let copy = std::process::Command::new("cp")
            .arg("-r")
            .args([debian.as_ref().unwrap(), &lab.join(other)])
            .status();
        assert!(copy.unwrap().success());
    }
    let is_old = |name: &'static str| {
        move |text: &str| {
            let line = text.lines().find(|line| line.starts_with(name));
            line.is_some_and(|line| line.ends_with(", of another version of vmbell"))
        }
    };
    status(&[]).stdout(predicate::function(is_old("linux-0123 ")));
    status(&[]).stdout(predicate::function(is_old("netperf-0123 ")).not());
    fs::remove_dir_all(lab.join("linux-0123")).unwrap();
    status(&["--kernel", "debian:6.1", "--kernel", "debian:6.12"]).stdout(predicate::function(
        |said: &str| {
            has_row(said, "debian:6.12 not prepared for x86_64")
                && !has_row(said, "debian:6.1 not prepared")
                && !has_row(said, "linux not prepared")
        },
    ));
    let words = super::status::key("vmbell-lab-qemu-#-debian-#-shell-#");
    status(&["--key", "--kernel", "debian:6.1"]).stdout(words);
}
