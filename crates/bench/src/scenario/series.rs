//! Series of registrations and removals in a guest that does not run: what the first call after an idle period costs,
//! and what the later calls cost.
//!
//! A series makes all registrations, then removes them in the same order. Since Linux 6.18 (7d9a0273c459) the first
//! removal waits for a grace period that the first registration started and that no call speeds up.

use std::io;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use vmm_sys_util::eventfd::{EFD_NONBLOCK, EventFd};

use super::guest::{GuestScenario, ScenarioFailure, ScenarioGuest};
use super::path::RingConsumer;
use super::registration::{PATH, TimedRegistration};
use super::scan::{ScanValues, at_value, beside, values};
use super::wiring::{InterruptSource, Wiring};
use crate::affinity::Pinned;
use crate::subject::nanoseconds;
use crate::{BenchEntry, RunSample, Subject, SubjectError, SubjectOptions, TickClock};
use vmbell::doorbell::{Datamatch, Sharing};
use vmbell::irq::Gsi;
use vmbell_guest::programs;
use vmbell_hypervisor::{
    Capability, Doorbell, Error, Hypervisor, Irqchip, Irqfd, Support, Vm, VmConfig,
};
use vmbell_report::Group;

/// The idle period before a series: longer than the grace period that the previous series may have started.
const IDLE: Duration = Duration::from_millis(30);
/// The number of registrations in a series, and of removals.
const CALLS: u32 = 9;
/// More descriptors than all rows together open, for all scanned values.
const DESCRIPTORS: u64 = 1 << 16;
/// The maximum number of series of a run. With the idle period before it, each takes far longer than its calls.
const MOST_SERIES: u64 = 16;

/// What is registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RegistrationKind {
    Ioeventfd,
    Irqfd,
}

/// Which calls of a series count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CountedCalls {
    First,
    Later,
}

/// One row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct RegistrationCase {
    kind: RegistrationKind,
    timed: TimedRegistration,
    place: CountedCalls,
}

impl RegistrationCase {
    fn all() -> impl Iterator<Item = Self> {
        let timed = |kind| {
            TimedRegistration::ALL
                .into_iter()
                .map(move |timed| (kind, timed))
        };
        let cases = [RegistrationKind::Ioeventfd, RegistrationKind::Irqfd]
            .into_iter()
            .flat_map(timed);
        cases.flat_map(|(kind, timed)| {
            [CountedCalls::First, CountedCalls::Later].map(|place| Self { kind, timed, place })
        })
    }

    const fn name(self) -> &'static str {
        match (self.kind, self.timed, self.place) {
            (RegistrationKind::Ioeventfd, TimedRegistration::Assign, CountedCalls::First) => {
                "ioeventfd-assign-first"
            }
            (RegistrationKind::Ioeventfd, TimedRegistration::Assign, CountedCalls::Later) => {
                "ioeventfd-assign-later"
            }
            (RegistrationKind::Ioeventfd, TimedRegistration::Deassign, CountedCalls::First) => {
                "ioeventfd-deassign-first"
            }
            (RegistrationKind::Ioeventfd, TimedRegistration::Deassign, CountedCalls::Later) => {
                "ioeventfd-deassign-later"
            }
            (RegistrationKind::Irqfd, TimedRegistration::Assign, CountedCalls::First) => {
                "irqfd-assign-first"
            }
            (RegistrationKind::Irqfd, TimedRegistration::Assign, CountedCalls::Later) => {
                "irqfd-assign-later"
            }
            (RegistrationKind::Irqfd, TimedRegistration::Deassign, CountedCalls::First) => {
                "irqfd-deassign-first"
            }
            (RegistrationKind::Irqfd, TimedRegistration::Deassign, CountedCalls::Later) => {
                "irqfd-deassign-later"
            }
        }
    }

    fn description(self) -> String {
        let kind = match self.kind {
            RegistrationKind::Ioeventfd => "an ioeventfd",
            RegistrationKind::Irqfd => "an irqfd",
        };
        match (self.timed, self.place) {
            (TimedRegistration::Assign, CountedCalls::First) => {
                format!("the VMM assigns {kind} after an idle time")
            }
            (TimedRegistration::Assign, CountedCalls::Later) => {
                format!("the VMM assigns {kind} directly after another")
            }
            (TimedRegistration::Deassign, CountedCalls::First) => {
                format!("the VMM deassigns {kind} directly after it has assigned some")
            }
            (TimedRegistration::Deassign, CountedCalls::Later) => {
                format!("the VMM deassigns {kind} directly after another")
            }
        }
    }

    const fn most_ops(self) -> u64 {
        match self.place {
            CountedCalls::First => MOST_SERIES,
            CountedCalls::Later => MOST_SERIES * (CALLS as u64 - 1),
        }
    }

    /// The later calls of the same kind, which the first call is compared with.
    fn reference(self) -> Option<Self> {
        let place = CountedCalls::Later;
        (self.place == CountedCalls::First).then_some(Self { place, ..self })
    }

    const fn needs(self) -> Capability {
        match self.kind {
            RegistrationKind::Ioeventfd => PATH.needs(RingConsumer::Wildcard),
            RegistrationKind::Irqfd => Capability::Interrupts,
        }
    }

    /// The parameter for the number of other registrations.
    const fn parameter(self) -> &'static str {
        match self.kind {
            RegistrationKind::Ioeventfd => "doorbells",
            RegistrationKind::Irqfd => "irqfds",
        }
    }
}

