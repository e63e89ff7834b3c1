//! Connects [`crate::pv_eoi`] to the guest's RAM, on the vCPU's thread.

use super::apic::complete_eoi;
use crate::elf::fault::in_ram;
use crate::elf::percpu::{PerCpu, control, shared};
use crate::event::Event;
use crate::ioapic;
use crate::pv_eoi::{Completion, GuestByte};

struct Ram;

impl GuestByte for Ram {
    fn read(&self, address: u64) -> Option<u8> {
        // SAFETY: RAM is mapped for good; the guest may write it meanwhile, hence volatile.
        in_ram(address, 1).then(|| unsafe { (address as *const u8).read_volatile() })
    }

    fn write(&self, address: u64, value: u8) -> bool {
        let is_there = in_ram(address, 1);
        if is_there {
            // SAFETY: as for `read`.
            unsafe { (address as *mut u8).write_volatile(value) };
        }
        is_there
    }
}

/// Arms paravirtual EOI; called when `vector` was just injected.
pub fn arm(cpu: &PerCpu, vector: u8) {
    let (pv_eoi, lapic) = (&cpu.interrupts().pv_eoi, cpu.lapic());
    let is_level = lapic.tmr.contains(vector);
    if is_level && ioapic::begin_service(&control().pins, &shared().lines, vector) {
        pv_eoi.arm_forwarded(lapic, &Ram);
    } else {
        pv_eoi.arm(lapic, &Ram);
    }
}

/// Does an armed EOI; called when the vCPU has just left the guest.
#[inline(always)]
pub fn complete(cpu: &PerCpu) {
    if cpu.interrupts().pv_eoi.is_pending() {
        complete_pending(cpu);
    }
}

fn complete_pending(cpu: &PerCpu) {
    let state = cpu.interrupts();
    if let Completion::Completed(Some(eoi)) = state.pv_eoi.complete(cpu.lapic(), &Ram) {
        super::count(cpu, Event::PvEoi);
        complete_eoi(cpu, eoi);
    }
}
