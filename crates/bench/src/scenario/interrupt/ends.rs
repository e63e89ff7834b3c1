//! What a vCPU does to itself: the end of an interrupt alone, or an interrupt from one end to the other.

use super::super::guest::{Guest, Run, Scenario};
use super::case::{Case, End};
use crate::{Options, Sample, SubjectError};
use vmbell::guest::Parameters;
use vmbell::hypervisor::Hypervisor;

/// Interrupts that show whether the host arms the bit at all.
const TRIAL: u64 = 16;

/// A scenario of one vCPU and no other thread.
pub(super) struct Ends<H: Hypervisor> {
    case: Case,
    guest: Guest<H>,
    spared: u64,
}

impl<H: Hypervisor> Ends<H> {
    pub(super) fn new(hypervisor: &H, case: Case, options: &Options) -> Result<Self, SubjectError> {
        let config = case.config(vec![options.first_cpu()]);
        let guest = Guest::with_config(hypervisor, case.name(), case.program(), config, options)?;
        guest
            .machine
            .set_interrupts(&case.interrupts())
            .map_err(|error| guest.failed(error))?;
        let mut ends = Self {
            case,
            guest,
            spared: 0,
        };
        if case == Case::Eoi(End::Pv) {
            ends.run_guest(TRIAL)?;
            if ends.spared() == 0 {
                let why = "the host never sets the PV EOI bit (APICv or AVIC makes it unnecessary)";
                return Err(SubjectError::Skipped(why.into()));
            }
        }
        Ok(ends)
    }

    fn run_guest(&mut self, ops: u64) -> Result<Run, SubjectError> {
        let run = self.guest.run(&Parameters {
            count: ops,
            ..Parameters::default()
        })?;
        self.spared = self.guest.results()?.spared;
        Ok(run)
    }

    fn spared(&self) -> u64 {
        self.spared
    }
}

impl<H: Hypervisor> Scenario for Ends<H> {
    type Hypervisor = H;

    fn guest(&self) -> &Guest<H> {
        &self.guest
    }

    fn measure(&mut self, ops: u64) -> Result<Sample, SubjectError> {
        let before = self.spared();
        let run = self.run_guest(ops)?;
        let spared = self.spared() - before;
        // A preempted vCPU loses its bit now and then; a row of real EOIs must not pass for this one.
        if self.case == Case::Eoi(End::Pv) && spared < ops - ops / 10 {
            let what = format!("only {spared} of {ops} ends were spared");
            return Err(self.guest.failed(what));
        }
        // Two readings of the counter on each side of nothing may differ by a tick the other way.
        let ticks = run.ticks.cast_signed().max(0).cast_unsigned();
        let elapsed_ns = self.guest.clock.ns(ticks);
        Ok(run.sample(ops, elapsed_ns))
    }
}
