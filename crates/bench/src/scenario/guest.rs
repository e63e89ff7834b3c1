//! A guest that a scenario enters once per run.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use super::case::PathCase;
use crate::affinity::Pinned;
use crate::{
    CommandLimit, RunSample, Subject, SubjectError, SubjectOptions, SubjectSetting, TickClock,
};
use vmbell_guest::{CODE, HANDLER, PARAMETERS, Parameters, Program, Results};
use vmbell_hypervisor::measure::ExitCounts;
use vmbell_hypervisor::{Capability, Hypervisor, Irqchip, SpinPolicy, Support, Vcpu, VmConfig};
use vmbell_vmm::{Deadline, Machine, Stop};

pub(crate) type ScenarioFailure = Box<dyn Error + Send + Sync>;

/// A machine with one vCPU and a loaded program, and the CPUs of a scenario.
pub(crate) struct ScenarioGuest {
    pub(crate) machine: Arc<Machine>,
    vcpu: Box<dyn Vcpu>,
    name: String,
    pub(super) limit: CommandLimit,
    pub(super) clock: TickClock,
    setting: SubjectSetting,
    /// The CPUs of the thread that answers exits.
    vmm_cpus: Vec<usize>,
    /// The CPU of any thread that consumes rings without answering exits.
    pub(crate) other_cpu: usize,
    rings: u64,
}

/// Creates a vCPU that starts at the program's entry point.
pub(super) fn boot(
    machine: &Machine,
    program: Program,
    index: u32,
    interrupts: bool,
) -> Result<Box<dyn Vcpu>, ScenarioFailure> {
    let mut vcpu = machine.vm().create_vcpu(index)?;
    vcpu.set_entry_point(program.load(machine.vm().memory(), index)?)?;
    if interrupts {
        vcpu.set_interrupt_handler(CODE.0 + HANDLER)?;
    }
    Ok(vcpu)
}

/// The result of one run, as the guest and the backend measured it.
pub(crate) struct GuestRun {
    pub(super) ticks: u64,
    light: Option<u64>,
    pub(super) heavy: u64,
}

impl GuestRun {
    /// The run as a sample of `ops` operations that took `elapsed_ns` nanoseconds.
    pub(super) fn sample(self, ops: u64, elapsed_ns: f64) -> RunSample {
        RunSample {
            ops,
            elapsed_ns,
            light: self.light,
            heavy: self.heavy,
            ..RunSample::default()
        }
    }
}

/// What differs between scenarios with a guest: how operations are measured.
pub(crate) trait GuestScenario {
    fn guest(&self) -> &ScenarioGuest;

    /// [`Subject::run`].
    fn measure(&mut self, ops: u64) -> Result<RunSample, SubjectError>;
}

impl<S: GuestScenario> Subject for S {
    fn name(&self) -> &str {
        &self.guest().name
    }

    fn setting(&self) -> SubjectSetting {
        self.guest().setting.clone()
    }

    fn processes(&self) -> Vec<u32> {
        self.guest().machine.vm().measure().processes()
    }

    fn run(&mut self, ops: u64) -> Result<RunSample, SubjectError> {
        self.measure(ops)
    }
}

impl ScenarioGuest {
    pub(super) fn new(
        hypervisor: &dyn Hypervisor,
        name: &str,
        program: Program,
        case: PathCase,
        vcpu_cpus: Vec<usize>,
        options: &SubjectOptions,
    ) -> Result<Self, SubjectError> {
        let config = VmConfig {
            patch: case.variant.patch(),
            spin: case.variant.spin(options.spin),
            irqchip: case.path.irqchip(),
            vcpus: u32::try_from(vcpu_cpus.len()).unwrap_or(u32::MAX),
            vcpu_cpus,
            ..VmConfig::default()
        };
        Self::with_config(hypervisor, name, program, config, options)
    }

