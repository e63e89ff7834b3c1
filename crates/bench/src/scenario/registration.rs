//! Registration scenarios: what it costs the VMM to assign an ioeventfd and to deassign it again, while a vCPU rings
//! another doorbell.
//!
//! A deassign is a barrier: it waits until no vCPU can be in the middle of a signal, on a busy host also for vCPUs that
//! are runnable but have no CPU. The vCPU runs on the first of the user's CPUs, the registering thread on the second.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::time::Instant;

use vmm_sys_util::eventfd::{EFD_NONBLOCK, EventFd};

use super::guest::{GuestScenario, ScenarioFailure, ScenarioGuest};
use super::path::{RingConsumer, RingInstruction, VALUE};
use super::scan::beside;
use crate::select::HAS_PORTS;
use crate::subject::nanoseconds;
use crate::{
    BenchEntry, CommandLimit, RunSample, Subject, SubjectError, SubjectOptions, TickClock, affinity,
};
use vmbell::doorbell::{Datamatch, Sharing};
use vmbell_guest::Parameters;
use vmbell_hypervisor::{Doorbell, Hypervisor, IoEvents, Support, VmConfig};
use vmbell_report::Group;

/// How often the guest rings between checks whether the registrations are over.
const RINGS: u64 = 64;

/// The maximum number of operations of a run: in the lab's KVM of Linux 6.18 each takes 8 million instructions, because
/// the vCPU rings while the deassign waits.
const MOST_OPS: u64 = 100;

/// What is timed in each registration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TimedRegistration {
    Assign,
    Deassign,
}

impl TimedRegistration {
    pub(super) const ALL: [Self; 2] = [Self::Assign, Self::Deassign];

    const fn name(self) -> &'static str {
        match self {
            Self::Assign => "ioeventfd-assign",
            Self::Deassign => "ioeventfd-deassign",
        }
    }

    const fn description(self) -> &'static str {
        match self {
            Self::Assign => "the VMM assigns an ioeventfd while a vCPU rings another",
            Self::Deassign => {
                "the VMM deassigns an ioeventfd while a vCPU rings another; none is signalled after it"
            }
        }
    }
}

/// The registration scenarios of this backend.
pub(super) fn entries(hypervisor: &Arc<dyn Hypervisor>) -> Vec<BenchEntry> {
    let entry = |timed: TimedRegistration| {
        let hypervisor = Arc::clone(hypervisor);
        let make = move |options: &SubjectOptions| -> Result<Box<dyn Subject>, SubjectError> {
            if let Support::No(reason) = hypervisor.support(PATH.needs(RingConsumer::Wildcard)) {
                return Err(SubjectError::Skipped(reason));
            }
            Ok(Box::new(Registration::new(&*hypervisor, timed, options)?))
        };
        BenchEntry::new(Group::Scenario, timed.name(), timed.description(), make)
            .with_most_ops(MOST_OPS)
    };
    TimedRegistration::ALL.into_iter().map(entry).collect()
}

/// How the guest rings.
pub(super) const PATH: RingInstruction = if HAS_PORTS {
    RingInstruction::Portio
} else {
    RingInstruction::Mmio
};

struct Registration {
    timed: TimedRegistration,
    guest: ScenarioGuest,
    /// The doorbell that the guest rings.
    doorbell: Doorbell,
}

impl Registration {
    fn new(
        hypervisor: &dyn Hypervisor,
        timed: TimedRegistration,
        options: &SubjectOptions,
    ) -> Result<Self, SubjectError> {
        let config = VmConfig {
            spin: options.spin,
            vcpu_cpus: vec![options.first_cpu()],
            ..VmConfig::default()
        };
        let program = PATH.rate_program();
        let guest = ScenarioGuest::with_config(hypervisor, timed.name(), program, config, options)?;
        let rung = EventFd::new(EFD_NONBLOCK).map_err(|error| guest.failed(error))?;
        let any = Datamatch::U32(None);
        let vm = guest.machine.vm();
        let doorbell = vm
            .register_ioevent(&Arc::new(rung), PATH.address(), any, Sharing::Exclusive)
            .map_err(|error| guest.failed(error))?;
        Ok(Self {
            timed,
            guest,
            doorbell,
        })
    }

    /// Lets the guest ring until `over` is set, and returns how often it rang.
    fn ring_until(&mut self, over: &AtomicBool) -> Result<u64, SubjectError> {
        let parameters = Parameters {
            count: RINGS,
            address: PATH.address().value(),
            value: VALUE.into(),
            pause: 0,
        };
        let mut rings = 0;
        while !over.load(Acquire) {
            self.guest.run(&parameters)?;
            rings += RINGS;
        }
        Ok(rings)
    }
}

/// Assigns and deassigns an eventfd `ops` times, or less often at the limit; returns the ticks of the timed part.
fn register(
    vm: &dyn IoEvents,
    timed: TimedRegistration,
    ops: u64,
    limit: &CommandLimit,
) -> Result<Vec<u64>, ScenarioFailure> {
    let event = Arc::new(EventFd::new(EFD_NONBLOCK)?);
    let (address, any) = (beside(PATH.address(), 1), Datamatch::U32(None));
    let mut all = Vec::new();
    for _ in 0..ops {
        if limit.is_run_over() {
            break;
        }
        let begun = TickClock::now();
        let mut doorbell = vm.register_ioevent(&event, address, any, Sharing::Exclusive)?;
        let assigned = TickClock::now();
        doorbell.remove()?;
        all.push(match timed {
            TimedRegistration::Assign => assigned.saturating_sub(begun),
            TimedRegistration::Deassign => TickClock::now().saturating_sub(assigned),
        });
    }
    Ok(all)
}

impl GuestScenario for Registration {
    fn guest(&self) -> &ScenarioGuest {
        &self.guest
    }

    fn measure(&mut self, ops: u64) -> Result<RunSample, SubjectError> {
        let machine = Arc::clone(&self.guest.machine);
        let (timed, cpu, limit) = (self.timed, self.guest.other_cpu, self.guest.limit.clone());
        let over = AtomicBool::new(false);
        let started = Instant::now();
        let (rings, ticks) = std::thread::scope(|scope| {
            let registering = scope.spawn(|| {
                affinity::prefer(cpu);
                let ticks = register(machine.vm().as_ref(), timed, ops, &limit);
                over.store(true, Release);
                ticks
            });
            (self.ring_until(&over), registering.join())
        });
        let elapsed_ns = nanoseconds(started.elapsed());
        let rings = rings?;
        let ticks = ticks
            .map_err(|_| self.guest.failed("the registering thread panicked"))?
            .map_err(|error| self.guest.failed(error))?;
        if rings > 0 {
            let counted = self
                .doorbell
                .event()
                .read()
                .map_err(|error| self.guest.failed(error))?;
            self.guest.agree("what was rung", counted, rings)?;
        }
        self.guest
            .agree("the registering thread", ticks.len() as u64, ops)?;
        Ok(RunSample {
            ops,
            elapsed_ns,
            latencies_ns: self.guest.clock.latencies(ticks),
            ..RunSample::default()
        })
    }
}
