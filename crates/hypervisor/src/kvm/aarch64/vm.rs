//! What an arm64 guest has besides memory: its vCPUs, and after them its interrupt controllers. Its creator sets it up.
//!
//! The kernel takes no further vCPU once the interrupt controllers are initialized, and no irqfd before. So all vCPUs
//! are made with the guest and handed out later.

use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use kvm_bindings::{KVM_ARM_VCPU_PSCI_0_2, KVM_CAP_ARM_NISV_TO_USER, kvm_vcpu_init};
use kvm_ioctls::{DeviceFd, VcpuFd, VmFd};
use stub::layout::RAM_BASE;

use super::super::system::System;
use super::super::vm::{Guest, enable};
use super::{gic, hypercall, ioctl};
use crate::aarch64::IMAGE_RAM;
use crate::{Capability, Error, Irqchip, VmConfig};
use vmbell::irq::Gic;

/// Where RAM may be: that of an image, and that of a guest program, which has devices above.
pub const RAM: &[Range<u64>] = &[IMAGE_RAM, RAM_BASE..0xc000_0000];

/// The most vCPUs with a GICv2.
const GICV2_VCPUS: u32 = 8;

/// What the guest keeps of it.
#[derive(Debug)]
pub struct Parts {
    /// The vCPUs that nobody has taken yet.
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
            hypercall::forward(vm)?;
        }
        let vcpus: Result<Vec<_>, Error> = (0..config.vcpus).map(|index| make(vm, index)).collect();
        let vcpus = Mutex::new(vcpus?);
        if system.host.counter_offset {
            ioctl::share_counter(vm).map_err(Error::system(
                "give the guest the host's counter (KVM_ARM_SET_COUNTER_OFFSET)",
            ))?;
        }
        let devices = match gic {
            Some(gic) => gic::create(vm, gic)?,
            None => Vec::new(),
        };
        Ok(Self {
            vcpus,
            gic,
            _devices: devices,
        })
    }

    /// The version of the interrupt controllers.
    pub const fn gic(&self) -> Option<Gic> {
        self.gic
    }
}

/// The interrupt controllers that the guest gets.
fn choose(system: &System, config: &VmConfig) -> Result<Option<Gic>, Error> {
    let refuse = |what, value: String, rule: &str| {
        let rule = rule.to_owned();
        Err(Error::Config { what, value, rule })
    };
    match (config.irqchip, system.host.gic) {
        (Irqchip::None, _) => Ok(None),
        (Irqchip::Split, _) => refuse("irqchip", "split".to_owned(), "none or full on arm64"),
        (Irqchip::Full, None) => Err(Error::Unsupported {
            backend: "kvm",
            capability: Capability::Interrupts,
            reason: "this host has neither a GICv3 nor a GICv2 for its guests".to_owned(),
        }),
        (Irqchip::Full, Some(Gic::V2)) if config.vcpus > GICV2_VCPUS => {
            refuse("vcpus", config.vcpus.to_string(), "at most 8 with a GICv2")
        }
        (Irqchip::Full, gic) => Ok(gic),
    }
}

/// Makes a vCPU with the firmware interface PSCI.
fn make(vm: &VmFd, index: u32) -> Result<Option<VcpuFd>, Error> {
    let vcpu = vm
        .create_vcpu(index.into())
        .map_err(Error::system("create a vcpu"))?;
    let mut init = kvm_vcpu_init::default();
    vm.get_preferred_target(&mut init)
        .map_err(Error::system("ask kvm for the kind of its vcpus"))?;
    init.features[0] |= 1 << KVM_ARM_VCPU_PSCI_0_2;
    vcpu.vcpu_init(&init)
        .map_err(Error::system("initialize a vcpu (KVM_ARM_VCPU_INIT)"))?;
    Ok(Some(vcpu))
}

/// Hands out a vCPU that was made with the guest, once.
pub fn vcpu(guest: &Guest, index: u32) -> Result<VcpuFd, Error> {
    let mut vcpus = guest
        .parts
        .vcpus
        .lock()
        .unwrap_or_else(PoisonError::into_inner);
    let place = usize::try_from(index)
        .ok()
        .and_then(|index| vcpus.get_mut(index));
    let vcpus = guest.vcpus;
    place
        .and_then(Option::take)
        .ok_or(Error::Vcpu { index, vcpus })
}
