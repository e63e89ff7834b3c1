//! Creates a guest's interrupt controllers, on the thread that creates the guest (Linux
//! Documentation/virt/kvm/devices/arm-vgic.rst, arm-vgic-v3.rst, arm-vgic-its.rst).

use kvm_bindings::{
    KVM_CREATE_DEVICE_TEST, KVM_DEV_ARM_VGIC_CTRL_INIT, KVM_DEV_ARM_VGIC_GRP_ADDR,
    KVM_DEV_ARM_VGIC_GRP_CTRL, KVM_DEV_ARM_VGIC_GRP_MAINT_IRQ, KVM_DEV_ARM_VGIC_GRP_NR_IRQS,
    KVM_VGIC_ITS_ADDR_TYPE, KVM_VGIC_V2_ADDR_TYPE_CPU, KVM_VGIC_V2_ADDR_TYPE_DIST,
    KVM_VGIC_V3_ADDR_TYPE_DIST, KVM_VGIC_V3_ADDR_TYPE_REDIST, kvm_create_device, kvm_device_attr,
    kvm_device_type_KVM_DEV_TYPE_ARM_VGIC_ITS, kvm_device_type_KVM_DEV_TYPE_ARM_VGIC_V2,
    kvm_device_type_KVM_DEV_TYPE_ARM_VGIC_V3,
};
use kvm_ioctls::{DeviceFd, VmFd};

use crate::Error;
use crate::aarch64::{FIRST_PPI, FIRST_SPI, GICC, GICD, GICR, ITS, MAINTENANCE};
use vmbell::irq::{Gic, IrqArch};

/// The number of shared peripheral interrupts.
const SPIS: u32 = IrqArch::Arm64.pins() as u32;

/// Returns the latest version of the interrupt controllers that this host supports in a guest.
pub fn best(vm: &VmFd) -> Option<Gic> {
    let can = |gic: &Gic| {
        let mut device = kvm_create_device {
            type_: kind(*gic),
            flags: KVM_CREATE_DEVICE_TEST,
            ..kvm_create_device::default()
        };
        // With this flag the kernel creates no device, but kvm-ioctls would take descriptor 0 for the device and close
        // it.
        match vm.create_device(&mut device) {
            Ok(none) => {
                std::mem::forget(none);
                true
            }
            Err(_) => false,
        }
    };
    [Gic::V3, Gic::V2].into_iter().find(can)
}

const fn kind(gic: Gic) -> u32 {
    match gic {
        Gic::V2 => kvm_device_type_KVM_DEV_TYPE_ARM_VGIC_V2,
        Gic::V3 => kvm_device_type_KVM_DEV_TYPE_ARM_VGIC_V3,
    }
}

/// Creates the interrupt controllers of a guest that has all its vCPUs, and an ITS if the version supports one. They
/// exist as long as the VM; the descriptors are for saving their state. With EL2, the guest gets a maintenance
/// interrupt when its own guests need new interrupts.
pub fn create(vm: &VmFd, gic: Gic, has_el2: bool) -> Result<Vec<DeviceFd>, Error> {
    let controller = device(vm, kind(gic))?;
    let irqs = FIRST_SPI + SPIS;
    set(&controller, KVM_DEV_ARM_VGIC_GRP_NR_IRQS, 0, &irqs)?;
    let places = match gic {
        Gic::V2 => [
            (KVM_VGIC_V2_ADDR_TYPE_DIST, GICD),
            (KVM_VGIC_V2_ADDR_TYPE_CPU, GICC),
        ],
        Gic::V3 => [
            (KVM_VGIC_V3_ADDR_TYPE_DIST, GICD),
            (KVM_VGIC_V3_ADDR_TYPE_REDIST, GICR),
        ],
    };
    for (place, address) in places {
        set(&controller, KVM_DEV_ARM_VGIC_GRP_ADDR, place, &address)?;
    }
    if has_el2 {
        let interrupt = FIRST_PPI + MAINTENANCE;
        set(&controller, KVM_DEV_ARM_VGIC_GRP_MAINT_IRQ, 0, &interrupt)?;
    }
    initialize(&controller)?;
    let mut devices = vec![controller];
    if gic == Gic::V3 {
        let its = device(vm, kvm_device_type_KVM_DEV_TYPE_ARM_VGIC_ITS)?;
        set(
            &its,
            KVM_DEV_ARM_VGIC_GRP_ADDR,
            KVM_VGIC_ITS_ADDR_TYPE,
            &ITS,
        )?;
        initialize(&its)?;
        devices.push(its);
    }
    Ok(devices)
}

fn device(vm: &VmFd, kind: u32) -> Result<DeviceFd, Error> {
    let mut device = kvm_create_device {
        type_: kind,
        ..kvm_create_device::default()
    };
    vm.create_device(&mut device)
        .map_err(Error::system("create the interrupt controllers"))
}

fn initialize(device: &DeviceFd) -> Result<(), Error> {
    set(
        device,
        KVM_DEV_ARM_VGIC_GRP_CTRL,
        KVM_DEV_ARM_VGIC_CTRL_INIT,
        &(),
    )
}

/// Sets an attribute of a device; the kernel reads `value` during the call.
fn set<T>(device: &DeviceFd, group: u32, attribute: u32, value: &T) -> Result<(), Error> {
    let request = kvm_device_attr {
        group,
        attr: attribute.into(),
        addr: std::ptr::from_ref(value) as u64,
        ..kvm_device_attr::default()
    };
    device
        .set_device_attr(&request)
        .map_err(Error::system("set up the interrupt controllers"))
}
