//! The state of a vCPU, and of what its guest has in the kernel: interrupt controllers, interval timer and clock. A
//! reset restores the registers, a restored guest all of it. The caller's thread makes the calls, while no vCPU runs.
//!
//! Some calls change what others return, so their order matters (Linux `arch/x86/kvm/`):
//! - `KVM_GET_MP_STATE` handles a pending INIT or SIPI, so it is the first call of a save. `KVM_GET_VCPU_EVENTS` shows
//!   what the other calls have left pending, so it is the last.
//! - The vCPU's timer can expire during any call, which replaces the TSC deadline with an interrupt in the local APIC.
//!   So `KVM_GET_MSRS` comes before `KVM_GET_LAPIC`: the state has the interrupt, the deadline or both, never neither.
//! - `KVM_SET_SREGS` sets the address and the mode of the local APIC, on which `KVM_SET_LAPIC` depends. The TSC
//!   deadline needs the APIC's timer mode, and the TSC that it is compared with.
//! - The TSC is set as an offset to the host's, with one value of the host's TSC for all vCPUs. KVM takes a write of
//!   `MSR_TSC` within a second of what it expects for an attempt to synchronize, and ignores its value.
//! - The I/O APIC delivers its pending interrupts when its state is set, so the local APICs come before it.
//!
//! The bit of PV EOI in guest memory needs no state: KVM takes it back at each exit (`apic_sync_pv_eoi_from_guest()`).
//! The MSR with its address is one of the registers.

use kvm_bindings::{
    KVM_IRQCHIP_IOAPIC, KVM_IRQCHIP_PIC_MASTER, KVM_IRQCHIP_PIC_SLAVE, KVM_VCPU_TSC_CTRL,
    KVM_VCPU_TSC_OFFSET, Msrs, kvm_clock_data, kvm_cpuid_entry2, kvm_irqchip, kvm_msr_entry,
};
use kvm_ioctls::{Kvm, VcpuFd, VmFd};
use vmbell::irq::Irqchip;

use super::ioctl;
use super::vm::Parts;
use crate::Error;
pub use crate::state::Registers;
use crate::state::{VcpuState, VmState};

/// The time stamp counter, which a reset does not change.
const MSR_TSC: u32 = 0x10;
/// The deadline of the local APIC's timer.
const MSR_TSC_DEADLINE: u32 = 0x6e0;
/// Hyper-V's reference counter, which cannot be set: it follows the guest's clock.
const MSR_REFERENCE_COUNT: u32 = 0x4000_0020;
/// The number of registers that are read or written at once; KVM accepts 256.
const BATCH: usize = 128;
/// The difference of two TSC rates that KVM still takes for one rate (`tsc_tolerance_ppm`), as a divisor.
const TSC_TOLERANCE: u32 = 1_000_000 / 250;
/// The maximum number of leaves of CPUID that KVM returns.
const LEAVES: usize = kvm_bindings::KVM_MAX_CPUID_ENTRIES;
/// With these bits, a guest may run guests itself, whose state is not saved.
const CR4_VMXE: u64 = 1 << 13;
const EFER_SVME: u64 = 1 << 12;

fn saving<E: Into<std::io::Error>>() -> impl Fn(E) -> Error + Copy {
    Error::system("save the state of the vcpu")
}

fn restoring<E: Into<std::io::Error>>() -> impl Fn(E) -> Error + Copy {
    Error::system("restore the state of the vcpu")
}

impl Registers {
    /// Saves the registers of a vCPU.
    pub fn save(kvm: &Kvm, vcpu: &VcpuFd, irqchip: Irqchip) -> Result<Self, Error> {
        let state = match irqchip {
            Irqchip::None => None,
            Irqchip::Split | Irqchip::Full => Some(vcpu.get_mp_state().map_err(saving())?),
        };
        let msrs = msrs(kvm, vcpu)?;
        let lapic = match state {
            Some(state) => Some((vcpu.get_lapic().map_err(saving())?, state)),
            None => None,
        };
        Ok(Self {
            msrs,
            lapic,
            sregs: vcpu.get_sregs().map_err(saving())?,
            xcrs: vcpu.get_xcrs().map_err(saving())?,
            debug: vcpu.get_debug_regs().map_err(saving())?,
            xsave: vcpu.get_xsave().map_err(saving())?,
            regs: vcpu.get_regs().map_err(saving())?,
            events: vcpu.get_vcpu_events().map_err(saving())?,
        })
    }

