//! Answers the guest's accesses to its local APIC, through MSRs or the page, and to MSR_KVM_PV_EOI_EN. IPIs go directly
//! from the sender's thread to the target vCPUs, without the monitor.

use crate::elf::exit::in_ram;
use crate::elf::percpu::{PerCpu, control, own_pid, shared};
use crate::elf::syscall::{futex_wake, ring_eventfd, tgkill};
use crate::elf::trap::SIGUSR2;
use vmbell_core::event::Event;
use vmbell_core::lapic::{
    Effect, Eoi, MMIO_BASE, MMIO_SIZE, MSR_APIC_BASE, MSR_BASE, MSR_END, Message, Raise,
};
use vmbell_core::pv_eoi::MSR_PV_EOI;
use vmbell_core::sync::Ordering::Relaxed;
use vmbell_core::vcpu_mode::Notification;

/// The result of an access to an MSR.
pub enum MsrResult {
    /// The stub does not have this MSR: the monitor answers.
    Unhandled,
    /// The access is done. The value is the result of a read, or 0 for a write.
    Value(u64),
    /// The access raises #GP.
    Fault,
}

/// Handles `rdmsr` of MSR `index`.
pub fn read_msr(cpu: &PerCpu, index: u32) -> MsrResult {
    let lapic = cpu.lapic();
    let value = match index {
        _ if !super::has_lapics() => return MsrResult::Unhandled,
        MSR_APIC_BASE => Some(lapic.read_base()),
        MSR_BASE..MSR_END => lapic.read_msr(index),
        MSR_PV_EOI if !has_pv_eoi() => None,
        MSR_PV_EOI => Some(cpu.interrupts().pv_eoi.read_msr()),
        _ => return MsrResult::Unhandled,
    };
    count_msr(cpu, index);
    value.map_or(MsrResult::Fault, MsrResult::Value)
}

/// Handles `wrmsr` of MSR `index`.
pub fn write_msr(cpu: &PerCpu, index: u32, value: u64) -> MsrResult {
    let lapic = cpu.lapic();
    let effect = match index {
        _ if !super::has_lapics() => return MsrResult::Unhandled,
        MSR_APIC_BASE => lapic.write_base(value),
        MSR_BASE..MSR_END => lapic.write_msr(index, value),
        MSR_PV_EOI if !has_pv_eoi() => Effect::Fault,
        MSR_PV_EOI => {
            let is_ram = |address| in_ram(address, 1);
            match cpu.interrupts().pv_eoi.write_msr(value, is_ram) {
                Ok(()) => Effect::None,
                Err(_) => Effect::Fault,
            }
        }
        _ => return MsrResult::Unhandled,
    };
    count_msr(cpu, index);
    if effect == Effect::Fault {
        return MsrResult::Fault;
    }
    apply_effect(cpu, effect);
    MsrResult::Value(0)
}

/// Counts an MSR access. As in KVM, an x2APIC register counts as `kvm_apic` in addition to `kvm_msr`.
fn count_msr(cpu: &PerCpu, index: u32) {
    if (MSR_BASE..MSR_END).contains(&index) {
        super::count(cpu, Event::Apic);
    }
    super::count_light_exit(cpu);
}

fn has_pv_eoi() -> bool {
    control().pv_eoi.load(Relaxed) != 0
}

fn count_register(cpu: &PerCpu) {
    super::count(cpu, Event::Apic);
    super::count_light_exit(cpu);
}

/// Whether an address is in the page of this vCPU's local APIC.
#[inline(always)]
pub fn is_lapic_address(cpu: &PerCpu, address: u64) -> bool {
    is_lapic_page(address) && super::has_lapics() && cpu.lapic().is_xapic()
}

/// Whether an address is in the page that local APICs use in xAPIC mode.
#[inline(always)]
pub fn is_lapic_page(address: u64) -> bool {
    (MMIO_BASE..MMIO_BASE + MMIO_SIZE).contains(&address)
}

/// Handles a load from the page.
pub fn load_lapic(cpu: &PerCpu, address: u64, len: u8) -> u64 {
    count_register(cpu);
    cpu.lapic().read_mmio(address - MMIO_BASE, len).into()
}

/// Handles a store to the page.
pub fn store_lapic(cpu: &PerCpu, address: u64, len: u8, value: u64) {
    count_register(cpu);
    let value = (value & 0xffff_ffff) as u32;
    apply_effect(cpu, cpu.lapic().write_mmio(address - MMIO_BASE, len, value));
}

fn apply_effect(cpu: &PerCpu, effect: Effect) {
    match effect {
        Effect::Eoi(eoi) => complete_eoi(cpu, eoi),
        Effect::Ipi(message) => {
            super::count(cpu, Event::ApicIpi);
            let _ = deliver(cpu, message);
        }
        // A store to the page does nothing if the MSR write would be refused.
        Effect::None | Effect::Fault => {}
    }
}

/// Completes the EOI of a vector: counts it, and passes it to the I/O APIC if a pin may wait for it.
pub fn complete_eoi(cpu: &PerCpu, eoi: Eoi) {
    super::count(cpu, Event::Eoi);
    if eoi.level || cpu.lapic().eoi_exit_bitmap.contains(eoi.vector) {
        super::eoi::complete_ioapic_eoi(cpu, eoi.vector);
    }
}

/// Raises the vector in each APIC of the destination and notifies the vCPUs of these APICs; returns whether a local
/// APIC accepted it.
pub fn deliver(cpu: &PerCpu, message: Message) -> bool {
    let shared = shared();
    let vcpus = control().vcpus.load(Relaxed) as usize;
    let Some(lapics) = shared.lapics.get(..vcpus) else {
        return false;
    };
    let raise = message.deliver(lapics.iter(), |index| {
        super::count(cpu, Event::ApicAcceptIrq);
        let Some(run) = shared.runs.get(index) else {
            return;
        };
        match run.interrupts.mode.claim_notification() {
            Notification::None => {}
            Notification::Signal => tgkill(own_pid(), run.thread_id.load(Relaxed), SIGUSR2),
            Notification::FutexWake => futex_wake(run.interrupts.mode.word()),
            Notification::EventfdWrite => {
                if let Some(fds) = control().halt_fds.get(index) {
                    ring_eventfd(fds.wake_eventfd.load(Relaxed), control().one.as_ptr());
                }
            }
        }
    });
    raise != Raise::Refused
}
