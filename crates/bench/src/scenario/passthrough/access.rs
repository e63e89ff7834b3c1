//! Accesses to a register of the device, back to back.

use super::super::guest::{Guest, Scenario};
use super::assigned::REGISTERS;
use super::edu::{IDENTITY, LIVENESS};
use super::turn::{ADDRESS, Owner};
use crate::{Sample, SubjectError};
use vmbell_guest::Parameters;

/// What the guest stores.
const VALUE: u32 = 0x1234_5678;

/// A scenario of accesses.
pub(super) struct Access {
    pub(super) owner: Owner,
    pub(super) store: bool,
}

impl Access {
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

impl Scenario for Access {
    fn guest(&self) -> &Guest {
        &self.owner.guest
    }

    fn measure(&mut self, ops: u64) -> Result<Sample, SubjectError> {
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
        // The first one pays for what the guest has not touched since the device came.
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
