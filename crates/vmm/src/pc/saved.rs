//! Saves a PC while it runs, and restores it. The thread that runs the PC does both, while no vCPU runs.
//!
//! The devices are paused before the vCPUs are saved, and restored before them. Requests that a device's thread still
//! works on are completed first, and requests that it has not taken stay in their rings. Afterwards each queue is
//! signalled once, so that no signal needs to be part of the state; `Control::resume` of the virtio devices says why
//! that is enough. The guest's clocks do not advance between its save and its restore.
//!
//! Only the micro model is saved. A device that cannot be saved refuses by name, and the guest goes on.

use vm_memory::GuestMemoryMmap;
use vmbell_devices::SnapshotError;
use vmbell_hypervisor::Vcpu;

use super::Pc;
use super::state::{AfterSave, PcState, TakeState};
use crate::error::BoardError;
use crate::stop::Stop;

impl Pc {
    /// Pauses the guest and calls `take` with its state, or with the reason why it has none, and with its RAM. If there
    /// is a state, the RAM does not change during the call. Any thread may call this; the thread that runs the PC calls
    /// `take`, or drops it if the run ends before. Returns false, and drops `take`, if another request waits or the run
    /// is over. What the caller itself has put on the buses of the [machine](Self::machine) is neither paused nor saved.
    pub fn save(
        &self,
        take: impl FnOnce(Result<PcState, BoardError>, &GuestMemoryMmap) -> AfterSave + Send + 'static,
    ) -> bool {
        let is_made = self.save_request.make(Box::new(take));
        self.switch.kick();
        is_made
    }

    /// Restores a guest whose RAM is that of this PC ([`with_memory`](Self::with_memory)), with the same devices in the
    /// same order, and runs it like [`run`](Self::run). Instead of it, a PC can do this once.
    pub fn restore(
        &self,
        state: &PcState,
        until: impl Fn() -> bool + Send + Sync + 'static,
    ) -> Result<Stop, BoardError> {
        let _run = self.save_request.during_run();
        let numbers = [
            ("bytes of RAM", state.memory, self.config.memory),
            ("vcpus", state.vcpus.len() as u64, self.config.vcpus.into()),
        ];
        for (what, saved, here) in numbers {
            if saved != here {
                return Err(BoardError::OtherBoard { what, saved, here });
            }
        }
        let io_apic = self.io_apic.as_ref().ok_or_else(full_model)?;
        self.pci.restore(&state.pci)?;
        self.publish_config()?;
        io_apic.restore(&state.io_apic);
        self.serial.restore(&state.serial)?;
        let mut vcpus = self.create_vcpus()?;
        for (vcpu, state) in vcpus.iter_mut().zip(&state.vcpus) {
            vcpu.restore(state).map_err(BoardError::Snapshot)?;
        }
        let vm = self.machine.vm();
        vm.restore(&state.controllers)
            .map_err(BoardError::Snapshot)?;
        self.resume();
        self.run_from(None, vcpus, until)
    }

    pub(super) fn save_now(&self, vcpus: &[Box<dyn Vcpu>], take: Box<TakeState>) -> AfterSave {
        let state = self.pause(vcpus);
        let after = match self.switch.is_off() {
            // A device failed during the pause: the next turn of the run ends with its error.
            true => AfterSave::GoOn,
            false => take(state, self.machine.vm().memory()),
        };
        // A guest that ends must not execute requests that its copies have too.
        if after == AfterSave::GoOn {
            self.resume();
        }
        after
    }

    /// Pauses the devices and returns the state. If it fails, some devices are paused.
    fn pause(&self, vcpus: &[Box<dyn Vcpu>]) -> Result<PcState, BoardError> {
        let io_apic = self.io_apic.as_ref().ok_or_else(full_model)?.save();
        if !self.platform.lock().devices.is_empty() {
            let (device, reason) = ("platform device", "it accesses guest memory meanwhile");
            return Err(SnapshotError::Unsaved { device, reason }.into());
        }
        let pci = self.pci.pause()?;
        // Before the vCPUs, because the port still gets input: `resume` raises again what is in the port's state, and an
        // interrupt that is only in a vCPU's state is harmless.
        let serial = self.serial.save();
        let saved = vcpus
            .iter()
            .map(|vcpu| vcpu.save())
            .collect::<Result<_, _>>();
        Ok(PcState {
            memory: self.config.memory,
            vcpus: saved.map_err(BoardError::Snapshot)?,
            controllers: self.machine.vm().save().map_err(BoardError::Snapshot)?,
            io_apic,
            pci,
            serial,
        })
    }

    fn resume(&self) {
        self.pci.resume();
        self.serial.resume();
    }
}

fn full_model() -> SnapshotError {
    SnapshotError::Unsaved {
        device: "PC of the full model",
        reason: "the states of its clock and ports are not part of a snapshot; the micro model is saved",
    }
}
