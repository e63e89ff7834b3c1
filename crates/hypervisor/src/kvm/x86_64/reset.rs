//! Resets a vCPU: puts back the state in which KVM has made it. KVM has no request for that. Runs on the thread that
//! owns the vCPU, while the vCPU is outside the guest.
//!
//! The order of the requests is QEMU's (`kvm_arch_put_registers`): the local APIC needs its mode, which is in the system
//! registers, and pending events come after the registers that say whether they are possible.

use kvm_bindings::{
    Msrs, kvm_debugregs, kvm_fpu, kvm_lapic_state, kvm_mp_state, kvm_msr_entry, kvm_regs,
    kvm_sregs, kvm_vcpu_events, kvm_xcrs,
};
use kvm_ioctls::{Kvm, VcpuFd};

use crate::{Error, Irqchip};

/// The time stamp counter, which goes on.
const MSR_TSC: u32 = 0x10;
/// How many registers are read or written at once; KVM takes 256.
const BATCH: usize = 128;

/// The state of a vCPU.
#[derive(Debug)]
pub struct State {
    sregs: kvm_sregs,
    xcrs: kvm_xcrs,
    debug: kvm_debugregs,
    fpu: kvm_fpu,
    msrs: Vec<kvm_msr_entry>,
    /// The local APIC and whether it waits for a SIPI, if there is one.
    lapic: Option<(kvm_lapic_state, kvm_mp_state)>,
    events: kvm_vcpu_events,
    regs: kvm_regs,
}

fn failed<E: Into<std::io::Error>>() -> impl Fn(E) -> Error + Copy {
    Error::system("save the state of the vcpu for its reset")
}

impl State {
    /// Saves the state of a vCPU that has not run.
    pub fn save(kvm: &Kvm, vcpu: &VcpuFd, irqchip: Irqchip) -> Result<Self, Error> {
        let lapic = match irqchip {
            Irqchip::None => None,
            Irqchip::Split | Irqchip::Full => {
                let lapic = vcpu.get_lapic().map_err(failed())?;
                Some((lapic, vcpu.get_mp_state().map_err(failed())?))
            }
        };
        Ok(Self {
            sregs: vcpu.get_sregs().map_err(failed())?,
            xcrs: vcpu.get_xcrs().map_err(failed())?,
            debug: vcpu.get_debug_regs().map_err(failed())?,
            fpu: vcpu.get_fpu().map_err(failed())?,
            msrs: msrs(kvm, vcpu)?,
            lapic,
            events: vcpu.get_vcpu_events().map_err(failed())?,
            regs: vcpu.get_regs().map_err(failed())?,
        })
    }

    /// Puts the state back.
    pub fn restore(&self, vcpu: &VcpuFd) -> Result<(), Error> {
        let failed = Error::system("reset the vcpu");
        vcpu.set_sregs(&self.sregs).map_err(failed)?;
        vcpu.set_xcrs(&self.xcrs).map_err(failed)?;
        vcpu.set_debug_regs(&self.debug).map_err(failed)?;
        vcpu.set_fpu(&self.fpu).map_err(failed)?;
        let mut rest = self.msrs.as_slice();
        while !rest.is_empty() {
            let batch = list(&rest[..rest.len().min(BATCH)])?;
            let done = vcpu.set_msrs(&batch).map_err(failed)?;
            rest = behind(rest, done);
        }
        if let Some((lapic, state)) = &self.lapic {
            vcpu.set_lapic(lapic).map_err(failed)?;
            vcpu.set_mp_state(*state).map_err(failed)?;
        }
        vcpu.set_vcpu_events(&self.events).map_err(failed)?;
        vcpu.set_regs(&self.regs).map_err(failed)
    }
}

/// The rest behind `done` registers of a batch. If KVM stopped before the end of the batch, the next register is one
/// that it lists but does not have for this vCPU: it is left out.
fn behind<T>(rest: &[T], done: usize) -> &[T] {
    let whole = done >= rest.len().min(BATCH);
    rest.get(done + usize::from(!whole)..).unwrap_or_default()
}

fn list(entries: &[kvm_msr_entry]) -> Result<Msrs, Error> {
    Msrs::from_entries(entries).map_err(|error| Error::System {
        operation: "make a list of registers",
        source: std::io::Error::other(format!("{error:?}")),
    })
}

/// The model-specific registers that KVM lists and the vCPU has.
fn msrs(kvm: &Kvm, vcpu: &VcpuFd) -> Result<Vec<kvm_msr_entry>, Error> {
    let indices = kvm.get_msr_index_list().map_err(failed())?;
    let wanted: Vec<_> = indices
        .as_slice()
        .iter()
        .filter(|index| **index != MSR_TSC)
        .map(|index| kvm_msr_entry {
            index: *index,
            ..kvm_msr_entry::default()
        })
        .collect();
    let (mut rest, mut found) = (wanted.as_slice(), Vec::new());
    while !rest.is_empty() {
        let mut batch = list(&rest[..rest.len().min(BATCH)])?;
        let done = vcpu.get_msrs(&mut batch).map_err(failed())?;
        found.extend(batch.as_slice().iter().take(done));
        rest = behind(rest, done);
    }
    Ok(found)
}
