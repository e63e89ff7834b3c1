//! From the signal of an irqfd to the first instruction of the guest's handler, one at a time.

use std::time::{Duration, Instant};

use vmm_sys_util::eventfd::{EFD_NONBLOCK, EventFd};

use super::super::guest::Guest;
use super::case::Case;
use super::signaller::{Over, View};
use crate::bench::affinity;
use crate::bench::{Clock, Options, Sample, Setting, Subject, SubjectError};
use crate::guest::Parameters;
use crate::hypervisor::{Hypervisor, Vm};

/// How long a guest that halts is left alone before each signal: long enough to fall asleep.
const PAUSE_HALTED: Duration = Duration::from_micros(50);
/// The same for one that runs: long enough to be back in its loop.
const PAUSE_RUNNING: Duration = Duration::from_micros(5);

/// An irqfd scenario.
pub(super) struct Raise<H: Hypervisor> {
    case: Case,
    guest: Guest<H>,
    event: EventFd,
    /// What the EOI signals, if the line is level-triggered.
    resample: Option<EventFd>,
    view: View,
    pause: Duration,
    clock: Clock,
}

impl<H: Hypervisor> Raise<H> {
    pub(super) fn new(hypervisor: &H, case: Case, options: &Options) -> Result<Self, SubjectError> {
        let name = case.name();
        let config = case.config(vec![options.first_cpu()]);
        let guest = Guest::with_config(hypervisor, name, case.program(), config, options)?;
        let failed =
            |error: Box<dyn std::error::Error + Send + Sync>| SubjectError::failed(name, error);
        let event = || EventFd::new(EFD_NONBLOCK).map_err(|error| failed(error.into()));
        let (raised, level, halted) = match case {
            Case::Irqfd { level, halted } => (event()?, level, halted),
            _ => (event()?, false, false),
        };
        let resample = if level { Some(event()?) } else { None };
        guest
            .machine
            .set_interrupts(&case.interrupts())
            .map_err(|error| failed(error.into()))?;
        let vm = guest.machine.vm();
        let route = case.route().map_err(|error| failed(error.into()))?;
        vm.set_routing(&[route])
            .map_err(|error| failed(error.into()))?;
        vm.register_irqfd(&raised, route.gsi, resample.as_ref())
            .map_err(|error| failed(error.into()))?;
        let shares_cpu = guest.other_cpu == options.first_cpu();
        Ok(Self {
            case,
            view: View::new(vm.memory(), shares_cpu),
            guest,
            event: raised,
            resample,
            pause: if halted { PAUSE_HALTED } else { PAUSE_RUNNING },
            clock: options.clock,
        })
    }
}

/// What the signalling thread borrows.
struct Signaller<'s> {
    view: &'s View,
    event: &'s EventFd,
    resample: Option<&'s EventFd>,
    pause: Duration,
}

impl Signaller<'_> {
    /// Raises so many interrupts, each when the one before is over; the ticks that each took.
    fn raise(&self, ops: u64, ready: u64) -> Result<Vec<u64>, Over> {
        let view = self.view;
        view.wait(|| view.ready() > ready)?;
        let mut all = Vec::new();
        let first = view.interrupts();
        for taken in first..first + ops {
            let rested = Instant::now() + self.pause;
            view.wait(|| Instant::now() >= rested)?;
            let raised = Clock::now();
            // A fresh count takes the one.
            let _ = self.event.write(1);
            view.wait(|| view.interrupts() > taken)?;
            all.push(view.entered().saturating_sub(raised));
            if let Some(resample) = self.resample {
                view.wait(|| resample.read().is_ok())?;
            }
        }
        Ok(all)
    }
}

impl<H: Hypervisor> Subject for Raise<H> {
    fn name(&self) -> &str {
        self.case.name()
    }

    fn setting(&self) -> Setting {
        self.guest.setting.clone()
    }

    fn processes(&self) -> Vec<u32> {
        self.guest.machine.vm().processes()
    }

    #[allow(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "latencies and run times are far below 2^53 ns and not negative"
    )]
    fn run(&mut self, ops: u64) -> Result<Sample, SubjectError> {
        let (cpu, ready) = (self.guest.other_cpu, self.view.ready());
        let signaller = Signaller {
            view: &self.view,
            event: &self.event,
            resample: self.resample.as_ref(),
            pause: self.pause,
        };
        self.view.begin();
        let started = Instant::now();
        let (run, ticks) = std::thread::scope(|scope| {
            let raising = scope.spawn(|| {
                // One that cannot be pinned runs where the scheduler puts it.
                let _ = affinity::pin(&[cpu]);
                signaller.raise(ops, ready)
            });
            let run = self.guest.run(&Parameters {
                count: ops,
                ..Parameters::default()
            });
            if run.is_err() {
                self.view.end();
            }
            (run, raising.join())
        });
        let elapsed_ns = started.elapsed().as_nanos() as f64;
        let run = run?;
        let Ok(Ok(ticks)) = ticks else {
            let what = "the thread that raises interrupts ended early";
            return Err(SubjectError::failed(self.case.name(), what));
        };
        let ns = |ticks| self.clock.ns(ticks) as u64;
        Ok(Sample {
            ops,
            elapsed_ns,
            light: run.light,
            heavy: run.heavy,
            latencies_ns: ticks.into_iter().map(ns).collect(),
        })
    }
}