    /// Resets a vCPU: restores the registers that it was created with, as far as they have changed.
    pub fn reset(&self, vcpu: &VcpuFd) -> Result<(), Error> {
        self.restore(vcpu).map(drop)
    }

    /// Restores the registers, and returns those that KVM does not let be set.
    fn restore(&self, vcpu: &VcpuFd) -> Result<Vec<kvm_msr_entry>, Error> {
        vcpu.set_sregs(&self.sregs).map_err(restoring())?;
        vcpu.set_xcrs(&self.xcrs).map_err(restoring())?;
        vcpu.set_debug_regs(&self.debug).map_err(restoring())?;
        ioctl::set_xsave(vcpu, &self.xsave).map_err(restoring())?;
        let (deadline, others): (Vec<_>, Vec<_>) = self
            .msrs
            .iter()
            .partition(|entry| entry.index == MSR_TSC_DEADLINE);
        let mut refused = set_msrs(vcpu, &others)?;
        if let Some((lapic, state)) = &self.lapic {
            vcpu.set_lapic(lapic).map_err(restoring())?;
            vcpu.set_mp_state(*state).map_err(restoring())?;
        }
        refused.extend(set_msrs(vcpu, &deadline)?);
        vcpu.set_vcpu_events(&self.events).map_err(restoring())?;
        vcpu.set_regs(&self.regs).map_err(restoring())?;
        Ok(refused)
    }
}

impl VcpuState {
    /// Saves the state of a vCPU outside the guest, which needs no answer to its last exit.
    pub(crate) fn save(kvm: &Kvm, vcpu: &VcpuFd, irqchip: Irqchip) -> Result<Self, Error> {
        let registers = Registers::save(kvm, vcpu, irqchip)?;
        if registers.sregs.cr4 & CR4_VMXE != 0 || registers.sregs.efer & EFER_SVME != 0 {
            return Err(Error::Unsaved {
                what: "a guest that uses virtualization itself",
            });
        }
        let (host_tsc, tsc_offset) = tsc(vcpu)?;
        Ok(Self {
            cpuid: cpuid(vcpu)?,
            tsc_khz: vcpu.get_tsc_khz().map_err(saving())?,
            host_tsc,
            tsc_offset,
            registers,
        })
    }

    /// Restores the state of a vCPU that has not run. Fails if the CPU differs from the one that it was saved on.
    pub(crate) fn restore(&self, vcpu: &VcpuFd, parts: &Parts) -> Result<(), Error> {
        let khz = vcpu.get_tsc_khz().map_err(restoring())?;
        if khz.abs_diff(self.tsc_khz) > self.tsc_khz / TSC_TOLERANCE {
            return Err(other("the TSC's rate in kHz", self.tsc_khz, khz));
        }
        same_cpuid(&self.cpuid, &cpuid(vcpu)?)?;
        let (host_tsc, _) = tsc(vcpu)?;
        let shift = parts
            .tsc_shift
            .get_or_init(|| self.host_tsc.wrapping_sub(host_tsc));
        let offset = self.tsc_offset.wrapping_add(*shift);
        ioctl::set_vcpu_attribute(vcpu, KVM_VCPU_TSC_CTRL, KVM_VCPU_TSC_OFFSET, offset).map_err(
            Error::system("restore the vcpu's time stamp counter (KVM_VCPU_TSC_OFFSET)"),
        )?;
        let (_, now) = tsc(vcpu)?;
        if now != offset {
            return Err(other("the time stamp counter's offset", offset, now));
        }
        for entry in self.registers.restore(vcpu)? {
            let mut now = list(&[msr(entry.index, 0)])?;
            vcpu.get_msrs(&mut now).map_err(restoring())?;
            let now = now.as_slice().first().map_or(0, |entry| entry.data);
            if now != entry.data && entry.index != MSR_REFERENCE_COUNT {
                let what = format!("the model-specific register {:#x}", entry.index);
                return Err(other(what, entry.data, now));
            }
        }
        Ok(())
    }
}