/// The entries of this backend: one for each case, or one for each case and number of other registrations in `scan`.
pub(super) fn entries(hypervisor: &Arc<dyn Hypervisor>, scan: &ScanValues) -> Vec<BenchEntry> {
    let entry = |case: RegistrationCase, others: Option<u32>| {
        let hypervisor = Arc::clone(hypervisor);
        let make = move |options: &SubjectOptions| -> Result<Box<dyn Subject>, SubjectError> {
            if let Support::No(reason) = hypervisor.support(case.needs()) {
                return Err(SubjectError::Skipped(reason));
            }
            let others = others.unwrap_or_default();
            Ok(Box::new(RegistrationSeries::new(
                &*hypervisor,
                case,
                others,
                options,
            )?))
        };
        let entry = BenchEntry::new(Group::Scenario, case.name(), case.description(), make)
            .with_most_ops(case.most_ops());
        let scanned = (case.parameter(), others);
        let reference = case.reference().map(RegistrationCase::name);
        at_value(entry, scanned, scan.doorbells.first().copied(), reference)
    };
    let of = |case| {
        let values = values(&scan.doorbells).into_iter();
        values.map(move |others| (case, others))
    };
    let entries = RegistrationCase::all().flat_map(of);
    entries.map(|(case, others)| entry(case, others)).collect()
}

/// A guest in which no vCPU runs.
struct RegistrationSeries {
    case: RegistrationCase,
    guest: ScenarioGuest,
    registry: RegisteredEventfds,
    /// The other registrations, which exist all the time.
    _others: Vec<Registered>,
}

/// What is registered, by number: first the registrations of a series, then the others.
pub(super) enum RegisteredEventfds {
    /// Doorbells, each at its own address.
    Ioeventfds(Arc<EventFd>),
    /// Eventfds, all for the same GSI.
    Irqfds(Vec<Arc<EventFd>>, Gsi),
}

/// A registration of either kind.
pub(super) enum Registered {
    Ioeventfd(Doorbell),
    Irqfd(Irqfd),
}

impl RegisteredEventfds {
    pub(super) fn new(
        kind: RegistrationKind,
        number: u32,
        vm: &dyn Vm,
        subject: &str,
    ) -> Result<Self, ScenarioFailure> {
        let event = || EventFd::new(EFD_NONBLOCK).map(Arc::new);
        if kind == RegistrationKind::Ioeventfd {
            return Ok(Self::Ioeventfds(event()?));
        }
        let wiring = Wiring::new(vm, InterruptSource::Edge, subject)?;
        wiring.connect(vm)?;
        allow_descriptors()?;
        let events: io::Result<_> = (0..number).map(|_| event()).collect();
        Ok(Self::Irqfds(events?, wiring.gsi(subject)?))
    }

    pub(super) fn register(&self, vm: &dyn Vm, number: u32) -> Result<Registered, Error> {
        match self {
            Self::Ioeventfds(event) => {
                let address = beside(PATH.address(), number + 1);
                let any = Datamatch::U32(None);
                vm.register_ioevent(event, address, any, Sharing::Exclusive)
                    .map(Registered::Ioeventfd)
            }
            Self::Irqfds(events, gsi) => vm
                .register_irqfd(&events[number as usize], *gsi, None)
                .map(Registered::Irqfd),
        }
    }
}

