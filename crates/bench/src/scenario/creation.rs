//! Creation scenarios: what it costs the VMM to make a guest, and to register a thousand doorbells or irqfds in a new one.
//!
//! Each operation has its own guest, which never runs. What a row does not name is not timed: the guest's end in all of them,
//! and its creation in those of registrations. The thread that measures does everything.

use std::sync::Arc;
use std::time::Instant;

use super::guest::Failure;
use super::path::Bell;
use super::registration::PATH;
use super::series::{Kind, Registry};
use crate::affinity::Pinned;
use crate::subject::nanoseconds;
use crate::{Clock, Entry, Options, Sample, Setting, Subject, SubjectError};
use vmbell_hypervisor::{Capability, Error, Hypervisor, Irqchip, Support, Vcpu, Vm, VmConfig};
use vmbell_report::Group;

/// How many doorbells or irqfds are registered in a guest.
const MANY: u32 = 1000;

/// The most operations of a run: each takes tens of millions of instructions, or starts a process.
const MOST_OPS: u64 = 5;

/// What is timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Made {
    /// A guest with one vCPU and interrupt controllers.
    Guest,
    /// Registrations in a guest.
    Many(Kind),
}

impl Made {
    const ALL: [Self; 3] = [
        Self::Guest,
        Self::Many(Kind::Ioeventfd),
        Self::Many(Kind::Irqfd),
    ];

    const fn name(self) -> &'static str {
        match self {
            Self::Guest => "vm-create",
            Self::Many(Kind::Ioeventfd) => "vm-1000-ioeventfds",
            Self::Many(Kind::Irqfd) => "vm-1000-irqfds",
        }
    }

    const fn description(self) -> &'static str {
        match self {
            Self::Guest => "the VMM makes a guest with a vCPU and interrupt controllers",
            Self::Many(Kind::Ioeventfd) => "the VMM assigns 1,000 ioeventfds in a new guest",
            Self::Many(Kind::Irqfd) => "the VMM assigns 1,000 irqfds in a new guest",
        }
    }

    const fn needs(self) -> Capability {
        match self {
            Self::Guest | Self::Many(Kind::Irqfd) => Capability::Interrupts,
            Self::Many(Kind::Ioeventfd) => PATH.needs(Bell::Wildcard),
        }
    }
}

/// The creation scenarios of this backend.
pub(super) fn entries(hypervisor: &Arc<dyn Hypervisor>) -> Vec<Entry> {
    let entry = |made: Made| {
        let hypervisor = Arc::clone(hypervisor);
        let make = move |options: &Options| -> Result<Box<dyn Subject>, SubjectError> {
            if let Support::No(reason) = hypervisor.support(made.needs()) {
                return Err(SubjectError::Skipped(reason));
            }
            Ok(Box::new(Creation {
                made,
                hypervisor: Arc::clone(&hypervisor),
                options: options.clone(),
            }))
        };
        Entry::new(Group::Scenario, made.name(), made.description(), make).with_most_ops(MOST_OPS)
    };
    Made::ALL.into_iter().map(entry).collect()
}

struct Creation {
    made: Made,
    hypervisor: Arc<dyn Hypervisor>,
    options: Options,
}

/// A guest that never runs.
struct Idle {
    vm: Arc<dyn Vm>,
    _vcpu: Box<dyn Vcpu>,
}

impl Creation {
    fn guest(&self) -> Result<Idle, Error> {
        let vm = self.hypervisor.create_vm(&VmConfig {
            irqchip: Irqchip::Full,
            spin: self.options.spin,
            vcpu_cpus: vec![self.options.first_cpu()],
            ..VmConfig::default()
        })?;
        let _vcpu = vm.create_vcpu(0)?;
        Ok(Idle { vm, _vcpu })
    }

    /// The CPU of the thread that measures.
    fn cpu(&self) -> usize {
        let first = self.options.first_cpu();
        self.options.second_cpu().unwrap_or(first)
    }

    /// The ticks of one operation; `None` at the end of the limit.
    fn make(&self) -> Result<Option<u64>, Failure> {
        let begun = Clock::now();
        let guest = self.guest()?;
        let Made::Many(kind) = self.made else {
            return Ok(Some(Clock::now().saturating_sub(begun)));
        };
        let registry = Registry::new(kind, MANY, guest.vm.as_ref(), self.made.name())?;
        let mut registered = Vec::with_capacity(MANY as usize);
        let begun = Clock::now();
        for number in 0..MANY {
            if self.options.limit.is_run_over() {
                return Ok(None);
            }
            registered.push(registry.register(guest.vm.as_ref(), number)?);
        }
        let ticks = Clock::now().saturating_sub(begun);
        // Of a guest that is gone nothing has to be removed one by one.
        drop(guest);
        Ok(Some(ticks))
    }

    /// The ticks of `ops` operations; fewer at the end of the limit.
    fn all(&self, ops: u64) -> Result<Vec<u64>, Failure> {
        let _pinned = Pinned::to(self.cpu())?;
        let mut all = Vec::new();
        while (all.len() as u64) < ops && !self.options.limit.is_run_over() {
            all.extend(self.make()?);
        }
        Ok(all)
    }
}

impl Subject for Creation {
    fn name(&self) -> &str {
        self.made.name()
    }

    fn setting(&self) -> Setting {
        Setting {
            cpus: vec![self.cpu()],
            ..Setting::default()
        }
    }

    fn run(&mut self, ops: u64) -> Result<Sample, SubjectError> {
        let started = Instant::now();
        let ticks = self.all(ops);
        let ticks = ticks.map_err(|error| SubjectError::failed(self.name(), error))?;
        if (ticks.len() as u64) < ops {
            let subject = self.name().to_owned();
            return Err(SubjectError::TimedOut { subject });
        }
        Ok(Sample {
            ops,
            elapsed_ns: nanoseconds(started.elapsed()),
            latencies_ns: self.options.clock.latencies(ticks),
            ..Sample::default()
        })
    }
}
