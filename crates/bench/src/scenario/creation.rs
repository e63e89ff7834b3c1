//! Creation scenarios: what it costs the VMM to make a guest or a further vCPU, and to register a thousand doorbells or
//! irqfds in a new guest. Each row also has the memory that this takes, in the processes and in the kernel.
//!
//! Each operation has its own guest, whose first vCPU does not run. Only what the row names is measured: the guest's
//! creation only in the first row, its destruction never. The kernel's memory is read before and after one more
//! operation, which is not timed. The measuring thread does everything.

use std::sync::Arc;
use std::time::Instant;

use super::guest::ScenarioFailure;
use super::path::{RingConsumer, VALUE};
use super::registration::PATH;
use super::series::{RegisteredEventfds, RegistrationKind};
use crate::affinity::Pinned;
use crate::kernel_memory::CountedGroup;
use crate::memory::in_use;
use crate::subject::nanoseconds;
use crate::{
    BenchEntry, RunSample, Subject, SubjectError, SubjectOptions, SubjectSetting, TickClock,
};
use vmbell_guest::{PARAMETERS, Parameters};
use vmbell_hypervisor::{
    Capability, Error, Hypervisor, Irqchip, Support, Vcpu, Vm, VmConfig, VmEntry, VmExit,
};
use vmbell_report::Group;
use vmbell_vmm::Deadline;

/// How many doorbells or irqfds are registered in a guest.
const MANY: u32 = 1000;

/// The maximum number of operations of a run: each takes tens of millions of instructions, or starts a process.
const MOST_OPS: u64 = 5;

/// What is timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Made {
    /// A guest with one vCPU and interrupt controllers.
    Guest,
    /// A second vCPU of a guest.
    Vcpu,
    /// Registrations in a guest.
    Many(RegistrationKind),
}

impl Made {
    const ALL: [Self; 4] = [
        Self::Guest,
        Self::Vcpu,
        Self::Many(RegistrationKind::Ioeventfd),
        Self::Many(RegistrationKind::Irqfd),
    ];

    const fn name(self) -> &'static str {
        match self {
            Self::Guest => "vm-create",
            Self::Vcpu => "vm-vcpu",
            Self::Many(RegistrationKind::Ioeventfd) => "vm-1000-ioeventfds",
            Self::Many(RegistrationKind::Irqfd) => "vm-1000-irqfds",
        }
    }

    const fn description(self) -> &'static str {
        match self {
            Self::Guest => "the VMM makes a guest with a vCPU and interrupt controllers",
            Self::Vcpu => {
                "the VMM makes a second vCPU of a guest and enters it, until its first exit"
            }
            Self::Many(RegistrationKind::Ioeventfd) => {
                "the VMM assigns 1,000 ioeventfds in a new guest"
            }
            Self::Many(RegistrationKind::Irqfd) => "the VMM assigns 1,000 irqfds in a new guest",
        }
    }

    const fn needs(self) -> Capability {
        match self {
            Self::Guest | Self::Vcpu | Self::Many(RegistrationKind::Irqfd) => {
                Capability::Interrupts
            }
            Self::Many(RegistrationKind::Ioeventfd) => PATH.needs(RingConsumer::Wildcard),
        }
    }
}

/// The creation scenarios of this backend.
pub(super) fn entries(hypervisor: &Arc<dyn Hypervisor>) -> Vec<BenchEntry> {
    let entry = |made: Made| {
        let hypervisor = Arc::clone(hypervisor);
        let make = move |options: &SubjectOptions| -> Result<Box<dyn Subject>, SubjectError> {
            if let Support::No(reason) = hypervisor.support(made.needs()) {
                return Err(SubjectError::Skipped(reason));
            }
            Ok(Box::new(Creation {
                made,
                hypervisor: Arc::clone(&hypervisor),
                options: options.clone(),
            }))
        };
        BenchEntry::new(Group::Scenario, made.name(), made.description(), make)
            .with_most_ops(MOST_OPS)
    };
    Made::ALL.into_iter().map(entry).collect()
}

struct Creation {
    made: Made,
    hypervisor: Arc<dyn Hypervisor>,
    options: SubjectOptions,
}

/// A guest whose first vCPU never runs.
struct IdleGuest {
    vm: Arc<dyn Vm>,
    _vcpu: Box<dyn Vcpu>,
}

/// What an operation cost.
struct CreationCost {
    ticks: u64,
    /// By how many bytes memory grew; `None` if it could not be read.
    memory: Option<u64>,
}

impl CreationCost {
    fn new(ticks: u64, before: Option<u64>, after: Option<u64>) -> Self {
        let memory = after.zip(before);
        Self {
            ticks,
            memory: memory.map(|(after, before)| after.saturating_sub(before)),
        }
    }
}

/// Reads memory before and after an operation, in bytes.
type MemoryReading<'r> = &'r dyn Fn(Option<&IdleGuest>) -> Result<Option<u64>, ScenarioFailure>;

/// Reads the memory of this process and of the guest's processes.
fn of_processes(guest: Option<&IdleGuest>) -> Result<Option<u64>, ScenarioFailure> {
    let processes = guest.map(|guest| guest.vm.measure().processes());
    Ok(in_use(&processes.unwrap_or_default())?)
}

impl Creation {
    fn guest(&self) -> Result<IdleGuest, Error> {
        let vm = self.hypervisor.create_vm(&VmConfig {
            irqchip: Irqchip::Full,
            spin: self.options.spin,
            vcpus: if self.made == Made::Vcpu { 2 } else { 1 },
            vcpu_cpus: vec![self.options.first_cpu()],
            ..VmConfig::default()
        })?;
        let _vcpu = vm.create_vcpu(0)?;
        Ok(IdleGuest { vm, _vcpu })
    }

