//! The board of x86-64: a q35 whose CPU has AMD's SVM as QEMU emulates it.

use super::LabBoard;
use crate::arch::Arch;
use crate::device::{Iommu, L1Bus, L1Device};

/// x86-64: AMD's SVM as QEMU emulates it.
pub const X86_64: LabBoard = LabBoard {
    arch: Arch::X86_64,
    qemu: "qemu-system-x86_64",
    oldest_qemu: (7, 2),
    qemu_packages: &["qemu-system-x86"],
    kernel_packages: &["linux-image-6.12-cloud-amd64", "linux-image-cloud-amd64"],
    kernel: None,
    // Linux 6.1 has virtio as modules.
    modules: &["virtio_pci", "virtio_console", "kvm_amd"],
    machine: "q35,smbus=off,sata=off",
    gics: &[],
    // QEMU before 9.1 reads the frame of an `iretq` in user mode as the supervisor, which SMAP forbids: L1's kernel
    // then oopses at the return of the usermode backend's stub (commit 0bd385e7e3 of QEMU).
    cpu: "max,-smap",
    functional_cpu: ",-erms",
    deterministic_cpu: ",-rdrand,-rdseed",
    arguments: &["-device", "isa-debug-exit,iobase=0x501,iosize=4"],
    // These parameters turn off what only costs time under emulation. `panic=-1` with `-no-reboot`
    // makes a panic end QEMU at once, and `oops=panic` an oops.
    parameters: "console=ttyS0 quiet panic=-1 oops=panic nokaslr mitigations=off cryptomgr.notests tsc=reliable no_timer_check \
                 nowatchdog audit=0 apparmor=0 random.trust_cpu=on \
                 initcall_blacklist=load_system_certificate_list,init_blk_tracer,jent_mod_init",
    nesting_parameters: "",
    // QEMU 7.2's SVM switches vector state off at exits (docs/emulator-bugs.md).
    inner_parameters: "noxsave",
    // virtio-serial takes the first free slot, which is 1.
    devices: &[
        L1Device {
            name: "edu",
            bus: L1Bus::Pci,
            address: "0000:00:03.0",
            arguments: &["-device", "edu,addr=3"],
            modules: &["vfio_pci"],
            built_driver: false,
            interface: None,
            // QEMU says nothing of its registers (hw/misc/edu.c).
            has_state: false,
            master: None,
        },
        // A hub connects the card and an interface of L1, so that a program in L1 hears what the card's driver sends.
        // Neither has an option ROM, which the lab's QEMU lacks.
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
        // A card that Linux drives as a guest, too: its kernel for clouds has no driver of the other one. The feature
        // bit of `iommu_platform` makes the guest's driver give it addresses of DMA; without it, and on the legacy
        // registers, QEMU's device reaches L1's memory past the IOMMU. L1's own interface is in the slot before it, so that
        // it gets its name first.
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
