//! A guest that takes interrupts, as a subject whose events are counted, and the thread that raises the interrupts: at
//! a rate, or one whenever the guest asks.

use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use vmm_sys_util::eventfd::EventFd;

use super::counter::EventCounter;
use crate::affinity;
use crate::scenario::{
    GuestGone, GuestScenario, GuestView, InterruptSource, ScenarioGuest, Wiring, bell,
};
use crate::{RunSample, SubjectError, SubjectOptions};
use vmbell::doorbell::{Datamatch, IoEventAddress, Sharing};
use vmbell_guest::{Interrupts, PARAMETERS, Parameters, programs};
use vmbell_hypervisor::measure::EventCounts;
use vmbell_hypervisor::{Doorbell, Hypervisor, Irqchip, Irqfd, VmConfig};
use vmbell_report::is_of_host;

/// The name of the count of interrupts that the guest took.
pub const TAKEN: &str = "interrupts taken";
/// The name of the count of EOIs that needed no register.
pub const SPARED: &str = "ends by the bit";

/// The address at which the guest asks for an interrupt.
const DOORBELL: IoEventAddress = bell(0x70);

/// A guest that takes interrupts.
pub(super) struct EoiSubject {
    guest: ScenarioGuest,
    view: GuestView,
    pace: InterruptPace,
    counter: EventCounter,
    irqfd: Irqfd,
    /// The doorbell that the guest rings when it wants an interrupt. Reading its eventfd blocks.
    doorbell: Doorbell,
}

impl EoiSubject {
    pub(super) fn new(
        hypervisor: &dyn Hypervisor,
        name: &str,
        pv_eoi: bool,
        pace: InterruptPace,
        options: &SubjectOptions,
    ) -> Result<Self, SubjectError> {
        let config = VmConfig {
            irqchip: Irqchip::Full,
            pv_eoi,
            vcpu_cpus: vec![options.first_cpu()],
            ..VmConfig::default()
        };
        let program = programs::interrupt_halted();
        let mut guest = ScenarioGuest::with_config(hypervisor, name, program, config, options)?;
        let machine = Arc::clone(&guest.machine);
        let vm = machine.vm();
        let failed = |error| SubjectError::failed(name, error);
        let set_up = || -> Result<(Irqfd, Doorbell), Box<dyn std::error::Error + Send + Sync>> {
            let wiring = Wiring::new(vm.as_ref(), InterruptSource::Edge, name)?;
            Interrupts {
                pv_eoi,
                ..wiring.interrupts
            }
            .write(machine.vm().memory(), PARAMETERS)?;
            let (event, rung) = (EventFd::new(0)?, EventFd::new(0)?);
            wiring.connect(vm.as_ref())?;
            let irqfd = vm.register_irqfd(&Arc::new(event), wiring.gsi(name)?, None)?;
            let any = Datamatch::U32(None);
            let doorbell =
                vm.register_ioevent(&Arc::new(rung), DOORBELL, any, Sharing::Exclusive)?;
            Ok((irqfd, doorbell))
        };
        let (irqfd, doorbell) = set_up().map_err(failed)?;
        let counter = EventCounter::new(vm.as_ref());
        guest.set_counter(counter.source());
        Ok(Self {
            view: GuestView::new(vm.memory()),
            guest,
            pace,
            counter,
            irqfd,
            doorbell,
        })
    }

    /// The names of the events that are counted.
    pub(super) fn event_names(&mut self) -> io::Result<BTreeSet<String>> {
        let events = self.counter.read(self.guest.machine.vm().as_ref())?;
        Ok(events.into_keys().collect())
    }
}

impl GuestScenario for EoiSubject {
    fn guest(&self) -> &ScenarioGuest {
        &self.guest
    }

