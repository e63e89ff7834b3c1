//! Builds of Bochs that are interrupted, fail or lack space. apt's programs, the compiler's and `make` are scripts.
#![cfg(target_arch = "x86_64")]

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use super::support::{self, Sandbox};
use kit::signals::hear_signals;
use kit::wait::await_that;
use vmbell_lab::cache::hash_file;

const PREPARE: &str =
    "lab kernel prepare --cpu intel --qemu bin/fake-qemu --kernel kernel --modules modules {}";
const EMPTY: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
/// Begins each script: it stops in the stage that the file `stop` names, if there is one.
const SCRIPT: &str = r#"#!/bin/sh
PATH=/usr/bin:/bin
stage() {
    [ "$(cat $root/stop 2>/dev/null)" = "$1" ] || return 0
    sleep 600 & echo $! > $root/new; mv $root/new $root/stopped; wait
}
"#;
const MAKE: &str = r#"case "$*" in *--dry-run*) echo "g++ -c a.cc"; exit ;; esac
echo "g++ -c a.cc"
stage compiling
cat $root/compiled > $2/a.o || exit 2
stage linking
cp $2/a.o $2/bochs"#;

/// A sandbox with an archive of packages for the build. The source's archive has this name.
fn sandbox(archive: &str) -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.kernel();
    sandbox.qemu("9.0.0", "exit 9");
    let modules = sandbox.path("modules");
    fs::create_dir(&modules).unwrap();
    for name in ["kvm.ko", "kvm_intel.ko"] {
        fs::copy("/bin/true", modules.join(name)).unwrap();
    }
    fs::write(sandbox.path("compiled"), "a program").unwrap();
    let begin = SCRIPT.replacen('\n', &format!("\nroot={}\n", sandbox.path("").display()), 1);
    for (name, body) in [
        ("make", MAKE),
        ("patch", "stage patching"),
        ("strip", "stage stripping"),
        ("configure", "stage configuring"),
    ] {
        fs::write(sandbox.path(name), format!("{begin}{body}\n")).unwrap();
    }
    let source = source(&sandbox);
    let (size, digest) = (
        fs::metadata(&source).unwrap().len(),
        hash_file(&source).unwrap(),
    );
    // As apt does, it leaves out what the working folder has already.
    sandbox.script(
        "apt-get",
        &format!(
            r#"for name; do :; done
            case "$*" in
            *--print-uris*bochs) [ -e {archive} ] || echo "'u' {archive} {size} SHA256:{digest}" ;;
            *--print-uris*) [ -e $name.deb ] || echo "'u' $name.deb 0 SHA256:{EMPTY}" ;;
            source*) cp {source} {archive} ;;
            download*) : > $name.deb ;;
            *--download-only*) : > $(dirname $APT_CONFIG)/archives/$name.deb ;;
            esac"#,
            source = source.display(),
        ),
    );
    sandbox.script(
        "dpkg-deb",
        r#"bin=$3/usr/bin; mkdir -p $bin
        package=$(basename $2 .deb)
        case $package in
        make|patch) install $root/$package $bin ;;
        g++-14) install $root/strip $bin/x86_64-linux-gnu-strip ;;
        bochsbios) mkdir -p $3/usr/share/bochs; : > $3/usr/share/bochs/BIOS-bochs-latest ;;
        vgabios) mkdir -p $3/usr/share/vgabios; : > $3/usr/share/vgabios/vgabios.bin ;;
        esac"#,
    );
    sandbox
}

/// Makes the archive of the source, which has two files: `.tar.xz` as dpkg-deb compresses the files of a package.
fn source(sandbox: &Sandbox) -> PathBuf {
    const HEADER: usize = 60;
    let (tree, package) = (sandbox.path("tree"), sandbox.path("package"));
    fs::create_dir_all(tree.join("DEBIAN")).unwrap();
    let control = "Package: a\nVersion: 1\nArchitecture: all\nMaintainer: a\nDescription: a\n";
    fs::write(tree.join("DEBIAN/control"), control).unwrap();
    fs::write(tree.join("COPYING"), "a licence").unwrap();
    fs::copy(sandbox.path("configure"), tree.join("configure")).unwrap();
    let built = Command::new("dpkg-deb")
        .args(["-Zxz", "--build"])
        .args([&tree, &package])
        .output();
    assert!(built.unwrap().status.success());
    let bytes = fs::read(package).unwrap();
    let name = b"data.tar.xz";
    let data = bytes
        .windows(name.len())
        .position(|part| part == name)
        .unwrap();
    let path = sandbox.path("source.tar.xz");
    // Its end, a byte of padding, is after the end of the compressed data.
    fs::write(&path, &bytes[data + HEADER..]).unwrap();
    path
}

