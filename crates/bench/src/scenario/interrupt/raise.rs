//! Latency scenarios: from the signal of an irqfd, or a message of the VMM, to the first instruction of the guest's
//! handler, one interrupt at a time.

use std::sync::Arc;
use std::time::{Duration, Instant};

use vmm_sys_util::eventfd::{EFD_NONBLOCK, EventFd};

use super::super::guest::{GuestScenario, ScenarioGuest};
use super::super::view::{GuestGone, GuestView};
use super::case::InterruptCase;
use crate::affinity;
use crate::subject::nanoseconds;
use crate::{RunSample, SubjectError, SubjectOptions, TickClock};
use vmbell::irq::{Msi, Target};
use vmbell_guest::{PARAMETERS, Parameters};
use vmbell_hypervisor::{Hypervisor, Irqfd, Irqs};

/// The pause before each signal to a guest that halts: long enough for the guest to fall asleep.
const PAUSE_HALTED: Duration = Duration::from_micros(50);
/// The pause before each signal to a guest that runs: long enough for the guest to be back in its loop.
const PAUSE_RUNNING: Duration = Duration::from_micros(5);

/// What raises the interrupt.
enum RaiseSource {
    Irqfd {
        irqfd: Irqfd,
        /// The eventfd that the EOI signals, if the line is level-triggered.
        resample: Option<EventFd>,
    },
    Message(Msi),
}

/// A latency scenario.
pub(super) struct RaiseScenario {
    guest: ScenarioGuest,
    source: RaiseSource,
    view: GuestView,
    pause: Duration,
}

impl RaiseScenario {
    pub(super) fn new(
        hypervisor: &dyn Hypervisor,
        case: InterruptCase,
        options: &SubjectOptions,
    ) -> Result<Self, SubjectError> {
        let name = case.name();
        let config = case.config(vec![options.first_cpu()]);
        let guest = ScenarioGuest::with_config(hypervisor, name, case.program(), config, options)?;
        let event = || EventFd::new(EFD_NONBLOCK).map_err(|error| guest.failed(error));
        let vm = guest.machine.vm();
        let wiring = case.wiring(vm.as_ref())?;
        wiring
            .interrupts
            .write(guest.machine.vm().memory(), PARAMETERS)
            .map_err(|error| guest.failed(error))?;
        wiring
            .connect(vm.as_ref())
            .map_err(|error| guest.failed(error))?;
        let gsi = wiring.gsi(name)?;
        let source = match wiring.route.map(|route| route.target) {
            Some(Target::Msi(msi)) if matches!(case, InterruptCase::Msi { .. }) => {
                RaiseSource::Message(msi)
            }
            _ => {
                let level = matches!(case, InterruptCase::Irqfd { level: true, .. });
                let resample = if level { Some(event()?) } else { None };
                let irqfd = vm
                    .register_irqfd(&Arc::new(event()?), gsi, resample.as_ref())
                    .map_err(|error| guest.failed(error))?;
                RaiseSource::Irqfd { irqfd, resample }
            }
        };
        let halted = matches!(
            case,
            InterruptCase::Irqfd { halted: true, .. } | InterruptCase::Msi { halted: true }
        );
        Ok(Self {
            view: GuestView::new(vm.memory()),
            guest,
            source,
            pause: if halted { PAUSE_HALTED } else { PAUSE_RUNNING },
        })
    }
}

/// What the thread that raises interrupts borrows.
struct Signaller<'s> {
    irqs: &'s dyn Irqs,
    view: &'s GuestView,
    source: &'s RaiseSource,
    pause: Duration,
}

impl Signaller<'_> {
    /// Raises `ops` interrupts, each after the previous one is over, and returns the ticks that each took.
    fn raise(&self, ops: u64, ready: u64) -> Result<Vec<u64>, GuestGone> {
        let view = self.view;
        view.wait(|| view.ready() > ready)?;
        let mut all = Vec::new();
        let first = view.interrupts();
        for taken in first..first + ops {
            let rested = Instant::now() + self.pause;
            view.wait(|| Instant::now() >= rested)?;
            let raised = TickClock::now();
            match self.source {
                RaiseSource::Irqfd { irqfd, .. } => {
                    // The counter is almost 0, so the write cannot fail.
                    let _ = irqfd.event().write(1);
                }
                RaiseSource::Message(msi) => {
                    // A message that is refused never arrives, and then the counts do not agree.
                    let _ = self.irqs.signal_msi(*msi);
                }
            }
            view.wait(|| view.interrupts() > taken)?;
            all.push(view.entered().saturating_sub(raised));
            if let RaiseSource::Irqfd {
                resample: Some(resample),
                ..
            } = self.source
            {
                view.wait(|| resample.read().is_ok())?;
            }
        }
        Ok(all)
    }
}

impl GuestScenario for RaiseScenario {
    fn guest(&self) -> &ScenarioGuest {
        &self.guest
    }

    fn measure(&mut self, ops: u64) -> Result<RunSample, SubjectError> {
        let (cpu, ready) = (self.guest.other_cpu, self.view.ready());
        let machine = Arc::clone(&self.guest.machine);
        let signaller = Signaller {
            irqs: machine.vm().as_ref(),
            view: &self.view,
            source: &self.source,
            pause: self.pause,
        };
        self.view.begin();
        let started = Instant::now();
        let (run, ticks) = std::thread::scope(|scope| {
            let raising = scope.spawn(|| {
                affinity::prefer(cpu);
                signaller.raise(ops, ready)
            });
            let run = self.guest.run(&Parameters {
                count: ops,
                ..Parameters::default()
            });
            self.view.end();
            (run, raising.join())
        });
        let elapsed_ns = nanoseconds(started.elapsed());
        let run = run?;
        let ticks = ticks
            .map_err(|_| {
                self.guest
                    .failed("the thread that raises interrupts ended early")
            })?
            .map_err(|over| self.guest.failed(over))?;
        Ok(RunSample {
            latencies_ns: self.guest.clock.latencies(ticks),
            ..run.sample(ops, elapsed_ns)
        })
    }
}
