//! What an x86-64 guest has besides memory and vCPUs, which its creator sets up first: the pages that VMX needs,
//! and the interrupt controllers and timer of a PC.

use kvm_bindings::{KVM_CAP_SPLIT_IRQCHIP, kvm_pit_config};
use kvm_ioctls::VmFd;

use super::super::vm::enable;
use crate::hypervisor::{Error, Irqchip};

/// Guest-physical address of the three pages that Intel's VMX needs (KVM_SET_TSS_ADDR), below the place of
/// firmware.
const TSS_PAGES: usize = 0xfffb_d000;
/// Input pins of an I/O APIC.
const IOAPIC_PINS: u64 = 24;

/// Sets up a new guest that has no vCPU yet.
pub fn set_up(vm: &VmFd, irqchip: Irqchip) -> Result<(), Error> {
    vm.set_tss_address(TSS_PAGES)
        .map_err(Error::system("place the pages that VMX needs"))?;
    match irqchip {
        Irqchip::None => Ok(()),
        Irqchip::Split => enable(vm, KVM_CAP_SPLIT_IRQCHIP, IOAPIC_PINS),
        Irqchip::Full => {
            vm.create_irq_chip()
                .map_err(Error::system("create the interrupt controllers"))?;
            vm.create_pit2(kvm_pit_config::default())
                .map_err(Error::system("create the interval timer"))
        }
    }
}
