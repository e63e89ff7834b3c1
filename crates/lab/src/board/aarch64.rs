//! The board of arm64: QEMU's `virt` with EL2, in which KVM runs as a hypervisor of the Virtualization Host Extensions.

use super::{Board, Gic};
use crate::arch::Arch;
use crate::device::Iommu;

/// arm64: EL2 as QEMU emulates it.
pub const AARCH64: Board = Board {
    arch: Arch::AARCH64,
    qemu: "qemu-system-aarch64",
    qemu_packages: &["qemu-system-arm"],
    kernel_packages: &["linux-image-6.12-cloud-arm64", "linux-image-cloud-arm64"],
    // KVM is built in. Linux 6.1 has virtio as modules.
    modules: &["virtio_pci", "virtio_console"],
    machine: "virt,virtualization=on",
    gics: &[Gic::V3, Gic::V2],
    // `max` has pointer authentication, whose emulation makes a boot five times as long.
    arguments: &["-cpu", "cortex-a76"],
    parameters: "console=ttyAMA0 quiet panic=-1 oops=panic nokaslr mitigations=off cryptomgr.notests nowatchdog audit=0 \
                 apparmor=0 initcall_blacklist=load_system_certificate_list,init_blk_tracer,jent_mod_init",
    devices: &[],
    iommu: Iommu {
        machine: "iommu=smmuv3",
        arguments: &[],
        parameters: "",
        modules: &["vfio_iommu_type1"],
    },
};
