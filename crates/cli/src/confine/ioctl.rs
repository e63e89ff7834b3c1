//! The ioctls that a guest's threads make, by number (Linux `uapi/linux/kvm.h`, `vhost.h`, `vfio.h`, `iommufd.h`).

use kvm_bindings::{
    KVMIO, kvm_device_attr, kvm_ioeventfd, kvm_irq_level, kvm_irq_routing, kvm_irqfd, kvm_msi,
    kvm_one_reg, kvm_regs, kvm_userspace_memory_region,
};
#[cfg(target_arch = "x86_64")]
use kvm_bindings::{
    kvm_debugregs, kvm_lapic_state, kvm_mp_state, kvm_msrs, kvm_sregs, kvm_vcpu_events, kvm_xcrs,
    kvm_xsave,
};
use libc::{_IO, _IOR, _IOW, Ioctl};

/// Truncated to the low 32 bits, which are all that the kernel uses.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::unnecessary_cast,
    reason = "a request has 32 bits, in a type that depends on the C library"
)]
const fn request(request: Ioctl) -> u32 {
    request as u32
}

/// Enters the guest.
pub(super) const KVM_RUN: u32 = request(_IO(KVMIO, 0x80));

/// Interrupts raised by a device's thread.
pub(super) const INTERRUPTS: &[u32] = &[
    request(_IOW::<kvm_irq_level>(KVMIO, 0x61)), // KVM_IRQ_LINE
    request(_IOW::<kvm_msi>(KVMIO, 0xa5)),       // KVM_SIGNAL_MSI
];

/// The ioctls of a vCPU's thread on an exit: they change doorbells, irqfds and routes, and read the registers of a vCPU
/// that faulted.
pub(super) const EXITS: &[u32] = &[
    request(_IOW::<kvm_ioeventfd>(KVMIO, 0x79)), // KVM_IOEVENTFD
    request(_IOW::<kvm_irqfd>(KVMIO, 0x76)),     // KVM_IRQFD
    request(_IOW::<kvm_irq_routing>(KVMIO, 0x6a)), // KVM_SET_GSI_ROUTING
    request(_IOR::<kvm_regs>(KVMIO, 0x81)),      // KVM_GET_REGS
    request(_IOW::<kvm_one_reg>(KVMIO, 0xab)),   // KVM_GET_ONE_REG
];

/// Guest memory other than RAM.
pub(super) const MEMORY: &[u32] = &[
    request(_IOW::<kvm_userspace_memory_region>(KVMIO, 0x46)), // KVM_SET_USER_MEMORY_REGION
];

/// What the main thread sets in vCPUs when the guest wakes from sleep.
#[cfg(target_arch = "x86_64")]
pub(super) const WAKE: &[u32] = &[
    request(_IOW::<kvm_regs>(KVMIO, 0x82)),        // KVM_SET_REGS
    request(_IOR::<kvm_sregs>(KVMIO, 0x83)),       // KVM_GET_SREGS
    request(_IOW::<kvm_sregs>(KVMIO, 0x84)),       // KVM_SET_SREGS
    request(_IOW::<kvm_msrs>(KVMIO, 0x89)),        // KVM_SET_MSRS
    request(_IOW::<kvm_lapic_state>(KVMIO, 0x8f)), // KVM_SET_LAPIC
    request(_IOW::<kvm_mp_state>(KVMIO, 0x99)),    // KVM_SET_MP_STATE
    request(_IOW::<kvm_vcpu_events>(KVMIO, 0xa0)), // KVM_SET_VCPU_EVENTS
    request(_IOW::<kvm_debugregs>(KVMIO, 0xa2)),   // KVM_SET_DEBUGREGS
    request(_IOW::<kvm_xsave>(KVMIO, 0xa5)),       // KVM_SET_XSAVE
    request(_IOW::<kvm_xcrs>(KVMIO, 0xa7)),        // KVM_SET_XCRS
];
/// arm64's board does not sleep.
#[cfg(target_arch = "aarch64")]
pub(super) const WAKE: &[u32] = &[];

/// The terminal's settings, which the main thread restores at the end.
pub(super) const TERMINAL: &[u32] = &[
    0x5401,                                        // TCGETS
    0x5402,                                        // TCSETS
    request(_IOR::<[u32; 11]>(b'T' as u32, 0x2a)), // TCGETS2
    request(_IOW::<[u32; 11]>(b'T' as u32, 0x2b)), // TCSETS2
];

/// A tap's offloads, as the driver negotiates them.
pub(super) const TAP: &[u32] = &[request(_IOW::<libc::c_uint>(b'T' as u32, 208))]; // TUNSETOFFLOAD

const VHOST: u32 = 0xaf;

/// The queues of a vhost worker, and starting and stopping it.
pub(super) const WORKER: &[u32] = &[
    request(_IOW::<u64>(VHOST, 0x00)),         // VHOST_SET_FEATURES
    request(_IOW::<u64>(VHOST, 0x03)),         // VHOST_SET_MEM_TABLE
    request(_IOW::<[u32; 2]>(VHOST, 0x10)),    // VHOST_SET_VRING_NUM
    request(_IOW::<[u64; 5]>(VHOST, 0x11)),    // VHOST_SET_VRING_ADDR
    request(_IOW::<[u32; 2]>(VHOST, 0x12)),    // VHOST_SET_VRING_BASE
    request(_IOW::<[u32; 2]>(VHOST, 0x20)),    // VHOST_SET_VRING_KICK
    request(_IOW::<[u32; 2]>(VHOST, 0x21)),    // VHOST_SET_VRING_CALL
    request(_IOW::<[u32; 2]>(VHOST, 0x22)),    // VHOST_SET_VRING_ERR
    request(_IOW::<[u32; 2]>(VHOST, 0x30)),    // VHOST_NET_SET_BACKEND
    request(_IOW::<libc::c_int>(VHOST, 0x61)), // VHOST_VSOCK_SET_RUNNING
];

const VFIO: u32 = 0x3b;

/// An assigned device: its interrupts, reset and tear-down. Its registers are in [`MEMORY`].
pub(super) const ASSIGNED: &[u32] = &[
    request(_IOW::<kvm_device_attr>(KVMIO, 0xe1)), // KVM_SET_DEVICE_ATTR
    request(_IO(VFIO, 105)),                       // VFIO_GROUP_UNSET_CONTAINER
    request(_IO(VFIO, 109)),                       // VFIO_DEVICE_GET_IRQ_INFO
    request(_IO(VFIO, 110)),                       // VFIO_DEVICE_SET_IRQS
    request(_IO(VFIO, 111)),                       // VFIO_DEVICE_RESET
    request(_IO(VFIO, 114)),                       // VFIO_IOMMU_UNMAP_DMA
    request(_IO(VFIO, 0x80)),                      // IOMMU_DESTROY
    request(_IO(VFIO, 0x86)),                      // IOMMU_IOAS_UNMAP
];
