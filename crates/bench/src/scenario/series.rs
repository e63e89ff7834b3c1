//! Series of registrations and removals in a guest that does not run: what the first call after an idle time costs, and what
//! the later ones do.
//!
//! A series registers in turn, and then removes in the same order. The first removal directly follows registrations: since
//! Linux 6.18 (7d9a0273c459) it waits for a grace period that the first registration has begun and that no call speeds up.

use std::io;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use vmm_sys_util::eventfd::{EFD_NONBLOCK, EventFd};

use super::guest::{Failure, Guest, Scenario};
use super::path::Bell;
use super::registration::{PATH, Timed};
use super::scan::{Scan, at_value, beside, values};
use super::wiring::{Source, Wiring};
use crate::affinity::Pinned;
use crate::subject::nanoseconds;
use crate::{Clock, Entry, Options, Sample, Subject, SubjectError};
use vmbell::doorbell::{Datamatch, Sharing};
use vmbell::irq::Gsi;
use vmbell_guest::programs;
use vmbell_hypervisor::{
    Capability, Doorbell, Error, Hypervisor, Irqchip, Irqfd, Support, Vm, VmConfig,
};
use vmbell_report::Group;

/// How long no call is made before a series: longer than the grace period that the series before may have begun.
const IDLE: Duration = Duration::from_millis(30);
/// The registrations of a series, and the removals.
const CALLS: u32 = 9;
/// More descriptors than all rows with all numbers of others open.
const DESCRIPTORS: u64 = 1 << 16;
/// The most series of a run. With the idle time before it, each takes far longer than its calls.
const MOST_SERIES: u64 = 16;

/// What is registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Ioeventfd,
    Irqfd,
}

/// Which calls of a series count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    First,
    Later,
}

/// One row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Case {
    kind: Kind,
    timed: Timed,
    place: Place,
}

impl Case {
    fn all() -> impl Iterator<Item = Self> {
        let timed = |kind| Timed::ALL.into_iter().map(move |timed| (kind, timed));
        let cases = [Kind::Ioeventfd, Kind::Irqfd].into_iter().flat_map(timed);
        cases.flat_map(|(kind, timed)| {
            [Place::First, Place::Later].map(|place| Self { kind, timed, place })
        })
    }

    const fn name(self) -> &'static str {
        match (self.kind, self.timed, self.place) {
            (Kind::Ioeventfd, Timed::Assign, Place::First) => "ioeventfd-assign-first",
            (Kind::Ioeventfd, Timed::Assign, Place::Later) => "ioeventfd-assign-later",
            (Kind::Ioeventfd, Timed::Deassign, Place::First) => "ioeventfd-deassign-first",
            (Kind::Ioeventfd, Timed::Deassign, Place::Later) => "ioeventfd-deassign-later",
            (Kind::Irqfd, Timed::Assign, Place::First) => "irqfd-assign-first",
            (Kind::Irqfd, Timed::Assign, Place::Later) => "irqfd-assign-later",
            (Kind::Irqfd, Timed::Deassign, Place::First) => "irqfd-deassign-first",
            (Kind::Irqfd, Timed::Deassign, Place::Later) => "irqfd-deassign-later",
        }
    }

    fn description(self) -> String {
        let kind = match self.kind {
            Kind::Ioeventfd => "an ioeventfd",
            Kind::Irqfd => "an irqfd",
        };
        match (self.timed, self.place) {
            (Timed::Assign, Place::First) => format!("the VMM assigns {kind} after an idle time"),
            (Timed::Assign, Place::Later) => {
                format!("the VMM assigns {kind} directly after another")
            }
            (Timed::Deassign, Place::First) => {
                format!("the VMM deassigns {kind} directly after it has assigned some")
            }
            (Timed::Deassign, Place::Later) => {
                format!("the VMM deassigns {kind} directly after another")
            }
        }
    }

    const fn most_ops(self) -> u64 {
        match self.place {
            Place::First => MOST_SERIES,
            Place::Later => MOST_SERIES * (CALLS as u64 - 1),
        }
    }

    /// The later calls of the same kind, which the first one is compared with.
    fn reference(self) -> Option<Self> {
        let place = Place::Later;
        (self.place == Place::First).then_some(Self { place, ..self })
    }

    const fn needs(self) -> Capability {
        match self.kind {
            Kind::Ioeventfd => PATH.needs(Bell::Wildcard),
            Kind::Irqfd => Capability::Interrupts,
        }
    }

    /// The parameter that says how many others are registered.
    const fn parameter(self) -> &'static str {
        match self.kind {
            Kind::Ioeventfd => "doorbells",
            Kind::Irqfd => "irqfds",
        }
    }
}