    /// Creates a guest with this configuration. Its interrupts, if it has any, go to the program's
    /// handler.
    pub(crate) fn with_config(
        hypervisor: &dyn Hypervisor,
        name: &str,
        program: Program,
        config: VmConfig,
        options: &SubjectOptions,
    ) -> Result<Self, SubjectError> {
        let first = options.first_cpu();
        let other_cpu = options.second_cpu().unwrap_or(first);
        let changes_threads = hypervisor.support(Capability::SpinPolicy).is_yes();
        let spin = config.spin;
        let failed = |error: ScenarioFailure| SubjectError::failed(name, error);
        let vm = hypervisor
            .create_vm(&config)
            .map_err(|error| failed(error.into()))?;
        let machine = Arc::new(Machine::new(vm));
        let interrupts = config.irqchip != Irqchip::None;
        let vcpu = boot(&machine, program, 0, interrupts).map_err(failed)?;
        let cpus = if other_cpu == first {
            vec![first]
        } else {
            vec![first, other_cpu]
        };
        let exits_note = match hypervisor.support(Capability::CountsLightExits) {
            Support::Yes => None,
            Support::No(reason) => Some(format!("light exits are not counted: {reason}")),
        };
        let setting = SubjectSetting {
            spin: changes_threads.then_some(spin),
            cpus,
            counter: None,
            exits_note,
        };
        Ok(Self {
            machine,
            vcpu,
            name: name.to_owned(),
            limit: options.limit.clone(),
            clock: options.clock,
            setting,
            vmm_cpus: match (changes_threads, spin) {
                (false, _) => vec![first],
                (true, SpinPolicy::OneCpu) => vec![first, other_cpu],
                (true, _) => vec![other_cpu],
            },
            other_cpu,
            rings: 0,
        })
    }

    /// Performs `parameters.count` operations, and fails unless the guest counted the same number.
    pub(crate) fn run(&mut self, parameters: &Parameters) -> Result<GuestRun, SubjectError> {
        let before = self.machine.vm().measure().exit_counts();
        let outcome = self.run_program(parameters);
        match outcome.map_err(|error| self.failed(error))? {
            Stop::Done(_) => {}
            stop => return Err(self.stopped(stop)),
        }
        let results = self.results()?;
        let performed = results.rings - self.rings;
        self.rings = results.rings;
        self.agree("the guest", performed, parameters.count)?;
        let ExitCounts { light, heavy } = self.machine.vm().measure().exit_counts();
        // The exit with which the guest says that it is done is not an operation.
        let heavy = (heavy - before.heavy).saturating_sub(1);
        self.await_sleep();
        Ok(GuestRun {
            ticks: results.ticks,
            light: light.zip(before.light).map(|(now, before)| now - before),
            heavy,
        })
    }

    /// Sets the name of what counts the guest's events, for the report.
    pub(crate) fn set_counter(&mut self, source: &str) {
        self.setting.counter = Some(source.to_owned());
    }

    fn run_program(&mut self, parameters: &Parameters) -> Result<Stop, ScenarioFailure> {
        let _pinned = Pinned::to(&self.vmm_cpus)?;
        parameters.write(self.machine.vm().memory(), PARAMETERS)?;
        let limit = self.limit.clone();
        let _deadline = Deadline::when(move || limit.is_run_over(), self.vcpu.kick_handle())?;
        Ok(self.machine.runner(&mut *self.vcpu).run()?)
    }

    /// Makes the error that this scenario failed because of `source`, an error or a sentence.
    pub(crate) fn failed(&self, source: impl Into<ScenarioFailure>) -> SubjectError {
        SubjectError::failed(&self.name, source)
    }

    /// Makes the error of a run that ended before the guest was done.
    pub(super) fn stopped(&self, stop: Stop) -> SubjectError {
        if self.limit.is_run_over() {
            let subject = self.name.clone();
            return SubjectError::TimedOut { subject };
        }
        self.failed(format!("the guest did not finish: {stop}"))
    }

    /// The results that the program wrote.
    pub(crate) fn results(&self) -> Result<Results, SubjectError> {
        Results::read(self.machine.vm().memory(), PARAMETERS).map_err(|error| self.failed(error))
    }

    /// Fails unless `counted`, the number of rings that `who` counted, is `rings`.
    pub(super) fn agree(&self, who: &str, counted: u64, rings: u64) -> Result<(), SubjectError> {
        if counted == rings {
            return Ok(());
        }
        Err(self.failed(format!("{rings} rings were counted as {counted} by {who}")))
    }

    /// Waits until a vCPU that spins for its next turn has gone to sleep, so that it does not disturb
    /// the subject that is measured next.
    fn await_sleep(&self) {
        let spins = |spin| matches!(spin, SpinPolicy::Spin | SpinPolicy::Adaptive);
        if self.setting.spin.is_some_and(spins) {
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}
