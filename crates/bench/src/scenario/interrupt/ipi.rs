//! One vCPU interrupts another.

use std::sync::Arc;

use super::super::guest::{Failure, Guest, boot};
use super::case::Case;
use crate::affinity;
use crate::{Clock, Options, Sample, Setting, Subject, SubjectError};
use vmbell::guest::Parameters;
use vmbell::hypervisor::{Hypervisor, Kick, Vcpu, Vm};
use vmbell::machine::{Deadline, Stop};

/// The scenario.
pub(super) struct Ipi<H: Hypervisor> {
    guest: Guest<H>,
    second: <H::Vm as Vm>::Vcpu,
    cpu: usize,
    clock: Clock,
}

const CASE: Case = Case::Ipi;

impl<H: Hypervisor> Ipi<H> {
    pub(super) fn new(hypervisor: &H, options: &Options) -> Result<Self, SubjectError> {
        let (first, cpu) = options.two_cpus()?;
        let config = CASE.config(vec![first, cpu]);
        let name = CASE.name();
        let guest = Guest::with_config(hypervisor, name, CASE.program(), config, options)?;
        guest
            .machine
            .set_interrupts(&CASE.interrupts())
            .map_err(|error| SubjectError::failed(name, error))?;
        let second = boot(&guest.machine, CASE.program(), 1, true)
            .map_err(|error| SubjectError::failed(name, error))?;
        Ok(Self {
            guest,
            second,
            cpu,
            clock: options.clock,
        })
    }
}

impl<H: Hypervisor> Subject for Ipi<H> {
    fn name(&self) -> &str {
        CASE.name()
    }

    fn setting(&self) -> Setting {
        self.guest.setting.clone()
    }

    fn processes(&self) -> Vec<u32> {
        self.guest.machine.vm().processes()
    }

    fn run(&mut self, ops: u64) -> Result<Sample, SubjectError> {
        let failed = |error: Failure| SubjectError::failed(CASE.name(), error);
        let parameters = Parameters {
            count: ops,
            ..Parameters::default()
        };
        let machine = Arc::clone(&self.guest.machine);
        machine
            .set_parameters(&parameters)
            .map_err(|error| failed(error.into()))?;
        let (cpu, limit, second) = (self.cpu, self.guest.limit.clone(), &mut self.second);
        let kick = second.kick_handle();
        let (run, other) = std::thread::scope(|scope| {
            let taking = scope.spawn(move || -> Result<Stop, Failure> {
                affinity::prefer(cpu);
                let _deadline = Deadline::once(move || limit.is_run_over(), second.kick_handle())?;
                Ok(machine.runner(second).run()?)
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
            Ok(Err(error)) => return Err(failed(error)),
            Err(_) => return Err(failed("the second vcpu's thread ended early".into())),
        }
        Ok(Sample {
            ops,
            elapsed_ns: self.clock.ns(run.ticks),
            light: run.light,
            // The second vCPU says that it is done, too.
            heavy: run.heavy.saturating_sub(1),
            latencies_ns: Vec::new(),
        })
    }
}