/// The entries of this backend: each case once, or once for each number of others of `scan`.
pub(super) fn entries(hypervisor: &Arc<dyn Hypervisor>, scan: &Scan) -> Vec<Entry> {
    let entry = |case: Case, others: Option<u32>| {
        let hypervisor = Arc::clone(hypervisor);
        let make = move |options: &Options| -> Result<Box<dyn Subject>, SubjectError> {
            if let Support::No(reason) = hypervisor.support(case.needs()) {
                return Err(SubjectError::Skipped(reason));
            }
            let others = others.unwrap_or_default();
            Ok(Box::new(Series::new(&*hypervisor, case, others, options)?))
        };
        let entry = Entry::new(Group::Scenario, case.name(), case.description(), make)
            .with_most_ops(case.most_ops());
        let scanned = (case.parameter(), others);
        let reference = case.reference().map(Case::name);
        at_value(entry, scanned, scan.doorbells.first().copied(), reference)
    };
    let of = |case| {
        let values = values(&scan.doorbells).into_iter();
        values.map(move |others| (case, others))
    };
    let entries = Case::all().flat_map(of);
    entries.map(|(case, others)| entry(case, others)).collect()
}

/// A guest in which no vCPU runs.
struct Series {
    case: Case,
    guest: Guest,
    registry: Registry,
    /// The others, which are registered all the time.
    _others: Vec<Registered>,
}

/// What is registered, by numbers: first those of a series, then the others.
pub(super) enum Registry {
    /// Doorbells at an address each.
    Ioeventfds(Arc<EventFd>),
    /// Each eventfd for the same GSI.
    Irqfds(Vec<Arc<EventFd>>, Gsi),
}

/// A registration of either kind.
pub(super) enum Registered {
    Ioeventfd(Doorbell),
    Irqfd(Irqfd),
}

impl Registry {
    pub(super) fn new(
        kind: Kind,
        number: u32,
        vm: &dyn Vm,
        subject: &str,
    ) -> Result<Self, Failure> {
        let event = || EventFd::new(EFD_NONBLOCK).map(Arc::new);
        if kind == Kind::Ioeventfd {
            return Ok(Self::Ioeventfds(event()?));
        }
        let wiring = Wiring::new(vm, Source::Edge, subject)?;
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

/// Lets this process open as many descriptors as all rows may need at once, or as it may: a thousand eventfds exceed the usual
/// soft limit, and those of four rows the kernel's first hard limit.
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

impl Series {
    fn new(
        hypervisor: &dyn Hypervisor,
        case: Case,
        others: u32,
        options: &Options,
    ) -> Result<Self, SubjectError> {
        let (program, irqchip) = match case.kind {
            Kind::Ioeventfd => (PATH.rate_program(), Irqchip::None),
            Kind::Irqfd => (programs::interrupt_running(), Irqchip::Full),
        };
        let config = VmConfig {
            spin: options.spin,
            irqchip,
            vcpu_cpus: vec![options.first_cpu()],
            ..VmConfig::default()
        };
        let name = case.name();
        let guest = Guest::with_config(hypervisor, name, program, config, options)?;
        let vm = guest.machine.vm().as_ref();
        let all = CALLS + others;
        let registry =
            Registry::new(case.kind, all, vm, name).map_err(|error| guest.failed(error))?;
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
    fn series(&self) -> Result<Vec<u64>, Failure> {
        let vm = self.guest.machine.vm().as_ref();
        let (mut registered, mut assigns, mut deassigns) = (Vec::new(), Vec::new(), Vec::new());
        thread::sleep(IDLE);
        for number in 0..CALLS {
            let begun = Clock::now();
            registered.push(self.registry.register(vm, number)?);
            assigns.push(Clock::now().saturating_sub(begun));
        }
        for one in &mut registered {
            let begun = Clock::now();
            one.remove()?;
            deassigns.push(Clock::now().saturating_sub(begun));
        }
        Ok(match self.case.timed {
            Timed::Assign => assigns,
            Timed::Deassign => deassigns,
        })
    }

    /// The ticks of `ops` calls of the row; fewer at the end of the limit.
    fn calls(&self, ops: u64) -> Result<Vec<u64>, Failure> {
        let _pinned = Pinned::to(&[self.guest.other_cpu])?;
        let mut all = Vec::new();
        while (all.len() as u64) < ops && !self.guest.limit.is_run_over() {
            let series = self.series()?;
            let (first, later) = series.split_at(1);
            let missing = usize::try_from(ops).unwrap_or(usize::MAX) - all.len();
            let counted = match self.case.place {
                Place::First => first,
                Place::Later => later,
            };
            all.extend(counted.iter().take(missing));
        }
        Ok(all)
    }
}

impl Scenario for Series {
    fn guest(&self) -> &Guest {
        &self.guest
    }

    fn measure(&mut self, ops: u64) -> Result<Sample, SubjectError> {
        let started = Instant::now();
        let ticks = self.calls(ops).map_err(|error| self.guest.failed(error))?;
        let elapsed_ns = nanoseconds(started.elapsed());
        self.guest.agree("the series", ticks.len() as u64, ops)?;
        Ok(Sample {
            ops,
            elapsed_ns,
            latencies_ns: self.guest.clock.latencies(ticks),
            ..Sample::default()
        })
    }
}
