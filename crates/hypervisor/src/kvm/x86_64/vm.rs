//! The parts of an x86-64 guest other than memory: the pages that VMX needs, the interrupt controllers and timer of a
//! PC, and its routes and lines. Set up by the thread that creates the guest.
//!
//! Routes lead to pins of the I/O APIC and of the PIC. The kernel keeps the table of routes and uses it when a line
//! changes, on the thread that changes the line.

use std::ops::Range;
use std::sync::OnceLock;

use kvm_bindings::{
    KVM_CAP_EXIT_HYPERCALL, KVM_CAP_SPLIT_IRQCHIP, KVM_IRQCHIP_IOAPIC, KVM_IRQCHIP_PIC_MASTER,
    KVM_IRQCHIP_PIC_SLAVE, KVM_PIT_SPEAKER_DUMMY, kvm_irq_routing_irqchip, kvm_pit_config,
};
use kvm_ioctls::VmFd;
use vmbell::irq::{Gic, Gsi, Irqchip, Msi, Routing};
use vmbell_core::addresses::RAM_BASE;

use super::super::ioctl::enable;
use super::super::system::System;
use super::cpuid;
use super::host::HC_MAP_GPA_RANGE;
use crate::{CpuFeatures, Error, VmConfig};

/// The possible places of RAM: for an image, and for a guest program. Devices and interrupt controllers are above.
pub const RAM: &[Range<u64>] = &[0..RAM_END, RAM_BASE..RAM_END];
const RAM_END: u64 = 0xc000_0000;

/// Guest-physical address of the three pages that Intel's VMX needs (KVM_SET_TSS_ADDR), below the usual place of
/// firmware.
const TSS_PAGES: usize = 0xfffb_d000;
/// Input pins of an I/O APIC.
const IOAPIC_PINS: u64 = 24;

/// The parts that the guest keeps: what its vCPUs' CPUID will show, and the mode of their local APICs.
#[derive(Debug)]
pub struct Parts {
    pub x2apic: bool,
    pub pv_eoi: bool,
    pub hidden: CpuFeatures,
    /// What the restored vCPUs' offsets to the host's TSC have more than when they were saved. The first vCPU sets it.
    pub tsc_shift: OnceLock<u64>,
}

impl Parts {
    /// Sets up a new guest that has no vCPU yet.
    pub fn new(system: &System, vm: &VmFd, config: &VmConfig) -> Result<Self, Error> {
        vm.set_tss_address(TSS_PAGES)
            .map_err(Error::system("place the pages that VMX needs"))?;
        match config.irqchip {
            Irqchip::None => {}
            Irqchip::Split => enable(vm, KVM_CAP_SPLIT_IRQCHIP, IOAPIC_PINS)?,
            Irqchip::Full => {
                vm.create_irq_chip()
                    .map_err(Error::system("create the interrupt controllers"))?;
                vm.create_pit2(kvm_pit_config {
                    // Port 0x61: the gate and the output of timer 2, and the refresh bit.
                    flags: KVM_PIT_SPEAKER_DUMMY,
                    ..kvm_pit_config::default()
                })
                .map_err(Error::system("create the interval timer"))?;
            }
        }
        if system.host.hypercall_exits {
            enable(vm, KVM_CAP_EXIT_HYPERCALL, 1 << HC_MAP_GPA_RANGE)?;
        }
        Ok(Self {
            x2apic: config.x2apic && !cpuid::hides_x2apic(config.hidden),
            pv_eoi: config.pv_eoi,
            hidden: config.hidden,
            tsc_shift: OnceLock::new(),
        })
    }

    /// The version of arm64's interrupt controllers.
    pub const fn gic(&self) -> Option<Gic> {
        None
    }
}

/// The lines of a guest.
#[derive(Debug, Default)]
pub struct RoutedLines(());

impl RoutedLines {
    /// Records the routes that the kernel now has.
    pub fn follow(&self, _: Routing) {}

    /// Sets the level of a GSI; the kernel follows the routes.
    pub fn drive(&self, vm: &VmFd, gsi: Gsi, level: bool) -> Result<Option<Msi>, Error> {
        vm.set_irq_line(gsi.number(), level)
            .map_err(Error::system("drive a line (KVM_IRQ_LINE)"))?;
        Ok(None)
    }
}

/// Returns the pin of the I/O APIC with this number.
pub fn pin(pin: u8) -> kvm_irq_routing_irqchip {
    kvm_irq_routing_irqchip {
        irqchip: KVM_IRQCHIP_IOAPIC,
        pin: pin.into(),
    }
}

/// Returns the PIC input of this I/O APIC pin, if the PIC has one.
pub fn pic_pin(pin: u8) -> Option<kvm_irq_routing_irqchip> {
    const INPUTS: u8 = 8;
    let irqchip = match pin / INPUTS {
        0 => KVM_IRQCHIP_PIC_MASTER,
        1 => KVM_IRQCHIP_PIC_SLAVE,
        _ => return None,
    };
    Some(kvm_irq_routing_irqchip {
        irqchip,
        pin: (pin % INPUTS).into(),
    })
}