    /// The CPU of the measuring thread.
    fn cpu(&self) -> usize {
        let first = self.options.first_cpu();
        self.options.second_cpu().unwrap_or(first)
    }

    /// Performs one operation; `None` if the limit ended it.
    fn make(&self, memory: MemoryReading<'_>) -> Result<Option<CreationCost>, ScenarioFailure> {
        match self.made {
            Made::Guest => {
                let before = memory(None)?;
                let begun = TickClock::now();
                let guest = self.guest()?;
                let ticks = since(begun);
                Ok(Some(CreationCost::new(
                    ticks,
                    before,
                    memory(Some(&guest))?,
                )))
            }
            Made::Vcpu => self.second_vcpu(memory),
            Made::Many(kind) => self.registrations(kind, memory),
        }
    }

    /// Makes a second vCPU and runs it until its first write exits: then it has all that it needs.
    fn second_vcpu(
        &self,
        memory: MemoryReading<'_>,
    ) -> Result<Option<CreationCost>, ScenarioFailure> {
        let guest = self.guest()?;
        let ram = guest.vm.memory();
        let entry = PATH.rate_program().load(ram, 1)?;
        let parameters = Parameters {
            count: 1,
            address: PATH.address().value(),
            value: VALUE.into(),
            pause: 0,
        };
        parameters.write(ram, PARAMETERS)?;

        let before = memory(Some(&guest))?;
        let begun = TickClock::now();
        let mut second = guest.vm.create_vcpu(1)?;
        second.set_entry_point(entry)?;
        let created = since(begun);
        // The deadline's thread is not measured: it starts outside the timed part, and ends before memory is read.
        let limit = self.options.limit.clone();
        let deadline = Deadline::when(move || limit.is_run_over(), second.kick_handle())?;
        let begun = TickClock::now();
        let exit = second.run(VmEntry::Resume)?;
        let ticks = created + since(begun);
        drop(deadline);
        match exit {
            VmExit::PioOut { .. } | VmExit::MmioWrite { .. } => Ok(Some(CreationCost::new(
                ticks,
                before,
                memory(Some(&guest))?,
            ))),
            VmExit::Kicked => Ok(None),
            other => Err(format!("the second vCPU did not write: {other:?}").into()),
        }
    }

    fn registrations(
        &self,
        kind: RegistrationKind,
        memory: MemoryReading<'_>,
    ) -> Result<Option<CreationCost>, ScenarioFailure> {
        let guest = self.guest()?;
        let registry = RegisteredEventfds::new(kind, MANY, guest.vm.as_ref(), self.made.name())?;
        let mut registered = Vec::with_capacity(MANY as usize);
        let before = memory(Some(&guest))?;
        let begun = TickClock::now();
        for number in 0..MANY {
            if self.options.limit.is_run_over() {
                return Ok(None);
            }
            registered.push(registry.register(guest.vm.as_ref(), number)?);
        }
        let ticks = since(begun);
        let cost = CreationCost::new(ticks, before, memory(Some(&guest))?);
        // Once the guest is gone, the registrations need not be removed one by one.
        drop(guest);
        Ok(Some(cost))
    }

    /// Performs `ops` operations, or fewer if the limit is reached.
    fn all(&self, ops: u64) -> Result<Vec<CreationCost>, ScenarioFailure> {
        let _pinned = Pinned::to(&[self.cpu()])?;
        let mut all = Vec::new();
        while (all.len() as u64) < ops && !self.options.limit.is_run_over() {
            all.extend(self.make(&of_processes)?);
        }
        Ok(all)
    }

    /// How many bytes one operation adds to the kernel memory of this process's cgroup; `None` if that is not known.
    fn kernel_memory(&self) -> Result<Option<u64>, ScenarioFailure> {
        let Some(group) = CountedGroup::own() else {
            return Ok(None);
        };
        let cost = self.make(&|_| Ok(group.settled()))?;
        Ok(cost.and_then(|cost| cost.memory))
    }
}

impl Subject for Creation {
    fn name(&self) -> &str {
        self.made.name()
    }

    fn setting(&self) -> SubjectSetting {
        SubjectSetting {
            cpus: vec![self.cpu()],
            ..SubjectSetting::default()
        }
    }

    fn run(&mut self, ops: u64) -> Result<RunSample, SubjectError> {
        let started = Instant::now();
        let costs = self.all(ops);
        let failed = |error| SubjectError::failed(self.name(), error);
        let costs = costs.map_err(failed)?;
        let elapsed = started.elapsed();
        if (costs.len() as u64) < ops {
            let subject = self.name().to_owned();
            return Err(SubjectError::TimedOut { subject });
        }
        Ok(RunSample {
            ops,
            elapsed_ns: nanoseconds(elapsed),
            kernel_memory: self.kernel_memory().map_err(failed)?,
            memory: mean(costs.iter().map(|cost| cost.memory)),
            latencies_ns: self
                .options
                .clock
                .latencies(costs.iter().map(|cost| cost.ticks).collect()),
            ..RunSample::default()
        })
    }
}

/// The ticks since `begun`.
fn since(begun: u64) -> u64 {
    TickClock::now().saturating_sub(begun)
}

/// The mean; `None` if one of the values is not known.
fn mean(costs: impl ExactSizeIterator<Item = Option<u64>>) -> Option<u64> {
    let count = costs.len() as u64;
    costs.sum::<Option<u64>>()?.checked_div(count)
}
