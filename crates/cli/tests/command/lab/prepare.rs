//! Preparations: without a network or a disk, interrupted, and two at once.

use std::fs;

use assert_cmd::assert::OutputAssertExt;
use predicates::prelude::*;
use predicates::str::{contains, is_match};

use vmbell_lab::ProvisionKind;
use vmbell_lab::cache::Cache;

use super::support::{self, Sandbox};
use kit::signals::hear_signals;
use kit::wait::await_that;

const HASH: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

#[test]
fn without_apt_the_way_around_is_told() {
    let sandbox = Sandbox::new();
    sandbox
        .vmbell()
        .args(["lab", "prepare"])
        .assert()
        .code(125)
        .stderr(contains(
            "no apt-get on this system, so the lab cannot download QEMU: name a file with `vmbell lab kernel --qemu`",
        ));
    let qemu = sandbox.qemu("9.0.0", "");
    sandbox.vmbell().args(["lab", "kernel", "prepare", "--qemu"]).arg(qemu).assert().code(125).stderr(contains(
        "no apt-get on this system, so the lab cannot download a kernel: name a file with `vmbell lab kernel --kernel`",
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
    sandbox.vmbell().args(["lab", "prepare"]).assert().code(125).stderr(contains(
        "error: cannot fetch the package indexes: E: Failed to fetch indexes  Could not resolve host",
    ));
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
             sleep 600 & echo $! > {0}.new; mv {0}.new {0}; wait",
            file.display()
        );
        sandbox.script("dpkg-deb", &body);
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
        .vmbell()
        .args(["lab", "prepare"])
        .assert()
        .code(125)
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
    sandbox.vmbell().args(["lab", "prepare"]).assert().code(125).stderr(contains(
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
        .vmbell()
        .args(["lab", "prepare"])
        .assert()
        .code(125)
        .stderr(contains("the unpacked QEMU package has no dynamic loader"));
    let left: Vec<_> = fs::read_dir(sandbox.path("cache/vmbell/lab"))
        .unwrap()
        .map(|item| item.unwrap().file_name())
        .collect();
    assert!(
        left.iter()
            .all(|name| !name.to_string_lossy().starts_with("draft-")),
        "{left:?}"
    );
}

#[test]
fn a_disk_that_is_too_small_is_told_before_the_download() {
    let sandbox = Sandbox::new();
    sandbox.apt(
        "",
        &format!("echo \"'u' x.deb 1000000000000000 SHA256:{HASH}\""),
        "echo never > /dev/null",
    );
    sandbox
        .vmbell()
        .args(["lab", "prepare"])
        .assert()
        .code(125)
        .stderr(is_match(r"6\.0 PB needed in .*vmbell/lab, [0-9.]+ [GT]B free: make room or set XDG_CACHE_HOME").unwrap());
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
    sandbox
        .vmbell()
        .args(["lab", "prepare"])
        .assert()
        .code(125)
        .stderr(contains(
            "dpkg-deb -x x.deb failed (exit status: 2): dpkg-deb: error: unexpected end of file",
        ));
}

#[test]
fn a_home_is_needed() {
    let sandbox = Sandbox::new();
    // A relative path would be another folder in each working folder.
    for (cache, home) in [("", ""), ("cache", "home"), ("", ".")] {
        sandbox
            .vmbell()
            .env("XDG_CACHE_HOME", cache)
            .env("HOME", home)
            .args(["lab", "status"])
            .assert()
            .code(125)
            .stderr(contains(
                "neither XDG_CACHE_HOME nor HOME is an absolute path",
            ));
    }
}

#[test]
fn the_status_names_entries_of_every_kind_and_those_of_no_kind_as_old() {
    const OLD: &str = ", of another version of vmbell";
    let sandbox = Sandbox::new();
    let cache = Cache::at(sandbox.path("cache/vmbell/lab"));
    let lock = cache.lock_prepare(|| ()).unwrap();
    let kinds = ProvisionKind::ALL.iter().map(|kind| kind.name());
    for kind in kinds.clone().chain(["former"]) {
        let draft = cache.draft(&lock, &format!("{kind}-hash")).unwrap();
        draft.commit(format!("a {kind}"), Vec::new()).unwrap();
    }
    let mut command = sandbox.vmbell();
    let assert = command.args(["lab", "status"]).assert().success();
    let said = String::from_utf8(assert.get_output().stdout.clone()).unwrap();
    let line = |kind: &str| {
        let begins = format!("{kind}-hash 0 B 0 B a {kind}");
        let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
        let mut lines = said.lines().map(words);
        let found = lines.find_map(|line| line.strip_prefix(&begins).map(str::to_owned));
        found.unwrap_or_else(|| panic!("{kind}: {said}"))
    };
    // What these are made of does not depend on a run.
    let fixed = ["qemu", "linux", "shell"];
    for kind in kinds {
        let old = if fixed.contains(&kind) { OLD } else { "" };
        assert_eq!(line(kind), old, "{kind}");
    }
    assert_eq!(line("former"), OLD);
}

#[test]
fn an_empty_cache_has_a_status_and_can_be_cleaned() {
    let sandbox = Sandbox::new();
    sandbox
        .vmbell()
        .args(["lab", "status"])
        .assert()
        .success()
        .stdout(contains("not prepared").count(3));
    let mut exported = sandbox.vmbell();
    exported.args(["lab", "status", "--export-markdown", "-"]);
    let row = contains("\n| `shell` | not prepared for ");
    exported.assert().success().stdout(row);
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
    let word =
        is_match("^vmbell-lab-qemu-[0-9a-f]{12}-linux-[0-9a-f]{12}-shell-[0-9a-f]{12}\n$").unwrap();
    command.assert().success().stdout(word);
    assert!(!sandbox.path("cache").exists());
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
            .stdout(is_match(word).unwrap().count(1));
    };
    sandbox
        .vmbell()
        .args(["lab", "prepare"])
        .assert()
        .code(125)
        .stderr(contains("No space left on device"));
    status("(?m)^qemu +not prepared");
    packaged_qemu(&sandbox, "true");
    sandbox
        .vmbell()
        .args(["lab", "kernel", "prepare", "--modules", "none", "--kernel"])
        .arg(sandbox.kernel())
        .assert()
        .success();
    status("QEMU 9.0.0");
}

/// An archive with two of Debian's kernels, as scripts in place of apt's programs. It copies the list of sources to `sources`.
#[cfg(target_arch = "x86_64")]
fn archive_of_kernels(sandbox: &Sandbox) {
    let sources = sandbox.path("sources");
    let last = "for name; do :; done";
    sandbox.script(
        "apt-get",
        &format!(
            "case \"$*\" in\n\
             update*) cp $(dirname $APT_CONFIG)/sources.list {} ;;\n\
             *--print-uris*) {last}; echo \"'u' $name.deb 0 SHA256:{HASH}\" ;;\n\
             *--download-only*) {last}; : > $(dirname $APT_CONFIG)/archives/$name.deb ;;\n\
             download*) {last}; : > $name.deb ;;\n\
             esac",
            sources.display()
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
    let (sources, words) = (sandbox.path("sources"), sandbox.path("words"));
    let update = format!(
        "cp $(dirname $APT_CONFIG)/sources.list {}",
        sources.display()
    );
    let resolve = format!(
        "echo $* >{}; echo 'E: no such' >&2; exit 100",
        words.display()
    );
    sandbox.apt(&update, &resolve, "exit 100");
    let mut command = sandbox.vmbell();
    command.args(["lab", "prepare", "--arch", "aarch64", "--depth", "2"]);
    command.assert().code(125).stderr(contains(
        "the package sources do not have qemu-system-arm/trixie: E: no such",
    ));
    let sources = fs::read_to_string(sources).unwrap();
    assert!(sources.contains("/debian trixie main\n"), "{sources}");
    let is_debians =
        |line: &str| line.starts_with("deb [arch=amd64 signed-by=/usr/share/keyrings/debian");
    assert!(sources.lines().all(is_debians), "{sources}");
    let words = fs::read_to_string(words).unwrap();
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
    // A release without the mark of one of Debian's distributions may be anyone's.
    let patch = sandbox.path("a.patch");
    fs::write(&patch, "").unwrap();
    let mut command = sandbox.vmbell();
    command.args([
        "lab",
        "kernel",
        "prepare",
        "--kernel",
        "debian:newest",
        "--qemu",
    ]);
    command.arg(&qemu).arg("--kvm-patch").arg(patch);
    command.assert().code(125).stderr(contains(
        "cannot build KVM or a module of it for Linux 7.3.4-cloud-amd64, which is not a kernel of Debian's archive",
    ));
    assert_eq!(sandbox.left(), [""; 0]);
    // What is in the cache needs no package client.
    fs::remove_file(sandbox.path("bin/apt-get")).unwrap();
    prepare(&["debian:6.1"]).success();
    let status = |arguments: &[&str]| {
        let mut command = sandbox.vmbell();
        command.args(["lab", "status"]).args(arguments);
        command.assert().success()
    };
    let another = contains("another version of vmbell").not();
    status(&["--verify"]).stdout(contains("(debian:newest)").and(another));
    // Of a kind that depends on what a run asks for, no entry is of another version.
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
    let of_another = is_match("(?m)^linux-0123 .*, of another version of vmbell$").unwrap();
    let current = is_match("(?m)^netperf-0123 .*another").unwrap().not();
    status(&[]).stdout(of_another.and(contains("\nnetperf-0123 ")).and(current));
    fs::remove_dir_all(lab.join("linux-0123")).unwrap();
    status(&["--kernel", "debian:6.1", "--kernel", "debian:6.12"]).stdout(
        is_match("(?m)^debian:6.12 +not prepared for x86_64$")
            .unwrap()
            .and(is_match("(?m)^debian:6.1 +not prepared").unwrap().not())
            .and(is_match("(?m)^linux +not prepared").unwrap().not()),
    );
    let key = "^vmbell-lab-qemu-[0-9a-f]{12}-debian-[0-9a-f]{12}-shell-[0-9a-f]{12}\n$";
    status(&["--key", "--kernel", "debian:6.1"]).stdout(is_match(key).unwrap());
}
