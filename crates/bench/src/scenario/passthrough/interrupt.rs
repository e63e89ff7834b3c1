//! Interrupts of the device, one at a time: from the store that raises one to the return of its handler.

use super::super::guest::{Guest, Scenario};
use super::turn::{ADDRESS, Owner};
use crate::{Sample, SubjectError};
use vmbell_guest::Parameters;

/// A scenario of interrupts.
pub(super) struct Interrupt(pub(super) Owner);

impl Scenario for Interrupt {
    fn guest(&self) -> &Guest {
        &self.0.guest
    }

    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a run takes far less than 2^53 ns"
    )]
    fn measure(&mut self, ops: u64) -> Result<Sample, SubjectError> {
        let turn = self.0.begin()?;
        let value = self.0.case.value();
        let guest = &mut self.0.guest;
        let parameters = |count| Parameters {
            count,
            address: ADDRESS,
            value,
            ..Parameters::default()
        };
        // The first one pays for what the guest has not touched since the device came.
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
            // The first one too.
            guest.agree("the host's interrupt controller", direct.injected, ops + 1)?;
            guest.agree("the trigger eventfd", direct.signalled, 0)?;
        }
        let spurious = after.interrupts - before.interrupts - served;
        let to_handler = guest.clock.ns(after.latency - before.latency);
        let elapsed_ns = guest.clock.ns(run.ticks);
        Ok(Sample {
            counts: vec![
                ("spurious interrupts".to_owned(), spurious),
                ("ns to the handlers".to_owned(), to_handler as u64),
            ],
            ..run.sample(ops, elapsed_ns)
        })
    }
}