/// The preparation.
fn prepare(sandbox: &Sandbox) -> Command {
    let mut command = sandbox.vmbell();
    let words = PREPARE.replace("{}", "");
    command
        .args(words.split_whitespace())
        .current_dir(sandbox.path(""));
    command
}

/// Fails unless the next preparation builds Bochs and leaves nothing else.
#[track_caller]
fn is_built_next(sandbox: &Sandbox, what: &str) {
    let output = prepare(sandbox).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{what}: {said}");
    assert!(said.contains("building Bochs 3.0"), "{what}: {said}");
    assert_eq!(sandbox.left(), [""; 0], "{what}");
    let words = ["lab", "status", "--verify"];
    let status = sandbox.vmbell().args(words).output().unwrap();
    let said = String::from_utf8_lossy(&status.stdout);
    assert!(status.status.success(), "{what}: {said}");
    assert!(
        said.contains("Bochs 3.0 with the lab's changes"),
        "{what}: {said}"
    );
}

#[test]
fn a_build_that_is_interrupted_anywhere_leaves_nothing_and_the_next_run_builds() {
    let sandbox = sandbox("bochs_3.0+dfsg.orig.tar.xz");
    let (stop, stopped) = (sandbox.path("stop"), sandbox.path("stopped"));
    let signals = [("KILL", 9), ("TERM", 15), ("INT", 2)];
    let stages = [
        "patching",
        "configuring",
        "compiling",
        "linking",
        "stripping",
    ];
    for (stage, (signal, number)) in stages.into_iter().zip(signals.into_iter().cycle()) {
        let what = format!("SIG{signal} while {stage}");
        fs::write(&stop, stage).unwrap();
        let mut command = prepare(&sandbox);
        let mut vmbell = hear_signals(command.stderr(Stdio::null())).spawn().unwrap();
        await_that(&what, || stopped.exists());
        support::kill(vmbell.id(), signal);
        assert_eq!(vmbell.wait().unwrap().signal(), Some(number), "{what}");
        let pid = fs::read_to_string(&stopped).unwrap();
        await_that(&format!("the end of the build, {what}"), || {
            support::is_gone(&pid)
        });
        if signal != "KILL" {
            assert_eq!(sandbox.left(), ["downloads"], "{what}");
        }
        fs::remove_file(&stop).unwrap();
        fs::remove_file(&stopped).unwrap();
        is_built_next(&sandbox, &what);
        fs::remove_dir_all(sandbox.path("cache")).unwrap();
    }
}

#[test]
fn a_disk_that_is_full_while_bochs_compiles_is_the_reason_and_the_next_run_builds() {
    let sandbox = sandbox("bochs_3.0+dfsg.orig.tar.xz");
    let make = fs::read_to_string(sandbox.path("make")).unwrap();
    // Each write to /dev/full fails with ENOSPC.
    let full = make.replace("> $2/a.o ||", "> /dev/full || echo 'a.cc: error: b' ||");
    let full = full.replace("|| exit 2", "&& exit 2");
    assert_ne!(full, make);
    fs::write(sandbox.path("make"), full).unwrap();
    let reason = "=> error: the build of Bochs 3.0 failed (exit status: 2): cat: write error: No space left on device\n";
    sandbox.refuses(125, PREPARE, reason);
    assert_eq!(sandbox.left(), ["downloads"]);
    let status = sandbox.vmbell().args(["lab", "status"]).output().unwrap();
    let said = String::from_utf8(status.stdout).unwrap();
    assert!(status.status.success() && !said.contains("Bochs"), "{said}");
    fs::write(sandbox.path("make"), make).unwrap();
    is_built_next(&sandbox, "after a full disk");
}

#[test]
fn an_archive_with_another_version_of_bochs_is_refused_before_the_compiler_is_unpacked() {
    let sandbox = sandbox("bochs_3.1+dfsg.orig.tar.xz");
    let other = "=> Debian's trixie has bochs_3.1+dfsg.orig.tar.xz, and the lab's changes are for bochs_3.0+dfsg.orig.tar.xz";
    let said = sandbox.refuses(125, PREPARE, other);
    assert!(!said.contains("g++-14"), "{said}");
}

#[test]
fn files_that_do_not_fit_into_a_machine_in_bochs_are_refused_with_the_memory_that_is_enough() {
    let sandbox = sandbox("bochs_3.0+dfsg.orig.tar.xz");
    sandbox.script("bochs", "echo 'Bochs x86 Emulator 3.0' # vmbell-lab-port");
    let large = fs::File::create(sandbox.path("large")).unwrap();
    large.set_len(300 << 20).unwrap();
    let line = "lab kernel --cpu intel --bochs bin/bochs --kernel kernel --modules modules --memory 512M {} -- /bin/true";
    let row = "--with large:/large => L1: out of memory: its files need 3";
    let said = sandbox.refuses(125, line, row);
    assert!(said.contains("use --memory "), "{said}");
}
