//! The parts of an x86-64 guest other than memory: the pages that VMX needs, the interrupt controllers and timer of a
//! PC, its vCPUs, and its routes and lines. Set up by the thread that creates the guest.
//!
//! Routes lead to pins of the I/O APIC and of the PIC. The kernel keeps the table of routes and uses it when a line
//! changes, on the thread that changes the line.

use std::ops::Range;

use kvm_bindings::{
    KVM_CAP_EXIT_HYPERCALL, KVM_CAP_SPLIT_IRQCHIP, KVM_IRQCHIP_IOAPIC, KVM_IRQCHIP_PIC_MASTER,
    KVM_IRQCHIP_PIC_SLAVE, KVM_PIT_SPEAKER_DUMMY, kvm_irq_routing_irqchip, kvm_pit_config,
};
use kvm_ioctls::{VcpuFd, VmFd};
use vmbell::irq::{Gic, Gsi, Irqchip, Routing};
use vmbell_core::addresses::RAM_BASE;

use super::super::interrupts::Drive;
use super::super::system::System;
use super::super::vm::{KvmGuest, enable};
use super::host::HC_MAP_GPA_RANGE;
use super::topology::Topology;
use super::{cpuid, entry, ioctl};
use crate::{CpuFeatures, Error, VmConfig};

/// The possible places of RAM: for an image, and for a guest program. Devices and interrupt controllers are above.
pub const RAM: &[Range<u64>] = &[0..RAM_END, RAM_BASE..RAM_END];
const RAM_END: u64 = 0xc000_0000;

/// Guest-physical address of the three pages that Intel's VMX needs (KVM_SET_TSS_ADDR), below the usual place of
/// firmware.
const TSS_PAGES: usize = 0xfffb_d000;
/// The fewest banks that KVM accepts. Linux writes several registers of each bank at boot, and the banks never report
/// an error.
const MCE_BANKS: u8 = 1;
/// Input pins of an I/O APIC.
const IOAPIC_PINS: u64 = 24;

/// The parts that the guest keeps: what its vCPUs' CPUID will show, and the mode of their local APICs.
#[derive(Debug)]
pub struct Parts {
    x2apic: bool,
    pv_eoi: bool,
    hidden: CpuFeatures,
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
        })
    }

    /// The version of arm64's interrupt controllers.
    pub const fn gic(&self) -> Option<Gic> {
        None
    }
}

/// Creates a vCPU, and sets its CPUID.
pub fn vcpu(guest: &KvmGuest, index: u32) -> Result<VcpuFd, Error> {
    let fd = guest
        .slots
        .vm()
        .create_vcpu(index.into())
        .map_err(Error::system("create a vcpu"))?;
    let offer = cpuid::Offer {
        topology: Topology {
            index,
            vcpus: guest.vcpus,
        },
        irqchip: guest.irqchip,
        pv_eoi: guest.parts.pv_eoi,
        hidden: guest.parts.hidden,
    };
    cpuid::set(&fd, &guest.system.host.cpuid, offer)?;
    ioctl::set_mce_banks(&fd, MCE_BANKS).map_err(Error::system(
        "set the vcpu's banks for machine checks (KVM_X86_SETUP_MCE)",
    ))?;
    if guest.parts.x2apic {
        entry::enter_x2apic_mode(&fd)?;
    }
    Ok(fd)
}

/// The lines of a guest.
#[derive(Debug, Default)]
pub struct RoutedLines(());

impl RoutedLines {
    /// Records the routes that the kernel now has.
    pub fn follow(&self, _: Routing) {}

    /// Returns what a GSI drives.
    pub const fn drive(&self, gsi: Gsi) -> Drive {
        Drive::Line(gsi.number())
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
