//! Scenarios of a single vCPU: an EOI, or a whole interrupt that the vCPU sends to itself.

use super::super::guest::{GuestRun, GuestScenario, ScenarioGuest};
use super::arrival::ArrivalExits;
use super::case::{EoiMethod, InterruptCase};
use crate::{RunSample, SubjectError, SubjectOptions};
use vmbell_guest::{PARAMETERS, Parameters};
use vmbell_hypervisor::Hypervisor;

/// How many interrupts show whether the host uses PV EOI at all.
const TRIAL: u64 = 16;

/// The shortest EOI that two readings of the time stamp counter can distinguish from 0, in ticks: each reading may be
/// late by one tick.
pub(super) const RESOLUTION: u32 = 2;

/// A scenario with one vCPU and no other thread.
pub(super) struct EoiScenario {
    case: InterruptCase,
    guest: ScenarioGuest,
    spared: u64,
    /// The exits that are not caused by EOIs; `None` if the scenario measures whole interrupts.
    arrival: Option<ArrivalExits>,
}

impl EoiScenario {
    pub(super) fn new(
        hypervisor: &dyn Hypervisor,
        case: InterruptCase,
        options: &SubjectOptions,
    ) -> Result<Self, SubjectError> {
        let config = case.config(vec![options.first_cpu()]);
        let guest =
            ScenarioGuest::with_config(hypervisor, case.name(), case.program(), config, options)?;
        let wiring = case.wiring(guest.machine.vm().as_ref())?;
        wiring
            .interrupts
            .write(guest.machine.vm().memory(), PARAMETERS)
            .map_err(|error| guest.failed(error))?;
        let mut ends = Self {
            case,
            guest,
            spared: 0,
            arrival: None,
        };
        if case == InterruptCase::Eoi(EoiMethod::Pv) {
            ends.run_guest(TRIAL)?;
            if ends.spared() == 0 {
                let why = "the host never sets the PV EOI bit (APICv or AVIC makes it unnecessary)";
                return Err(SubjectError::Skipped(why.into()));
            }
        }
        if matches!(case, InterruptCase::Eoi(_)) {
            ends.arrival = Some(ArrivalExits::count(&mut ends.guest)?);
            ends.spared = ends.guest.results()?.spared;
        }
        Ok(ends)
    }

    fn run_guest(&mut self, ops: u64) -> Result<GuestRun, SubjectError> {
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

impl GuestScenario for EoiScenario {
    fn guest(&self) -> &ScenarioGuest {
        &self.guest
    }

    fn measure(&mut self, ops: u64) -> Result<RunSample, SubjectError> {
        let before = self.spared();
        let run = self.run_guest(ops)?;
        let spared = self.spared() - before;
        // KVM clears the bit again if the vCPU leaves the guest between an interrupt and its EOI. At depth 3 on Linux
        // 7.3.4 that happens to 1 interrupt in 17. A run that mostly wrote real EOIs must not count as PV EOI.
        if self.case == InterruptCase::Eoi(EoiMethod::Pv) && spared < ops / 2 {
            let what = format!("only {spared} of {ops} ends were spared");
            return Err(self.guest.failed(what));
        }
        // The program subtracts the time between two adjacent readings of the counter, so the time of an EOI that costs
        // next to nothing may come out negative.
        let ticks = run.ticks.cast_signed().max(0).cast_unsigned();
        let elapsed_ns = self.guest.clock.ns(ticks);
        let mut sample = run.sample(ops, elapsed_ns);
        if let Some(arrival) = self.arrival {
            arrival.subtract(&mut sample);
        }
        Ok(sample)
    }
}
