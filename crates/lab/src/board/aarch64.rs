//! The boards of arm64: QEMU's `virt` with EL2, where KVM uses the Virtualization Host Extensions. One board has a CPU
//! with nested virtualization (FEAT_NV2), so that L1's guests also have EL2.

use super::{EmulatorKind, GicVersion, LabBoard};
use crate::arch::Arch;
use crate::device::{Iommu, L1Bus, L1Device, Master};

/// arm64 with EL2 as QEMU emulates it.
pub const AARCH64: LabBoard = LabBoard {
    arch: Arch::AARCH64,
    emulator: EmulatorKind::Qemu,
    qemu: "qemu-system-aarch64",
    oldest_qemu: (7, 2),
    qemu_packages: &["qemu-system-arm"],
    kernel_packages: &["linux-image-6.12-cloud-arm64", "linux-image-cloud-arm64"],
    kernel: None,
    // KVM is built in. Linux 6.1 has virtio as modules.
    modules: &["virtio_pci", "virtio_console"],
    vendor: None,
    machine: "virt,virtualization=on",
    gics: &[GicVersion::V3, GicVersion::V2],
    // `max` has pointer authentication, which QEMU emulates so slowly that a boot takes five times as long.
    cpu: "cortex-a76",
    functional_cpu: "",
    deterministic_cpu: "",
    arguments: &[],
    // The two with `bpf` parse the kernel's type information during the boot, for programs that replace parts of TCP.
    parameters: "console=ttyAMA0 quiet panic=-1 oops=panic nokaslr mitigations=off cryptomgr.notests nowatchdog audit=0 \
                 apparmor=0 initcall_blacklist=load_system_certificate_list,init_blk_tracer,jent_mod_init,\
                 bpf_tcp_ca_kfunc_init,bpf_dummy_struct_ops_init",
    nesting_parameters: "",
    inner_parameters: "",
    devices: &[L1Device {
        name: "pl031",
        bus: L1Bus::Amba,
        address: "9010000.pl031",
        // The clock is part of the machine. Without this argument its alarm would follow the host's time.
        arguments: &["-rtc", "clock=vm"],
        modules: &[],
        built_driver: true,
        interface: None,
        has_state: true,
        // A PCI device's stream ID is its address, and the last slot of bus 255 is empty.
        master: Some(Master {
            node: "/pl031@9010000",
            iommu: "/smmuv3@9050000",
            stream: 0xfff8,
        }),
    }],
    iommu: Iommu {
        machine: "iommu=smmuv3",
        arguments: &[],
        // The SMMU does not isolate the MSIs of devices, and this device sends none.
        parameters: "vfio_iommu_type1.allow_unsafe_interrupts=1",
        modules: &["vfio_iommu_type1"],
    },
};

/// arm64 with nested virtualization. Linux 6.16 is the first to use it, and QEMU 9.0 the first to emulate it.
pub const AARCH64_NESTING: LabBoard = LabBoard {
    oldest_qemu: (9, 0),
    qemu_packages: &["qemu-system-arm/trixie"],
    kernel: Some("debian:newest"),
    // Devices of `vmbell run` use virtio-mmio.
    modules: &["virtio_pci", "virtio_mmio", "virtio_console"],
    cpu: "max,pauth=off",
    nesting_parameters: "kvm-arm.mode=nested",
    inner_parameters: "console=ttyS0",
    ..AARCH64
};