    #[allow(
        clippy::cast_precision_loss,
        reason = "a run takes far less than 2^53 ns"
    )]
    fn measure(&mut self, ops: u64) -> Result<RunSample, SubjectError> {
        let Self {
            guest,
            view,
            pace,
            counter,
            irqfd,
            doorbell,
        } = self;
        let (event, doorbell) = (irqfd.event(), doorbell.event());
        let read = |counter: &mut EventCounter, guest: &ScenarioGuest| {
            let counts = counter.read(guest.machine.vm().as_ref());
            counts.map_err(|error| guest.failed(error))
        };
        let before = read(counter, guest)?;
        let earlier = guest.results()?;
        let (cpu, ready) = (guest.other_cpu, view.ready());
        let address = match pace {
            InterruptPace::Rate(_) => 0,
            InterruptPace::Lockstep => DOORBELL.value(),
        };
        view.begin();
        let started = Instant::now();
        let (run, raised) = std::thread::scope(|scope| {
            let view = &*view;
            let raising = scope.spawn(move || {
                affinity::prefer(cpu);
                match *pace {
                    InterruptPace::Rate(rate) => at_rate(view, event, rate, (ops, ready)),
                    InterruptPace::Lockstep => {
                        in_lockstep(view, event, doorbell);
                        Ok(())
                    }
                }
            });
            let run = guest.run(&Parameters {
                count: ops,
                address,
                ..Parameters::default()
            });
            view.end();
            // The raising thread may be waiting for a notification that will not come.
            signal(doorbell);
            (run, raising.join())
        });
        let elapsed_ns = started.elapsed().as_nanos() as f64;
        run?;
        raised
            .map_err(|_| guest.failed("the thread that raises interrupts panicked"))?
            .map_err(|gone| guest.failed(gone))?;
        let after = read(counter, guest)?;
        let later = guest.results()?;
        let of = |counts: &EventCounts, name: &str| counts.get(name).copied().unwrap_or_default();
        let since = |name: &str| of(&after, name) - of(&before, name);
        let of_host: u64 = after
            .keys()
            .filter(|name| is_of_host(name))
            .map(|name| since(name))
            .sum();
        let taken = later.interrupts - earlier.interrupts;
        let spared = later.spared - earlier.spared;
        Ok(RunSample {
            ops: taken,
            elapsed_ns,
            exits: Some(since(counter.exits()).saturating_sub(of_host)),
            events: after
                .keys()
                .map(|name| (name.clone(), since(name)))
                .collect(),
            counts: vec![(TAKEN.to_owned(), taken), (SPARED.to_owned(), spared)],
            ..RunSample::default()
        })
    }
}

/// When the interrupts of a run come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InterruptPace {
    /// This number per second, or fewer if the host cannot keep up: each interrupt waits until the guest has taken the
    /// previous one.
    Rate(u32),
    /// One interrupt each time the guest asks for one, so that the number of exits does not depend on time.
    Lockstep,
}

/// The last part of a wait, if shorter than this, is spun, because a sleep always takes longer than requested.
const SPIN: Duration = Duration::from_micros(200);

/// Raises `ops` interrupts, about `rate` per second, after the guest has become ready for more than `ready` runs.
fn at_rate(
    view: &GuestView,
    event: &EventFd,
    rate: u32,
    (ops, ready): (u64, u64),
) -> Result<(), GuestGone> {
    view.wait(|| view.ready() > ready)?;
    let period = Duration::from_secs(1) / rate.max(1);
    let mut next = Instant::now();
    let first = view.interrupts();
    for taken in first..first + ops {
        next = Instant::now().max(next + period);
        let left = next.saturating_duration_since(Instant::now());
        if left > SPIN {
            std::thread::sleep(left - SPIN);
        }
        view.wait(|| Instant::now() >= next)?;
        signal(event);
        view.wait(|| view.interrupts() > taken)?;
    }
    Ok(())
}

/// Raises one interrupt for each signal of `doorbell`, until the run is over and another thread signals it.
fn in_lockstep(view: &GuestView, event: &EventFd, doorbell: &EventFd) {
    while doorbell.read().is_ok() && !view.is_over() {
        signal(event);
    }
}

/// Signals an eventfd whose counter is near zero, so that the write neither blocks nor fails.
fn signal(event: &EventFd) {
    let _ = event.write(1);
}
