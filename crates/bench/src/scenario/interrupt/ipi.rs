//! The scenario in which one vCPU interrupts another.

use std::sync::Arc;

use super::super::guest::{Failure, Guest, Scenario, boot};
use super::case::Case;
use crate::affinity;
use crate::{Options, Sample, SubjectError};
use vmbell_guest::{PARAMETERS, Parameters};
use vmbell_hypervisor::{Hypervisor, Vcpu};
use vmbell_vmm::{Deadline, Stop};

/// The scenario with its two vCPUs.
pub(super) struct Ipi {
    guest: Guest,
    second: Box<dyn Vcpu>,
    cpu: usize,
}

const CASE: Case = Case::Ipi;

impl Ipi {
    pub(super) fn new(
        hypervisor: &dyn Hypervisor,
        options: &Options,
    ) -> Result<Self, SubjectError> {
        let (first, cpu) = options.two_cpus()?;
        let config = CASE.config(vec![first, cpu]);
        let name = CASE.name();
        let guest = Guest::with_config(hypervisor, name, CASE.program(), config, options)?;
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

impl Scenario for Ipi {
    fn guest(&self) -> &Guest {
        &self.guest
    }

    fn measure(&mut self, ops: u64) -> Result<Sample, SubjectError> {
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
            let taking = scope.spawn(move || -> Result<Stop, Failure> {
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
        Ok(Sample {
            // The second vCPU also exits to say that it is done.
            heavy: run.heavy.saturating_sub(1),
            ..run.sample(ops, elapsed_ns)
        })
    }
}