impl Registered {
    fn remove(&mut self) -> Result<(), Error> {
        match self {
            Self::Ioeventfd(doorbell) => doorbell.remove(),
            Self::Irqfd(irqfd) => irqfd.remove(),
        }
    }
}

/// Lets this process open as many descriptors as all rows may need at once, or as many as it is allowed: a thousand
/// eventfds exceed the usual soft limit, and four rows of them exceed the kernel's initial hard limit.
fn allow_descriptors() -> io::Result<()> {
    let limit = getrlimit(Resource::Nofile);
    let enough = limit.maximum.map(|hard| hard.max(DESCRIPTORS));
    let (current, maximum) = (enough, enough);
    // Only a privileged process may raise its hard limit.
    setrlimit(Resource::Nofile, Rlimit { current, maximum }).or_else(|_| {
        let current = limit.maximum;
        setrlimit(Resource::Nofile, Rlimit { current, ..limit })
    })?;
    Ok(())
}

impl RegistrationSeries {
    fn new(
        hypervisor: &dyn Hypervisor,
        case: RegistrationCase,
        others: u32,
        options: &SubjectOptions,
    ) -> Result<Self, SubjectError> {
        let (program, irqchip) = match case.kind {
            RegistrationKind::Ioeventfd => (PATH.rate_program(), Irqchip::None),
            RegistrationKind::Irqfd => (programs::interrupt_running(), Irqchip::Full),
        };
        let config = VmConfig {
            spin: options.spin,
            irqchip,
            vcpu_cpus: vec![options.first_cpu()],
            ..VmConfig::default()
        };
        let name = case.name();
        let guest = ScenarioGuest::with_config(hypervisor, name, program, config, options)?;
        let vm = guest.machine.vm().as_ref();
        let all = CALLS + others;
        let registry = RegisteredEventfds::new(case.kind, all, vm, name)
            .map_err(|error| guest.failed(error))?;
        let others: Result<_, Error> = (CALLS..all)
            .map(|number| registry.register(vm, number))
            .collect();
        let others = others.map_err(|error| guest.failed(error))?;
        Ok(Self {
            case,
            registry,
            _others: others,
            guest,
        })
    }

    /// Performs a series after an idle time, and returns the ticks of each call of the row's kind.
    fn series(&self) -> Result<Vec<u64>, ScenarioFailure> {
        let vm = self.guest.machine.vm().as_ref();
        let (mut registered, mut assigns, mut deassigns) = (Vec::new(), Vec::new(), Vec::new());
        thread::sleep(IDLE);
        for number in 0..CALLS {
            let begun = TickClock::now();
            registered.push(self.registry.register(vm, number)?);
            assigns.push(TickClock::now().saturating_sub(begun));
        }
        for one in &mut registered {
            let begun = TickClock::now();
            one.remove()?;
            deassigns.push(TickClock::now().saturating_sub(begun));
        }
        Ok(match self.case.timed {
            TimedRegistration::Assign => assigns,
            TimedRegistration::Deassign => deassigns,
        })
    }

    /// The ticks of `ops` calls of the row, or of fewer if the limit is reached.
    fn calls(&self, ops: u64) -> Result<Vec<u64>, ScenarioFailure> {
        let _pinned = Pinned::to(&[self.guest.other_cpu])?;
        let mut all = Vec::new();
        while (all.len() as u64) < ops && !self.guest.limit.is_run_over() {
            let series = self.series()?;
            let (first, later) = series.split_at(1);
            let missing = usize::try_from(ops).unwrap_or(usize::MAX) - all.len();
            let counted = match self.case.place {
                CountedCalls::First => first,
                CountedCalls::Later => later,
            };
            all.extend(counted.iter().take(missing));
        }
        Ok(all)
    }
}

impl GuestScenario for RegistrationSeries {
    fn guest(&self) -> &ScenarioGuest {
        &self.guest
    }

    fn measure(&mut self, ops: u64) -> Result<RunSample, SubjectError> {
        let started = Instant::now();
        let ticks = self.calls(ops).map_err(|error| self.guest.failed(error))?;
        let elapsed_ns = nanoseconds(started.elapsed());
        self.guest.agree("the series", ticks.len() as u64, ops)?;
        Ok(RunSample {
            ops,
            elapsed_ns,
            latencies_ns: self.guest.clock.latencies(ticks),
            ..RunSample::default()
        })
    }
}
