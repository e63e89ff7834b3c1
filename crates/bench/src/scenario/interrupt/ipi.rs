//! The scenario in which one vCPU interrupts another.

use std::sync::Arc;

use super::super::guest::{GuestScenario, ScenarioFailure, ScenarioGuest, boot};
use super::case::InterruptCase;
use crate::affinity;
use crate::{RunSample, SubjectError, SubjectOptions};
use vmbell_guest::{PARAMETERS, Parameters};
use vmbell_hypervisor::{Hypervisor, Vcpu};
use vmbell_vmm::{Deadline, Stop};

/// The scenario with its two vCPUs.
pub(super) struct IpiScenario {
    guest: ScenarioGuest,
    second: Box<dyn Vcpu>,
    cpu: usize,
}

const CASE: InterruptCase = InterruptCase::Ipi;

impl IpiScenario {
    pub(super) fn new(
        hypervisor: &dyn Hypervisor,
        options: &SubjectOptions,
    ) -> Result<Self, SubjectError> {
        let (first, cpu) = options.two_cpus()?;
        let config = CASE.config(vec![first, cpu]);
        let name = CASE.name();
        let guest = ScenarioGuest::with_config(hypervisor, name, CASE.program(), config, options)?;
        let wiring = CASE.wiring(guest.machine.vm().as_ref())?;
        wiring
            .interrupts
            .write(guest.machine.vm().memory(), PARAMETERS)
            .map_err(|error| guest.failed(error))?;
        let second =
            boot(&guest.machine, CASE.program(), 1, true).map_err(|error| guest.failed(error))?;
        Ok(Self { guest, second, cpu })
    }
}

impl GuestScenario for IpiScenario {
    fn guest(&self) -> &ScenarioGuest {
        &self.guest
    }

    fn measure(&mut self, ops: u64) -> Result<RunSample, SubjectError> {
        let parameters = Parameters {
            count: ops,
            ..Parameters::default()
        };
        let machine = Arc::clone(&self.guest.machine);
        parameters
            .write(machine.vm().memory(), PARAMETERS)
            .map_err(|error| self.guest.failed(error))?;
        let (cpu, limit, second) = (self.cpu, self.guest.limit.clone(), &mut self.second);
        let kick = second.kick_handle();
        let (run, other) = std::thread::scope(|scope| {
            let taking = scope.spawn(move || -> Result<Stop, ScenarioFailure> {
                affinity::prefer(cpu);
                let _deadline = Deadline::when(move || limit.is_run_over(), second.kick_handle())?;
                Ok(machine.runner(&mut **second).run()?)
            });
            let run = self.guest.run(&parameters);
            if run.is_err() {
                kick.kick();
            }
            (run, taking.join())
        });
        let run = run?;
        match other {
            Ok(Ok(Stop::Done(_))) => {}
            Ok(Ok(stop)) => return Err(self.guest.stopped(stop)),
            Ok(Err(error)) => return Err(self.guest.failed(error)),
            Err(_) => return Err(self.guest.failed("the second vcpu's thread ended early")),
        }
        let elapsed_ns = self.guest.clock.ns(run.ticks);
        Ok(RunSample {
            // The second vCPU also exits to say that it is done.
            heavy: run.heavy.saturating_sub(1),
            ..run.sample(ops, elapsed_ns)
        })
    }
}
