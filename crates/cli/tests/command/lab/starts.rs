//! What is refused or told before a boot: wrong arguments, programs, kernels and emulators.

use std::fs;

use assert_cmd::assert::OutputAssertExt;
use predicates::prelude::*;
use predicates::str::contains;

use super::support::Sandbox;

#[test]
fn an_old_qemu_is_refused_and_one_on_path_is_named() {
    let sandbox = Sandbox::new();
    let old = sandbox.qemu("6.2.0", "");
    sandbox
        .run(&old)
        .args(["--", "/bin/true"])
        .assert()
        .code(125)
        .stderr(contains("is QEMU 6.2.0, and the lab needs 7.2 or newer"));
    let qemu = sandbox.qemu("9.1.2", "exit 5");
    fs::rename(&qemu, sandbox.path("bin/qemu-system-x86_64")).unwrap();
    fs::copy("/bin/true", sandbox.path("kernel")).unwrap();
    sandbox
        .vmbell()
        .args(["lab", "kernel", "--modules", "none", "--kernel"])
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
            &format!(
                "is a script: run its interpreter, `vmbell lab --with {0} -- /bin/sh {0} ...`",
                script.display()
            ),
        ),
        (
            "/etc/passwd",
            "/etc/passwd is not an ELF program for x86_64: it is something else",
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
fn files_that_do_not_fit_are_refused_unread_with_the_memory_that_is_enough() {
    let sandbox = Sandbox::new();
    let qemu = sandbox.qemu("9.0.0", "echo booted >&2; exit 9");
    let large = sandbox.path("large");
    let file = fs::File::create(&large).unwrap();
    let with = format!("{}:/large", large.display());
    let run = |memory: &str| {
        let mut command = sandbox.run(&qemu);
        command.args(["--memory", memory, "--with", &with, "--", "/bin/true"]);
        command.assert().code(125)
    };
    // No process has memory for it, and no folder room.
    file.set_len(8 << 40).unwrap();
    let most = "MiB, and at most 2048 MiB go into the lab";
    run("1G").stderr(contains(most).and(contains("booted").not()));
    file.set_len(300 << 20).unwrap();
    let refused = run("512M").stderr(contains("booted").not());
    let said = String::from_utf8_lossy(&refused.get_output().stderr).into_owned();
    assert!(
        said.contains("L1: out of memory: its files need 3"),
        "{said}"
    );
    let (_, advice) = said.split_once("use --memory ").unwrap();
    let (enough, _) = advice.split_once(" or more").unwrap();
    run(enough).stderr(contains("booted"));
}

#[test]
#[cfg(target_arch = "x86_64")]
fn what_arm64_does_not_have_is_refused_before_the_boot() {
    let sandbox = Sandbox::new();
    let qemu = sandbox.qemu("9.0.0", "echo booted >&2; exit 9");
    let (kernel, vmbell) = (sandbox.path("Image"), sandbox.path("vmbell-arm64"));
    let mut image = vec![0; 4096];
    image[56..60].copy_from_slice(b"ARM\x64");
    fs::write(&kernel, image).unwrap();
    let mut elf = fs::read(env!("CARGO_BIN_EXE_vmbell")).unwrap();
    elf[18] = 183;
    fs::write(&vmbell, elf).unwrap();
    let run = |vmbell: &std::path::Path, options: &[&str]| {
        let mut command = sandbox.run(&qemu);
        command.args(options).args(["--", "/bin/true"]);
        let message = command.env("VMBELL_AARCH64", vmbell).assert().code(125);
        message.stderr(contains("booted").not())
    };
    let native = |options: &[&str]| run(&vmbell, options);
    native(&["--gic", "3"]).stderr(contains(
        "--gic is for arm64, and the lab's machine is x86_64",
    ));
    native(&["--device", "pl031"]).stderr(contains(
        "--device pl031: x86_64 has no such device (there are: edu, e1000e, virtio-net)",
    ));
    native(&["--arch", "aarch64", "--device", "edu"]).stderr(contains(
        "--device edu: aarch64 has no such device (there are: pl031)",
    ));
    let arm64 = |vmbell: &std::path::Path| run(vmbell, &["--arch", "aarch64"]);
    arm64("/bin/true".as_ref()).stderr(contains(
        "/bin/true is a program for x86_64, and the lab needs a vmbell for aarch64",
    ));
    arm64(&vmbell).stderr(contains(
        "is linked dynamically, and the lab needs a static vmbell",
    ));
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
            .args(["lab", "kernel", "--qemu"])
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
            "is not a kernel: neither a bzImage nor an ELF vmlinux",
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
fn a_device_is_refused_before_the_boot_if_there_are_no_modules_to_assign_it() {
    let sandbox = Sandbox::new();
    let qemu = sandbox.qemu("9.0.0", "echo booted >&2; exit 9");
    let modules = sandbox.path("modules");
    fs::create_dir(&modules).unwrap();
    for name in ["virtio_pci.ko", "virtio_console.ko", "kvm_amd.ko"] {
        fs::copy("/bin/true", modules.join(name)).unwrap();
    }
    let mut command = sandbox.vmbell();
    command
        .args(["lab", "kernel", "--qemu"])
        .arg(&qemu)
        .arg("--kernel")
        .arg(sandbox.kernel())
        .arg("--modules")
        .arg(&modules)
        .args(["--device", "edu", "--", "/bin/true"])
        .assert()
        .code(125)
        .stderr(contains(
            "this kernel cannot assign edu to a guest: module vfio_pci is not in ",
        ))
        .stderr(contains("booted").not());
}

#[test]
fn modules_are_for_one_kernel_in_a_file() {
    let sandbox = Sandbox::new();
    let kernel = sandbox.kernel();
    for kernels in [
        &["debian:6.1"][..],
        &["debian:6.1", kernel.to_str().unwrap()],
    ] {
        let mut command = sandbox.vmbell();
        command.args(["lab", "kernel", "prepare", "--modules", "none"]);
        for kernel in kernels {
            command.args(["--kernel", kernel]);
        }
        command.assert().code(125).stderr(contains(
            "--modules is for one kernel in a file; Debian's kernels have their own",
        ));
    }
}

#[test]
#[cfg(target_arch = "x86_64")]
fn a_kvm_that_cannot_be_built_is_told_before_anything_is_downloaded() {
    let sandbox = Sandbox::new();
    let qemu = sandbox.qemu("9.0.0", "exit 9");
    let kernel = sandbox.kernel();
    let said = |words: &[&str]| {
        let mut command = sandbox.vmbell();
        command
            .args(["lab", "kernel", "prepare", "--qemu"])
            .arg(&qemu);
        command.args(words).assert().code(125)
    };
    let in_a_file = ["--kvm-patch", "a.patch", "--modules", "none", "--kernel"];
    let words = [in_a_file.as_slice(), &[kernel.to_str().unwrap()]].concat();
    said(&words).stderr(contains(
        "kernel, which is not a kernel of Debian's archive: choose one with --kernel debian:6.12",
    ));
    said(&["--arch", "aarch64", "--kvm-patch", "a.patch"]).stderr(contains(
        "aarch64's kernels have KVM built in, so the lab cannot replace it",
    ));
    said(&["--arch", "aarch64", "--kvm-ioeventfd"]).stderr(contains(
        "--kvm-patch, --kvm-source and --kvm-ioeventfd are for x86_64",
    ));
    said(&["--unpatched"]).stderr(contains(
        "--unpatched is for --kvm-patch, --kvm-source and --kvm-ioeventfd",
    ));
}

#[test]
#[cfg(target_arch = "x86_64")]
fn a_bisection_is_between_two_kernels_of_debian() {
    let sandbox = Sandbox::new();
    let said = |words: &[&str]| {
        let mut command = sandbox.vmbell();
        command.args(["lab", "kernel", "--bisect"]).args(words);
        command.args(["--", "vmbell", "bench", "vmcall"]).assert()
    };
    let functional = "--functional";
    said(&[
        functional,
        "--kernel",
        "debian:6.1",
        "--kernel",
        "debian:6.12",
    ])
    .code(2)
    .stderr(contains("--deterministic"));
    said(&["--kernel", "debian:6.1"]).code(125).stderr(contains(
        "--bisect is between two kernels: name the older and the newer one with --kernel",
    ));
    for other in [
        &["--kernel", "/boot/vmlinuz"][..],
        &["--kernel", "debian:6.12", "--kvm-patch", "a"],
    ] {
        let words = [&["--deterministic", "--kernel", "debian:6.1"], other].concat();
        said(&words).code(125).stderr(contains(
            "--bisect is between kernels of Debian: name them as --kernel debian:VERSION",
        ));
    }
}

#[test]
fn an_export_is_for_one_kernel() {
    let sandbox = Sandbox::new();
    let qemu = sandbox.qemu("9.0.0", "echo booted >&2; exit 9");
    let mut command = sandbox.vmbell();
    command.args(["lab", "kernel", "--qemu"]).arg(qemu);
    command.args(["--kernel", "debian:6.1", "--kernel", "debian:6.12", "--"]);
    command.args(["vmbell", "bench", "--export-json", "kvm.json"]);
    let said = contains("--export-... is for a run with one --kernel and one --depth");
    command
        .assert()
        .code(125)
        .stderr(said.and(contains("booted").not()));
}

#[test]
fn exits_of_rows_need_the_report_in_its_own_order() {
    let sandbox = Sandbox::new();
    let qemu = sandbox.qemu("9.0.0", "echo booted >&2; exit 9");
    let said = |words: &[&str]| {
        let mut command = sandbox.vmbell();
        command.args(["lab", "kernel", "--qemu"]).arg(&qemu);
        command.args(["--depth", "2", "--exits", "--", "vmbell", "bench"]);
        let assert = command.args(words).assert().code(125);
        assert.stderr(contains("booted").not())
    };
    said(&["--sort", "median"]).stderr(contains("--exits has the rows in their own order"));
    said(&["--export-json", "-"]).stderr(contains("give --export-json a file in place of `-`"));
}

#[test]
fn depths_that_the_lab_does_not_have_are_refused_before_the_boot() {
    let sandbox = Sandbox::new();
    let qemu = sandbox.qemu("9.0.0", "echo booted >&2; exit 9");
    let said = |words: &[&str]| {
        let mut command = sandbox.run(&qemu);
        let assert = command.args(words).args(["--", "/bin/true"]).assert();
        assert.stderr(contains("booted").not())
    };
    for depth in ["9", "0", "2,4", "x"] {
        said(&["--depth", depth]).code(2).stderr(contains(
            "a depth is 1, 2 or 3: each level makes an exit 6 to 10 times",
        ));
    }
    said(&["--depth", "1,1"])
        .code(125)
        .stderr(contains("--depth 1 is given twice"));
    said(&["--depth", "1", "--exits"])
        .code(125)
        .stderr(contains("--exits is for --depth 2 and 3"));
    said(&["--depth", "2", "--device", "edu"])
        .code(125)
        .stderr(contains(
            "edu is a device of L1, and the program runs in L2: use --depth 1",
        ));
    said(&["--depth", "2", "--vmm", "firecracker"])
        .code(2)
        .stderr(contains("[possible values: vmbell, qemu]"));
    said(&["--vmm", "qemu"])
        .code(2)
        .stderr(contains("--depth <DEPTH,...>"));
    said(&["--depth", "1", "--vmm", "qemu"])
        .code(125)
        .stderr(contains("--vmm is for --depth 2 and 3"));
    said(&["--depth", "3", "--vmm", "qemu", "--deterministic"])
        .code(125)
        .stderr(contains(
            "--vmm qemu with --deterministic is for --depth 2: in L2, QEMU's guest shuts down",
        ));
    said(&["--depth", "3", "--memory", "3G"])
        .code(125)
        .stderr(contains(
            "and a guest of `vmbell run` has at most 3072: use less --memory",
        ));
}

#[test]
fn a_linux_in_a_guest_of_arm64_is_started_by_vmbell_with_a_gicv3_on_a_newer_qemu() {
    let sandbox = Sandbox::new();
    for (option, message) in [
        (&["--vmm", "qemu"] as &[&str], "--vmm qemu is for x86-64"),
        (&["--gic", "2"], "--gic 2 is for --depth 1"),
    ] {
        let mut command = sandbox.vmbell();
        command.args(["lab", "kernel", "--arch", "aarch64", "--depth", "2"]);
        command.args(option).args(["--", "/bin/true"]);
        command.assert().code(125).stderr(contains(message));
    }
    let mut command = sandbox.vmbell();
    command.args([
        "lab", "kernel", "prepare", "--arch", "aarch64", "--depth", "2",
    ]);
    command.arg("--qemu").arg(sandbox.qemu("8.2.0", ""));
    command.assert().code(125).stderr(contains(
        "is QEMU 8.2.0, and the lab needs 9.0 or newer for this",
    ));
}

#[test]
fn a_device_that_is_given_twice_is_refused() {
    let sandbox = Sandbox::new();
    let mut command = sandbox.run(&sandbox.qemu("9.0.0", "exit 9"));
    command
        .args(["--device", "edu", "--device", "edu,driver=none"])
        .args(["--", "/bin/true"])
        .assert()
        .code(125)
        .stderr(contains("--device edu is given twice, and L1 has one"));
}

#[test]
fn a_report_that_has_no_place_to_go_is_told_before_the_boot() {
    let sandbox = Sandbox::new();
    let qemu = sandbox.qemu("9.0.0", "echo booted >&2; exit 9");
    sandbox
        .vmbell()
        .args(["lab", "kernel", "--modules", "none", "--kernel"])
        .arg(sandbox.kernel())
        .arg("--qemu")
        .arg(qemu)
        .args([
            "--",
            "vmbell",
            "bench",
            "--export-json",
            "/nonexistent/kvm.json",
        ])
        .assert()
        .code(125)
        .stderr(contains("cannot write to '/nonexistent/kvm.json'").and(contains("booted").not()));
}

#[test]
fn what_only_lab_kernel_has_is_told() {
    let sandbox = Sandbox::new();
    for (arguments, word) in [
        (
            &["lab", "--kvm-patch", "a", "--", "true"][..],
            "--kvm-patch",
        ),
        (&["lab", "--cold", "--", "true"], "--cold"),
        (&["lab", "prepare", "--qemu=a"], "--qemu"),
        (&["lab", "selftests"], "selftests"),
    ] {
        let said = sandbox.vmbell().args(arguments).assert().code(2);
        said.stderr(contains(format!("tip: 'vmbell lab kernel' has '{word}'\n")));
    }
    for arguments in [
        &["lab", "--kvm-path", "a"][..],
        &["lab", "kernel", "--limit", "1s"],
        &["bench", "--cold"],
    ] {
        let said = sandbox.vmbell().args(arguments).assert().code(2);
        said.stderr(contains("lab kernel' has").not());
    }
}

#[test]
fn qemu_has_one_cpu_of_the_host() {
    let sandbox = Sandbox::new();
    let mut command = sandbox.vmbell();
    command.args(["lab", "exec", "--", "/usr/bin/nproc"]);
    command.assert().success().stdout("1\n");
}
