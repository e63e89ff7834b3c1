//! A guest that takes interrupts, as a subject whose events are counted.

use std::sync::Arc;
use std::time::Instant;

use vmm_sys_util::eventfd::EventFd;

use super::pace::{Pace, at_rate, in_lockstep, signal};
use crate::affinity;
use crate::scenario::{Guest, GuestView, Scenario, Source, Wiring, bell};
use crate::{Options, Sample, SubjectError};
use vmbell::doorbell::{Datamatch, IoEventAddress, Sharing};
use vmbell_guest::{Interrupts, Parameters, programs};
use vmbell_hypervisor::measure::{EventCounter, EventCounts};
use vmbell_hypervisor::{Hypervisor, Irqchip, VmConfig};

/// The name of the count of interrupts that the guest took.
pub const TAKEN: &str = "interrupts taken";
/// The name of the count of those interrupts whose end needed no register.
pub const SPARED: &str = "ends by the bit";

/// Where the guest asks for an interrupt.
const DOORBELL: IoEventAddress = bell(0x70);

/// A guest that takes interrupts.
pub(super) struct Interrupted {
    guest: Guest,
    view: GuestView,
    pace: Pace,
    counter: Box<dyn EventCounter>,
    /// The eventfd of the irqfd.
    event: EventFd,
    /// The eventfd that the guest rings when it wants an interrupt; reading it blocks.
    doorbell: EventFd,
}

impl Interrupted {
    pub(super) fn new(
        hypervisor: &dyn Hypervisor,
        name: &str,
        pv_eoi: bool,
        pace: Pace,
        options: &Options,
    ) -> Result<Self, SubjectError> {
        let config = VmConfig {
            irqchip: Irqchip::Full,
            pv_eoi,
            vcpu_cpus: vec![options.first_cpu()],
            ..VmConfig::default()
        };
        let program = programs::interrupt_halted();
        let mut guest = Guest::with_config(hypervisor, name, program, config, options)?;
        let machine = Arc::clone(&guest.machine);
        let vm = machine.vm();
        let failed = |error| SubjectError::failed(name, error);
        let set_up = || -> Result<(EventFd, EventFd), Box<dyn std::error::Error + Send + Sync>> {
            let wiring = Wiring::new(vm.as_ref(), Source::Edge, name)?;
            machine.set_interrupts(&Interrupts {
                pv_eoi,
                ..wiring.interrupts
            })?;
            let (event, doorbell) = (EventFd::new(0)?, EventFd::new(0)?);
            wiring.connect(vm.as_ref())?;
            vm.register_irqfd(&event, wiring.gsi(name)?, None)?;
            vm.register_ioevent(
                &doorbell,
                DOORBELL,
                Datamatch::U32(None),
                Sharing::Exclusive,
            )?;
            Ok((event, doorbell))
        };
        let (event, doorbell) = set_up().map_err(failed)?;
        let counter = vm.measure().count_events();
        guest.set_counter(counter.source());
        Ok(Self {
            view: GuestView::new(vm.memory()),
            guest,
            pace,
            counter,
            event,
            doorbell,
        })
    }
}

impl Scenario for Interrupted {
    fn guest(&self) -> &Guest {
        &self.guest
    }

    #[allow(
        clippy::cast_precision_loss,
        reason = "a run takes far less than 2^53 ns"
    )]
    fn measure(&mut self, ops: u64) -> Result<Sample, SubjectError> {
        let Self {
            guest,
            view,
            pace,
            counter,
            event,
            doorbell,
        } = self;
        let read = |counter: &mut Box<dyn EventCounter>, guest: &Guest| {
            counter.read().map_err(|error| guest.failed(error))
        };
        let before = read(counter, guest)?;
        let earlier = guest.results()?;
        let (cpu, ready) = (guest.other_cpu, view.ready());
        let address = match pace {
            Pace::Rate(_) => 0,
            Pace::Lockstep => DOORBELL.value(),
        };
        view.begin();
        let started = Instant::now();
        let (run, raised) = std::thread::scope(|scope| {
            let (view, event, doorbell) = (&*view, &*event, &*doorbell);
            let raising = scope.spawn(move || {
                affinity::prefer(cpu);
                match *pace {
                    Pace::Rate(rate) => at_rate(view, event, rate, (ops, ready)),
                    Pace::Lockstep => {
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
            // The raising thread may wait for a ring that will not come.
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
        let taken = later.interrupts - earlier.interrupts;
        let spared = later.spared - earlier.spared;
        Ok(Sample {
            ops: taken,
            elapsed_ns,
            exits: Some(since(counter.exits())),
            events: after
                .keys()
                .map(|name| (name.clone(), since(name)))
                .collect(),
            counts: vec![(TAKEN.to_owned(), taken), (SPARED.to_owned(), spared)],
            ..Sample::default()
        })
    }
}
