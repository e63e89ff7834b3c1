//! The parts of an arm64 guest other than memory: its vCPUs, the interrupt controllers, which are created after them,
//! and its routes and lines. Set up by the thread that creates the guest.
//!
//! Pins are shared peripheral interrupts. `KVM_IRQ_LINE` names such an interrupt directly and ignores the routes, so
//! the table of routes is also kept here.

use std::ops::Range;

use kvm_bindings::{
    KVM_ARM_IRQ_TYPE_SHIFT, KVM_ARM_IRQ_TYPE_SPI, KVM_ARM_VCPU_HAS_EL2, KVM_ARM_VCPU_PSCI_0_2,
    KVM_CAP_ARM_NISV_TO_USER, kvm_irq_routing_irqchip, kvm_vcpu_init,
};
use kvm_ioctls::{DeviceFd, VcpuFd, VmFd};
use vmbell::irq::{Gic, Gsi, Irqchip, Msi, Routing, Target};
use vmbell::sync::Mutex;
use vmbell_core::addresses::RAM_BASE;

use super::super::ioctl::enable;
use super::super::system::System;
use super::{exits, gic, ioctl};
use crate::aarch64::{FIRST_SPI, IMAGE_RAM};
use crate::{Capability, Error, VmConfig};

/// The possible places of RAM: for an image, and for a guest program, which has devices above.
pub const RAM: &[Range<u64>] = &[IMAGE_RAM, RAM_BASE..0xc000_0000];

/// The parts that the guest keeps.
#[derive(Debug)]
pub struct Parts {
    /// The vCPUs that no thread has taken yet.
    vcpus: Mutex<Vec<Option<VcpuFd>>>,
    gic: Option<Gic>,
    _devices: Vec<DeviceFd>,
}

impl Parts {
    /// Sets up a new guest that has no vCPU yet.
    pub fn new(system: &System, vm: &VmFd, config: &VmConfig) -> Result<Self, Error> {
        let gic = choose(system, config)?;
        enable(vm, KVM_CAP_ARM_NISV_TO_USER, 0)?;
        if system.host.hypercall_exits {
            exits::forward(vm)?;
        }
        let vcpus: Result<Vec<_>, Error> = (0..config.vcpus)
            .map(|index| make(vm, index, config.virtualization))
            .collect();
        let vcpus = Mutex::new(vcpus?);
        if system.host.counter_offset {
            ioctl::share_counter(vm).map_err(Error::system(
                "give the guest the host's counter (KVM_ARM_SET_COUNTER_OFFSET)",
            ))?;
        }
        let devices = match gic {
            Some(gic) => gic::create(vm, gic, config.virtualization)?,
            None => Vec::new(),
        };
        Ok(Self {
            vcpus,
            gic,
            _devices: devices,
        })
    }

    /// Hands out a vCPU that was created with the guest, once.
    pub fn take(&self, index: u32) -> Option<VcpuFd> {
        let mut vcpus = self.vcpus.lock();
        vcpus.get_mut(usize::try_from(index).ok()?)?.take()
    }

    /// The version of the interrupt controllers.
    pub const fn gic(&self) -> Option<Gic> {
        self.gic
    }
}

/// Returns the version of the interrupt controllers that the guest gets.
fn choose(system: &System, config: &VmConfig) -> Result<Option<Gic>, Error> {
    match (config.irqchip, system.host.gic) {
        (Irqchip::None, _) => Ok(None),
        (Irqchip::Split, _) => Err(Error::Config {
            what: "irqchip",
            value: "split".to_owned(),
            rule: "none or full on arm64".to_owned(),
        }),
        (Irqchip::Full, None) => Err(Error::Unsupported {
            backend: "kvm",
            capability: Capability::Interrupts,
            reason: "this host has neither a GICv3 nor a GICv2 for its guests".to_owned(),
        }),
        (Irqchip::Full, gic) => Ok(gic),
    }
}

/// Creates a vCPU with the firmware interface PSCI. With EL2 it starts there, with the Virtualization Host Extensions
/// always on.
fn make(vm: &VmFd, index: u32, has_el2: bool) -> Result<Option<VcpuFd>, Error> {
    let vcpu = vm
        .create_vcpu(index.into())
        .map_err(Error::system("create a vcpu"))?;
    let mut init = kvm_vcpu_init::default();
    vm.get_preferred_target(&mut init)
        .map_err(Error::system("ask kvm for the kind of its vcpus"))?;
    init.features[0] |= 1 << KVM_ARM_VCPU_PSCI_0_2 | u32::from(has_el2) << KVM_ARM_VCPU_HAS_EL2;
    vcpu.vcpu_init(&init)
        .map_err(Error::system("initialize a vcpu (KVM_ARM_VCPU_INIT)"))?;
    Ok(Some(vcpu))
}

/// The lines of a guest.
#[derive(Debug, Default)]
pub struct RoutedLines(Mutex<Routing>);

impl RoutedLines {
    /// Records the routes that the kernel now has.
    pub fn follow(&self, routing: Routing) {
        *self.0.lock() = routing;
    }

    /// Sets the level of a GSI. Returns the message of a GSI that has no line.
    pub fn drive(&self, vm: &VmFd, gsi: Gsi, level: bool) -> Result<Option<Msi>, Error> {
        let target = self.0.lock().target(gsi);
        let pin = match target {
            Some(Target::Pin(pin)) => pin,
            Some(Target::Msi(msi)) => return Ok(Some(msi)),
            None => return Ok(None),
        };
        let intid = FIRST_SPI + u32::from(pin);
        let line = KVM_ARM_IRQ_TYPE_SPI << KVM_ARM_IRQ_TYPE_SHIFT | intid;
        vm.set_irq_line(line, level)
            .map_err(Error::system("drive a line (KVM_IRQ_LINE)"))?;
        Ok(None)
    }
}

/// Returns the shared peripheral interrupt with this number.
pub fn pin(pin: u8) -> kvm_irq_routing_irqchip {
    kvm_irq_routing_irqchip {
        irqchip: 0,
        pin: pin.into(),
    }
}

/// Returns `None`: arm64 has no second controller.
pub const fn pic_pin(_: u8) -> Option<kvm_irq_routing_irqchip> {
    None
}
