//! What is refused before a boot: wrong arguments, programs, kernels and emulators.

use std::fs;

use assert_cmd::assert::OutputAssertExt;
use predicates::prelude::*;
use predicates::str::contains;

use super::support::Sandbox;

/// A sandbox with a kernel, and a QEMU that prints a message when it is started.
fn sandbox() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.kernel();
    sandbox.qemu("9.0.0", "echo booted >&2; exit 9");
    sandbox
}

/// The options of `vmbell lab kernel` for such a machine.
const MACHINE: &str = "lab kernel --cold --modules none --kernel kernel --qemu bin/fake-qemu";

/// Fails unless this machine is refused with these messages.
#[track_caller]
fn refuses(sandbox: &Sandbox, status: i32, rows: &str) -> String {
    sandbox.refuses(status, &format!("{MACHINE} {{}} -- /bin/true"), rows)
}

/// The first bytes of a kernel for arm64.
fn arm64_image() -> Vec<u8> {
    let mut image = vec![0; 4096];
    image[56..60].copy_from_slice(b"ARM\x64");
    image
}

#[test]
fn an_old_qemu_is_refused_and_one_on_path_is_named() {
    let sandbox = sandbox();
    let qemu = sandbox.qemu("6.2.0", "");
    let old = "=> is QEMU 6.2.0, and the lab needs 7.2 or newer";
    refuses(&sandbox, 125, old);
    sandbox.qemu("9.1.2", "exit 5");
    fs::rename(&qemu, sandbox.path("bin/qemu-system-x86_64")).unwrap();
    let line = "lab kernel --modules none --kernel kernel {} -- /bin/true";
    let said = sandbox.refuses(125, line, "=> QEMU 9.1.2 (");
    assert!(said.contains("qemu-system-x86_64, on PATH)"), "{said}");
}

