//! The two kinds of scenario: interrupts of the device, one at a time, from the store that raises one to the return of
//! its handler; and accesses to a register of the device, back to back.

use super::super::guest::{GuestScenario, ScenarioGuest};
use super::assigned::REGISTERS;
use super::hardware::{IDENTITY, LIVENESS};
use super::turn::{ADDRESS, DeviceGuest};
use crate::{RunSample, SubjectError};
use vmbell_guest::Parameters;

/// A scenario of interrupts.
pub(super) struct InterruptScenario(pub(super) DeviceGuest);

impl GuestScenario for InterruptScenario {
    fn guest(&self) -> &ScenarioGuest {
        &self.0.guest
    }

    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a run takes far less than 2^53 ns"
    )]
    fn measure(&mut self, ops: u64) -> Result<RunSample, SubjectError> {
        let turn = self.0.begin()?;
        let value = self.0.case.value();
        let guest = &mut self.0.guest;
        let parameters = |count| Parameters {
            count,
            address: ADDRESS,
            value,
            ..Parameters::default()
        };
        // The first operation is slower: the guest has not touched the device or its memory before.
        guest.run(&parameters(1))?;
        let before = guest.results()?;
        let run = guest.run(&parameters(ops))?;
        let after = guest.results()?;
        turn.check().map_err(|error| guest.failed(error))?;
        let direct = turn.forwarded().map_err(|error| guest.failed(error))?;
        drop(turn);
        let served = after.served - before.served;
        guest.agree("the handler", served, ops)?;
        if let Some(direct) = direct {
            // The first operation is counted as well.
            guest.agree("the host's interrupt controller", direct.injected, ops + 1)?;
            guest.agree("the trigger eventfd", direct.signalled, 0)?;
        }
        let spurious = after.interrupts - before.interrupts - served;
        let to_handler = guest.clock.ns(after.latency - before.latency);
        let elapsed_ns = guest.clock.ns(run.ticks);
        Ok(RunSample {
            counts: vec![
                ("spurious interrupts".to_owned(), spurious),
                ("ns to the handlers".to_owned(), to_handler as u64),
            ],
            ..run.sample(ops, elapsed_ns)
        })
    }
}

/// The value that the guest stores in an access.
const VALUE: u32 = 0x1234_5678;

/// A scenario of accesses.
pub(super) struct AccessScenario {
    pub(super) owner: DeviceGuest,
    pub(super) store: bool,
}

impl AccessScenario {
    /// Fails unless the guest's accesses have reached the device.
    fn check(&self) -> Result<(), SubjectError> {
        let guest = &self.owner.guest;
        let (found, expected) = if self.store {
            let mut data = [0; 4];
            let read = self
                .owner
                .assigned
                .device
                .read(REGISTERS, LIVENESS, &mut data);
            read.map_err(|error| guest.failed(error))?;
            (u32::from_le_bytes(data).into(), u64::from(!VALUE))
        } else {
            (guest.results()?.word, u64::from(IDENTITY.1))
        };
        if found == expected {
            return Ok(());
        }
        Err(guest.failed(format!("the register is {found:#x} and not {expected:#x}")))
    }
}

impl GuestScenario for AccessScenario {
    fn guest(&self) -> &ScenarioGuest {
        &self.owner.guest
    }

    fn measure(&mut self, ops: u64) -> Result<RunSample, SubjectError> {
        let turn = self.owner.begin()?;
        let register = if self.store { LIVENESS } else { IDENTITY.0 };
        let zero = self
            .owner
            .assigned
            .device
            .write(REGISTERS, LIVENESS, &[0; 4]);
        zero.map_err(|error| self.owner.guest.failed(error))?;
        let parameters = |count| Parameters {
            count,
            address: ADDRESS + register,
            value: VALUE.into(),
            ..Parameters::default()
        };
        // The first operation is slower: the guest has not touched the device or its memory before.
        self.owner.guest.run(&parameters(1))?;
        let run = self.owner.guest.run(&parameters(ops))?;
        turn.check()
            .map_err(|error| self.owner.guest.failed(error))?;
        self.check()?;
        drop(turn);
        let elapsed_ns = self.owner.guest.clock.ns(run.ticks);
        Ok(run.sample(ops, elapsed_ns))
    }
}