impl VmState {
    /// Saves the state of a guest whose vCPUs are outside the guest.
    pub(crate) fn save(vm: &VmFd, irqchip: Irqchip) -> Result<Self, Error> {
        let saving = Error::system("save the state of the guest's controllers and clock");
        let chip = |chip_id| {
            let mut chip = kvm_irqchip {
                chip_id,
                ..kvm_irqchip::default()
            };
            vm.get_irqchip(&mut chip).map_err(saving).map(|()| chip)
        };
        let controllers = match irqchip {
            Irqchip::None | Irqchip::Split => None,
            Irqchip::Full => {
                let chips = [
                    chip(KVM_IRQCHIP_PIC_MASTER)?,
                    chip(KVM_IRQCHIP_PIC_SLAVE)?,
                    chip(KVM_IRQCHIP_IOAPIC)?,
                ];
                Some((chips, vm.get_pit2().map_err(saving)?))
            }
        };
        let clock = vm.get_clock().map_err(saving)?.clock;
        Ok(Self { clock, controllers })
    }

    /// Restores the state after that of the vCPUs. The guest's clock continues: the time since the save does not pass
    /// for the guest, as for its TSC.
    pub(crate) fn restore(&self, vm: &VmFd, irqchip: Irqchip) -> Result<(), Error> {
        let restoring = Error::system("restore the state of the guest's controllers and clock");
        if self.controllers.is_some() != (irqchip == Irqchip::Full) {
            let has = |full: bool| if full { 3_u64 } else { 0 };
            let (saved, here) = (
                has(self.controllers.is_some()),
                has(irqchip == Irqchip::Full),
            );
            return Err(other("the number of controllers", saved, here));
        }
        let clock = kvm_clock_data {
            clock: self.clock,
            ..kvm_clock_data::default()
        };
        vm.set_clock(&clock).map_err(restoring)?;
        if let Some((chips, pit)) = &self.controllers {
            vm.set_pit2(pit).map_err(restoring)?;
            for chip in chips {
                vm.set_irqchip(chip).map_err(restoring)?;
            }
        }
        Ok(())
    }
}

fn other(what: impl Into<String>, saved: impl Into<u64>, here: impl Into<u64>) -> Error {
    Error::Unrestored {
        what: what.into(),
        saved: saved.into(),
        here: here.into(),
    }
}

/// The vCPU's leaves of CPUID, without the bits that follow the vCPU's registers and its last CPU.
fn cpuid(vcpu: &VcpuFd) -> Result<Vec<kvm_cpuid_entry2>, Error> {
    let leaves = vcpu.get_cpuid2(LEAVES);
    let leaves = leaves.map_err(Error::system("read the vcpu's cpuid"))?;
    let still = |entry: &kvm_cpuid_entry2| {
        let mut entry = *entry;
        match (entry.function, entry.index) {
            // MONITOR, OSXSAVE; APIC.
            (1, _) => {
                entry.ecx &= !(1 << 3 | 1 << 27);
                entry.edx &= !(1 << 9);
            }
            // OSPKE.
            (7, 0) => entry.ecx &= !(1 << 4),
            // The size of the enabled state.
            (0xd, 0 | 1) => entry.ebx = 0,
            // APIC.
            (0x8000_0001, _) => entry.edx &= !(1 << 9),
            _ => {}
        }
        entry
    };
    Ok(leaves.as_slice().iter().map(still).collect())
}

