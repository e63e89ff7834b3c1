//! The boards of x86-64: a q35 whose CPU has AMD's SVM as QEMU emulates it, and a PC whose CPU has Intel's VMX as Bochs
//! emulates it.

use super::{CpuVendor, EmulatorKind, IntelCpu, LabBoard};
use crate::arch::Arch;
use crate::device::{Iommu, L1Bus, L1Device};

/// x86-64 with AMD's SVM as QEMU emulates it.
pub const X86_64: LabBoard = LabBoard {
    arch: Arch::X86_64,
    emulator: EmulatorKind::Qemu,
    qemu: "qemu-system-x86_64",
    oldest_qemu: (7, 2),
    qemu_packages: &["qemu-system-x86"],
    kernel_packages: &["linux-image-6.12-cloud-amd64", "linux-image-cloud-amd64"],
    kernel: None,
    // Linux 6.1 has virtio as modules.
    modules: &["virtio_pci", "virtio_console", "kvm_amd"],
    vendor: Some(CpuVendor::Amd),
    machine: "q35,smbus=off,sata=off",
    gics: &[],
    // Before 9.1, QEMU reads the frame of an `iretq` in user mode with supervisor rights, which SMAP forbids. L1's
    // kernel then oopses when the usermode backend's stub returns (fixed by QEMU commit 0bd385e7e3).
    cpu: "max,-smap",
    functional_cpu: ",-erms",
    deterministic_cpu: ",-rdrand,-rdseed",
    arguments: &["-device", "isa-debug-exit,iobase=0x501,iosize=4"],
    // These parameters turn off features that only cost time under emulation. With `panic=-1` and `-no-reboot`, a panic
    // ends QEMU at once; with `oops=panic`, so does an oops.
    parameters: "console=ttyS0 quiet panic=-1 oops=panic nokaslr mitigations=off cryptomgr.notests tsc=reliable no_timer_check \
                 nowatchdog audit=0 apparmor=0 random.trust_cpu=on \
                 initcall_blacklist=load_system_certificate_list,init_blk_tracer,jent_mod_init",
    nesting_parameters: "",
    // QEMU 7.2's SVM disables vector state at exits (docs/emulator-bugs.md).
    inner_parameters: "noxsave",
    // virtio-serial takes the first free slot, slot 1.
    devices: &[
        L1Device {
            name: "edu",
            bus: L1Bus::Pci,
            address: "0000:00:03.0",
            arguments: &["-device", "edu,addr=3"],
            modules: &["vfio_pci"],
            built_driver: false,
            interface: None,
            // QEMU does not save the device's registers (hw/misc/edu.c).
            has_state: false,
            master: None,
        },
        // A hub connects the card to an interface of L1, so that a program in L1 receives the frames that the card's
        // driver sends. Both have their option ROM disabled: the lab's QEMU comes without these files.
        L1Device {
            name: "e1000e",
            bus: L1Bus::Pci,
            address: "0000:00:04.0",
            arguments: &[
                "-netdev",
                "hubport,id=lab.e1000e,hubid=0",
                "-netdev",
                "hubport,id=lab.net,hubid=0",
                "-device",
                "e1000e,addr=4,netdev=lab.e1000e,mac=52:54:00:00:00:04,romfile=",
                "-device",
                "virtio-net-pci,addr=5,netdev=lab.net,mac=52:54:00:00:00:05,romfile=",
            ],
            modules: &["vfio_pci", "virtio_net", "af_packet"],
            built_driver: false,
            interface: Some("0000:00:05.0"),
            has_state: true,
            master: None,
        },
        // A card that a Linux guest can also drive: its cloud kernel has no driver for the other card. With the feature
        // bit of `iommu_platform`, the guest's driver uses DMA addresses. Without it, and with the legacy registers,
        // QEMU's device bypasses the IOMMU to reach L1's memory. L1's own interface is in the slot before, so that it
        // is named first.
        L1Device {
            name: "virtio-net",
            bus: L1Bus::Pci,
            address: "0000:00:07.0",
            arguments: &[
                "-netdev",
                "hubport,id=lab.virtio,hubid=1",
                "-netdev",
                "hubport,id=lab.peer,hubid=1",
                "-device",
                "virtio-net-pci,addr=7,netdev=lab.virtio,mac=52:54:00:00:00:07,romfile=,\
                 iommu_platform=on,ats=on,disable-legacy=on",
                "-device",
                "virtio-net-pci,addr=6,netdev=lab.peer,mac=52:54:00:00:00:06,romfile=",
            ],
            modules: &["vfio_pci", "virtio_net", "af_packet"],
            built_driver: false,
            interface: Some("0000:00:06.0"),
            has_state: true,
            master: None,
        },
    ],
    iommu: Iommu {
        machine: "",
        arguments: &["-device", "intel-iommu,intremap=on"],
        parameters: "intel_iommu=on",
        modules: &["vfio_iommu_type1"],
    },
};

/// x86-64 with Intel's VMX as Bochs emulates it. The machine has no devices to assign, no virtio and no IOMMU.
pub const X86_64_VMX: LabBoard = LabBoard {
    emulator: EmulatorKind::Bochs(IntelCpu::SKYLAKE_X),
    modules: &["kvm_intel"],
    vendor: Some(CpuVendor::Intel),
    // The parameters of the other board, and the TSC's rate, because a calibration would take as long as the rest of
    // the boot. A reboot is a triple fault, which ends Bochs: after a reset, the option ROM would enter a kernel that
    // has already run.
    parameters: "console=ttyS0 quiet panic=-1 reboot=t oops=panic nokaslr mitigations=off cryptomgr.notests tsc=reliable no_timer_check \
                 nowatchdog audit=0 apparmor=0 random.trust_cpu=on tsc_early_khz=1000000 \
                 initcall_blacklist=load_system_certificate_list,init_blk_tracer,jent_mod_init",
    devices: &[],
    ..X86_64
};