#[test]
fn programs_that_cannot_run_there_are_refused_before_the_boot() {
    let sandbox = sandbox();
    let script = sandbox.script("script", "true");
    let script = script.display();
    let rows = format!("
        no-such-program      => no program no-such-program on PATH
        /nonexistent/program => cannot read /nonexistent/program
        {script} => is a script: run its interpreter, `vmbell lab --with {script} -- /bin/sh {script} ...`
        /etc/passwd          => /etc/passwd is not an ELF program for x86_64: it is something else
    ");
    sandbox.refuses(125, &format!("{MACHINE} -- {{}}"), &rows);
}

#[test]
fn files_that_do_not_fit_are_refused_unread_with_the_memory_that_is_enough() {
    let sandbox = sandbox();
    let file = fs::File::create(sandbox.path("large")).unwrap();
    // Larger than any memory or disk.
    file.set_len(8 << 40).unwrap();
    let most = "--memory 1G --with large:/large => MiB, and at most 2048 MiB go into the lab";
    refuses(&sandbox, 125, most);
    file.set_len(300 << 20).unwrap();
    let needs = "--memory 512M --with large:/large => L1: out of memory: its files need 3";
    let said = refuses(&sandbox, 125, needs);
    let (_, advice) = said.split_once("use --memory ").unwrap();
    let (enough, _) = advice.split_once(" or more").unwrap();
    let mut command = sandbox.run(&sandbox.path("bin/fake-qemu"));
    command.args(["--memory", enough, "--with", "large:/large"]);
    command
        .args(["--", "/bin/true"])
        .current_dir(sandbox.path(""));
    command.assert().code(125).stderr(contains("booted"));
}

#[test]
#[cfg(target_arch = "x86_64")]
fn what_arm64_does_not_have_is_refused_before_the_boot() {
    let sandbox = sandbox();
    let mut elf = fs::read(env!("CARGO_BIN_EXE_vmbell")).unwrap();
    elf[18] = 183;
    fs::write(sandbox.path("vmbell-arm64"), elf).unwrap();
    let rows = "
        --gic 3        => --gic is for arm64, and the lab's machine is x86_64
        --device pl031 => --device pl031: x86_64 has no such device (there are: edu, e1000e, virtio-net)
        VMBELL_AARCH64=vmbell-arm64 --arch aarch64 --device edu => --device edu: aarch64 has no such device (there are: pl031)
        VMBELL_AARCH64=/bin/true    --arch aarch64 => /bin/true is a program for x86_64, and the lab needs a vmbell for aarch64
        VMBELL_AARCH64=vmbell-arm64 --arch aarch64 => is linked dynamically, and the lab needs a static vmbell
    ";
    refuses(&sandbox, 125, rows);
}

#[test]
fn vmms_are_refused_in_an_l1_of_arm64() {
    let rows = "
        bench vmms => VMMs run in an L1 of x86_64 only, and the lab's machine is aarch64: leave --arch out
        sweep      => VMMs run in an L1 of x86_64 only, and the lab's machine is aarch64: leave --arch out
    ";
    Sandbox::new().refuses(125, "lab --arch aarch64 -- vmbell {}", rows);
}

#[test]
#[cfg(target_arch = "x86_64")]
fn what_bochs_does_not_have_is_refused_by_its_name() {
    let sandbox = Sandbox::new();
    let rows = "
        --device edu     => --device edu: Bochs has no IOMMU, so --cpu intel assigns no device
        --depth 2 --exits    => --exits counts exits by SVM's codes: use --cpu amd
        --depth 2 --vmm qemu => --vmm qemu needs QEMU, and --cpu intel runs in Bochs: use --cpu amd
        --stdin          => --stdin needs virtio-serial, and Bochs has no virtio
        --qemu-arg=-d    => --qemu-arg is for --cpu amd
        --qemu bin/qemu  => --qemu is for --cpu amd
        --debug-kernel   => --debug-kernel builds KVM for AMD's SVM only
        --arch aarch64   => --cpu intel is a CPU of x86_64, and the lab's machine is aarch64
        --cpu intel      => --cpu intel is given twice
    ";
    let line = "lab kernel --cpu intel {} -- /bin/true";
    sandbox.refuses(125, line, rows);
    // These options are refused for both CPUs before the first machine boots.
    let rows = "
        --device edu     => --device edu: Bochs has no IOMMU, so --cpu intel assigns no device
        --memory 3G      => L1 would need 3072 MiB of memory, and Bochs has at most 2048: use less --memory
        --stdin          => --stdin needs virtio-serial, and Bochs has no virtio
        --debug-kernel   => --debug-kernel builds KVM for AMD's SVM only
        --bochs /bin/true --qemu bin/absent => cannot run bin/absent
    ";
    sandbox.refuses(125, "lab kernel --cpu amd,intel {} -- /bin/true", rows);
    let rows = "
        lab kernel --cpu intel --bochs /bin/true -- /bin/true => /bin/true is not a Bochs
    ";
    sandbox.refuses(125, "{}", rows);
    let line = "lab --cpu intel -- vmbell bench {}";
    let rows = "
        net  => bench net needs a network card in L1, and Bochs has no virtio
    ";
    sandbox.refuses(125, line, rows);
    let rows = "
        --bochs a => --bochs is for --cpu intel: QEMU emulates this machine
    ";
    sandbox.refuses(125, "lab kernel --kernel debian:6.12 {} -- /bin/true", rows);
}

#[test]
#[cfg(target_arch = "x86_64")]
fn a_bochs_or_a_kernel_that_does_not_fit_is_refused_before_anything_is_built() {
    let sandbox = sandbox();
    for (name, version) in [("old", "2.7"), ("plain", "3.0")] {
        sandbox.script(name, &format!("echo 'Bochs x86 Emulator {version}'"));
    }
    let modules = sandbox.path("modules");
    fs::create_dir(&modules).unwrap();
    for name in ["virtio_pci.ko", "virtio_console.ko", "kvm_amd.ko"] {
        fs::copy("/bin/true", modules.join(name)).unwrap();
    }
    let rows = "
        --bochs kernel     => cannot run kernel
        --bochs bin/absent => cannot run bin/absent
        --bochs bin/old    => bin/old is Bochs 2.7, and the lab's changes are for 3.0
        --bochs bin/plain  => was built without the lab's changes: apply crates/lab/bochs/*.patch
        --kernel kernel --modules modules => module kvm_intel is not in
    ";
    sandbox.refuses(125, "lab kernel --cpu intel {} -- /bin/true", rows);
}

#[test]
#[cfg(target_arch = "x86_64")]
fn a_preparation_for_bochs_includes_the_qemu_for_vmms_in_l1() {
    let line = "lab kernel prepare --cpu intel --bochs bin/no-bochs {}";
    Sandbox::new().refuses(125, line, "--qemu bin/absent => cannot run bin/absent");
}

#[test]
fn an_unknown_cpu_is_refused_with_the_list() {
    let rows = "
        --cpu intle           => unknown CPU, did you mean 'intel'? (there are: amd, intel, intel:skylake-x, intel:penryn,
        --cpu intel:pentium   => unknown CPU
        --cpu amd:haswell     => unknown CPU, did you mean 'intel:haswell'?
        --cpu intel,          => unknown CPU
    ";
    Sandbox::new().refuses(2, "lab {} -- /bin/true", rows);
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
    let sandbox = sandbox();
    fs::write(sandbox.path("text"), "text").unwrap();
    fs::write(sandbox.path("arm64"), arm64_image()).unwrap();
    fs::copy("/bin/true", sandbox.path("vmlinuz-7")).unwrap();
    let rows = "
        /nonexistent --modules none => cannot read /nonexistent
        /nonexistent                => cannot read /nonexistent
        text --modules none         => is not a kernel: neither a bzImage nor an ELF vmlinux
        text                        => is not a kernel: neither a bzImage nor an ELF vmlinux
        arm64                       => is a kernel for aarch64, and L1 is x86_64
        vmlinuz-7                   => no modules of Linux 7 in
    ";
    let line = "lab kernel --qemu bin/fake-qemu --kernel {} -- /bin/true";
    sandbox.refuses(125, line, rows);
}

#[test]
fn a_device_is_refused_before_the_boot_if_there_are_no_modules_to_assign_it() {
    let sandbox = sandbox();
    let modules = sandbox.path("modules");
    fs::create_dir(&modules).unwrap();
    for name in ["virtio_pci.ko", "virtio_console.ko", "kvm_amd.ko"] {
        fs::copy("/bin/true", modules.join(name)).unwrap();
    }
    let line = "lab kernel --qemu bin/fake-qemu --kernel kernel --modules modules {} -- /bin/true";
    let row = "--device edu => this kernel cannot assign edu to a guest: module vfio_pci is not in";
    sandbox.refuses(125, line, row);
}

#[test]
fn modules_are_for_one_kernel_in_a_file() {
    let rows = "
        --kernel debian:6.1 => --modules is for one kernel in a file; Debian's kernels have their own
        --kernel debian:6.1 --kernel kernel => --modules is for one kernel in a file; Debian's kernels have their own
    ";
    sandbox().refuses(125, "lab kernel prepare --modules none {}", rows);
}

#[test]
#[cfg(target_arch = "x86_64")]
fn a_kvm_that_cannot_be_built_is_told_before_anything_is_downloaded() {
    let rows = "
        --kvm-patch a.patch --modules none --kernel kernel => kernel, which is not a kernel of Debian's archive: choose one with --kernel debian:6.12
        --arch aarch64 --kvm-patch a.patch => aarch64's kernels have KVM built in, so the lab cannot replace it
        --arch aarch64 --kvm-ioeventfd     => --kvm-patch, --kvm-source and --kvm-ioeventfd are for x86_64
        --unpatched                        => --unpatched is for --kvm-patch, --kvm-source and --kvm-ioeventfd
    ";
    sandbox().refuses(125, "lab kernel prepare --qemu bin/fake-qemu {}", rows);
    // The unpatched KVM, which needs no build, would boot first.
    let rows = "
        --unpatched --kvm-patch a.patch => kernel, which is not a kernel of Debian's archive
        --unpatched --kvm-ioeventfd     => kernel, which is not a kernel of Debian's archive
    ";
    refuses(&sandbox(), 125, rows);
}

#[test]
#[cfg(target_arch = "x86_64")]
fn a_parameter_of_kvm_is_checked_before_the_boot() {
    let sandbox = sandbox();
    let usage = "
        --kvm-param avic        => 'avic' is neither NAME=VALUE nor MODULE.NAME=VALUE: write enable_apicv=0 or
        --kvm-param kvm_arm.a=1 => 'kvm_arm' is not one of KVM's modules: kvm, kvm_amd, kvm_intel
    ";
    let line = "lab kernel --qemu bin/fake-qemu {} -- /bin/true";
    sandbox.refuses(2, line, usage);
    let modules = sandbox.path("modules");
    fs::create_dir(&modules).unwrap();
    for name in ["virtio_pci.ko", "virtio_console.ko", "kvm_amd.ko", "kvm.ko"] {
        fs::copy("/bin/true", modules.join(name)).unwrap();
    }
    let rows = "
        --kvm-param kvm_intel.ept=0 => --kvm-param kvm_intel.ept=0: no CPU of this run loads this module
        --kernel kernel --modules none --kvm-param avic=1 => --kvm-param avic=1: this kernel has KVM built in
        --kernel kernel --modules modules --kvm-param npt=0,avci=1 => kvm_amd and kvm have no such parameter; kvm_amd has
    ";
    sandbox.refuses(125, line, rows);
}

#[test]
#[cfg(target_arch = "x86_64")]
fn a_bisection_is_between_two_kernels_of_debian() {
    let sandbox = sandbox();
    let line = "lab kernel --bisect --kernel debian:6.1 {} -- vmbell bench vmcall";
    let rows = "
        => --bisect is between two kernels: name the older and the newer one with --kernel
        --deterministic --kernel /boot/vmlinuz => --bisect is between kernels of Debian: name them as --kernel debian:VERSION
        --deterministic --kernel debian:6.12 --cpu amd,intel => --bisect is on one CPU: give one --cpu
        --deterministic --kernel debian:6.12 --kvm-patch a => --bisect is between kernels of Debian: name them as --kernel debian:VERSION
    ";
    sandbox.refuses(125, line, rows);
    let functional = "--functional --kernel debian:6.12 => --deterministic";
    sandbox.refuses(2, line, functional);
}

#[test]
fn a_report_has_one_kernel_a_place_to_go_and_with_exits_its_own_order() {
    let sandbox = sandbox();
    let lab = "lab kernel --qemu bin/fake-qemu";
    let two = format!("{lab} --kernel debian:6.1 --kernel debian:6.12 -- vmbell bench {{}}");
    let one = "--export-json kvm.json => --export-... is for a run with one --kernel, one --cpu and one --depth";
    sandbox.refuses(125, &two, one);
    let nowhere = "--export-json /nonexistent/kvm.json => cannot write to '/nonexistent/kvm.json'";
    sandbox.refuses(125, &format!("{MACHINE} -- vmbell bench {{}}"), nowhere);
    let rows = "
        --sort median   => --exits has the rows in their own order
        --export-json - => give --export-json a file in place of `-`
    ";
    let exits = format!("{lab} --depth 2 --exits -- vmbell bench {{}}");
    sandbox.refuses(125, &exits, rows);
}

#[test]
fn depths_that_the_lab_does_not_have_are_refused_before_the_boot() {
    let sandbox = sandbox();
    let usage = "
        --depth 9   => a depth is 1, 2 or 3: each level makes an exit 6 to 10 times
        --depth 0   => a depth is 1, 2 or 3: each level makes an exit 6 to 10 times
        --depth 2,4 => a depth is 1, 2 or 3: each level makes an exit 6 to 10 times
        --depth x   => a depth is 1, 2 or 3: each level makes an exit 6 to 10 times
        --depth 2 --vmm firecracker => [possible values: vmbell, qemu]
        --vmm qemu                  => --depth <DEPTH,...>
    ";
    refuses(&sandbox, 2, usage);
    let rows = "
        --depth 1,1              => --depth 1 is given twice
        --depth 1 --exits        => --exits is for --depth 2 and 3
        --depth 2 --device edu   => edu is a device of L1, and the program runs in L2: use --depth 1
        --depth 1 --vmm qemu     => --vmm is for --depth 2 and 3
        --depth 3 --vmm qemu --deterministic => --vmm qemu with --deterministic is for --depth 2: in L2, QEMU's guest shuts down
        --depth 3 --memory 3G    => and a guest of `vmbell run` has at most 3072: use less --memory
    ";
    refuses(&sandbox, 125, rows);
}

#[test]
fn a_linux_in_a_guest_of_arm64_is_started_by_vmbell_with_a_gicv3_on_a_newer_qemu() {
    let sandbox = Sandbox::new();
    sandbox.qemu("8.2.0", "");
    let rows = "
        --vmm qemu => --vmm qemu is for x86-64
        --gic 2    => --gic 2 is for --depth 1
    ";
    let line = "lab kernel --arch aarch64 --depth 2 {} -- /bin/true";
    sandbox.refuses(125, line, rows);
    let line = "lab kernel prepare --arch aarch64 --depth 2 {}";
    let old = "--qemu bin/fake-qemu => is QEMU 8.2.0, and the lab needs 9.0 or newer for this";
    sandbox.refuses(125, line, old);
}

#[test]
fn a_device_that_is_given_twice_is_refused() {
    let twice =
        "--device edu --device edu,driver=none => --device edu is given twice, and L1 has one";
    refuses(&sandbox(), 125, twice);
}

#[test]
fn what_only_lab_kernel_has_is_told() {
    let sandbox = Sandbox::new();
    let rows = "
        lab --kvm-patch a -- true => tip: 'vmbell lab kernel' has '--kvm-patch'
        lab --cold -- true        => tip: 'vmbell lab kernel' has '--cold'
        lab prepare --qemu=a      => tip: 'vmbell lab kernel' has '--qemu'
        lab selftests             => tip: 'vmbell lab kernel' has 'selftests'
    ";
    sandbox.refuses(2, "{}", rows);
    for line in ["lab --kvm-path a", "lab kernel --limit 1s", "bench --cold"] {
        let said = sandbox.refuses(2, line, "=> error: ");
        assert!(!said.contains("lab kernel' has"), "{line}: {said}");
    }
}

#[test]
fn qemu_has_one_cpu_of_the_host() {
    let sandbox = Sandbox::new();
    let mut command = sandbox.vmbell();
    command.args(["lab", "exec", "--", "/usr/bin/nproc"]);
    command.assert().success().stdout("1\n");
}