fn same_cpuid(saved: &[kvm_cpuid_entry2], here: &[kvm_cpuid_entry2]) -> Result<(), Error> {
    if saved.len() != here.len() {
        let (saved, here) = (saved.len() as u64, here.len() as u64);
        return Err(other("the number of leaves of cpuid", saved, here));
    }
    for (saved, here) in saved.iter().zip(here) {
        let pairs = [
            ("number", saved.function, here.function),
            ("index", saved.index, here.index),
            ("eax", saved.eax, here.eax),
            ("ebx", saved.ebx, here.ebx),
            ("ecx", saved.ecx, here.ecx),
            ("edx", saved.edx, here.edx),
        ];
        if let Some((register, saved_value, value)) = pairs.into_iter().find(|(_, a, b)| a != b) {
            let (leaf, index) = (saved.function, saved.index);
            let what = format!("the {register} of cpuid leaf {leaf:#x}, index {index}");
            return Err(other(what, saved_value, value));
        }
    }
    Ok(())
}

/// Returns the host's TSC, and what the vCPU's TSC has more.
fn tsc(vcpu: &VcpuFd) -> Result<(u64, u64), Error> {
    const READING: &str = "read the vcpu's time stamp counter (KVM_VCPU_TSC_OFFSET, Linux 5.16)";
    let offset = ioctl::vcpu_attribute(vcpu, KVM_VCPU_TSC_CTRL, KVM_VCPU_TSC_OFFSET);
    let offset = offset.map_err(Error::system(READING))?;
    let mut tsc = list(&[msr(MSR_TSC, 0)])?;
    vcpu.get_msrs(&mut tsc).map_err(Error::system(READING))?;
    let tsc = tsc.as_slice().first().map_or(0, |entry| entry.data);
    Ok((tsc.wrapping_sub(offset), offset))
}

const fn msr(index: u32, data: u64) -> kvm_msr_entry {
    kvm_msr_entry {
        index,
        reserved: 0,
        data,
    }
}

fn list(entries: &[kvm_msr_entry]) -> Result<Msrs, Error> {
    Msrs::from_entries(entries).map_err(|error| Error::System {
        operation: "make a list of registers",
        source: std::io::Error::other(format!("{error:?}")),
    })
}

/// Returns the model-specific registers that KVM lists and the vCPU has, without the TSC.
fn msrs(kvm: &Kvm, vcpu: &VcpuFd) -> Result<Vec<kvm_msr_entry>, Error> {
    let indices = kvm.get_msr_index_list().map_err(saving())?;
    let indices = indices.as_slice().iter().copied();
    let wanted: Vec<_> = indices
        .filter(|index| *index != MSR_TSC)
        .map(|index| msr(index, 0))
        .collect();
    let mut found = Vec::new();
    each_batch(&wanted, |batch| {
        let mut batch = list(batch)?;
        let done = vcpu.get_msrs(&mut batch).map_err(saving())?;
        found.extend(batch.as_slice().iter().take(done));
        Ok(done)
    })?;
    Ok(found)
}

/// Sets registers, and returns those that KVM refuses.
fn set_msrs(vcpu: &VcpuFd, entries: &[kvm_msr_entry]) -> Result<Vec<kvm_msr_entry>, Error> {
    each_batch(entries, |batch| {
        vcpu.set_msrs(&list(batch)?).map_err(restoring())
    })
}

/// Calls `act` with batches of registers. It returns how many it has done; the next one is refused, and returned.
fn each_batch(
    mut rest: &[kvm_msr_entry],
    mut act: impl FnMut(&[kvm_msr_entry]) -> Result<usize, Error>,
) -> Result<Vec<kvm_msr_entry>, Error> {
    let mut refused = Vec::new();
    while !rest.is_empty() {
        let batch = &rest[..rest.len().min(BATCH)];
        let done = act(batch)?.min(batch.len());
        refused.extend(batch.get(done));
        rest = rest.get((done + 1).min(batch.len())..).unwrap_or_default();
    }
    Ok(refused)
}
