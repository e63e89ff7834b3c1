//! What `/dev/kvm` offers on arm64, queried once by the thread that opens it.

use kvm_bindings::{
    KVM_ARM_VM_SMCCC_CTRL, KVM_ARM_VM_SMCCC_FILTER, KVM_CAP_ARM_NISV_TO_USER, KVM_CAP_ARM_PSCI_0_2,
    KVM_CAP_COUNTER_OFFSET, KVM_CAP_ONE_REG, kvm_device_attr,
};
use kvm_ioctls::{Kvm, VmFd};
use vmbell::irq::Gic;

use super::gic;
use crate::Error;

/// What `/dev/kvm` requires in addition to support in the kernel.
pub const MISSING: &str = "boot a kernel with KVM in EL2";

/// Why the backend has no ports.
pub const NO_PORTS: Option<&str> =
    Some("arm64 has no ports; its kvm would take the doorbell and never ring it");

/// The extensions that the backend needs in addition to those needed on every architecture.
pub const NEEDED: [(u32, &str, &str); 3] = [
    (KVM_CAP_ONE_REG, "KVM_CAP_ONE_REG", "3.6"),
    (KVM_CAP_ARM_PSCI_0_2, "KVM_CAP_ARM_PSCI_0_2", "3.16"),
    (KVM_CAP_ARM_NISV_TO_USER, "KVM_CAP_ARM_NISV_TO_USER", "5.5"),
];

/// `KVM_CAP_ARM_EL2` of Linux `uapi/linux/kvm.h`.
const CAP_EL2: libc::c_ulong = 240;

/// What `/dev/kvm` answered.
#[derive(Debug)]
pub struct Host {
    /// The latest version of the interrupt controllers that a guest can have; `None` if it can have none.
    pub gic: Option<Gic>,
    /// Whether a guest's vCPUs can have EL2.
    pub el2: bool,
    /// Whether KVM can forward a hypercall to the VMM.
    pub hypercall_exits: bool,
    /// Whether a guest's counter can exactly equal the host's.
    pub counter_offset: bool,
}

impl Host {
    pub fn ask(kvm: &Kvm) -> Result<Self, Error> {
        // Only a VM can tell which devices and attributes exist.
        let vm = kvm.create_vm().map_err(Error::system("create a vm"))?;
        Ok(Self {
            gic: gic::best(&vm),
            el2: kvm.check_extension_raw(CAP_EL2) > 0,
            hypercall_exits: has_filter(&vm),
            counter_offset: kvm.check_extension_raw(KVM_CAP_COUNTER_OFFSET.into()) > 0,
        })
    }
}

fn has_filter(vm: &VmFd) -> bool {
    let filter = kvm_device_attr {
        group: KVM_ARM_VM_SMCCC_CTRL,
        attr: KVM_ARM_VM_SMCCC_FILTER.into(),
        ..kvm_device_attr::default()
    };
    vm.has_device_attr(&filter).is_ok()
}
