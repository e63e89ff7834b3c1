//! Scenarios of a level-triggered line: it is raised, handled and lowered, and its device is notified.

use std::sync::Arc;
use std::time::{Duration, Instant};

use vmm_sys_util::eventfd::{EFD_NONBLOCK, EventFd};

use super::super::guest::{GuestScenario, ScenarioFailure, ScenarioGuest};
use super::super::view::GuestView;
use super::super::wiring::{attach, bell};
use super::case::{InterruptCase, Lowered};
use crate::affinity;
use crate::subject::nanoseconds;
use crate::{RunSample, SubjectError, SubjectOptions};
use vmbell::doorbell::IoEventAddress;
use vmbell::irq::{ForwardedLine, Gsi};
use vmbell_devices::Hook;
use vmbell_guest::{PARAMETERS, Parameters};
use vmbell_hypervisor::{Hypervisor, IrqTrigger, Irqfd, Irqs};

/// Where the handler says that it has served the device.
const SERVED: IoEventAddress = bell(0x60);

/// A scenario of a level-triggered line.
pub(super) struct LevelScenario {
    guest: ScenarioGuest,
    gsi: Gsi,
    /// What lowers the line, and how the device is notified.
    kind: LevelKind,
    view: GuestView,
    /// The number of interrupts that the guest has ended with its bit, over all runs.
    spared: u64,
}

enum LevelKind {
    /// The guest's EOI lowers the line, and the resamplefd notifies the device.
    Resample { irqfd: Irqfd, lowered: EventFd },
    /// The device polls for the guest's end of the interrupt.
    Forwarded { line: Box<dyn ForwardedLine> },
    /// The device model lowers the line, on the vCPU's thread.
    Userspace { lowered: EventFd },
}

impl LevelScenario {
    pub(super) fn new(
        hypervisor: &dyn Hypervisor,
        case: InterruptCase,
        options: &SubjectOptions,
    ) -> Result<Self, SubjectError> {
        let name = case.name();
        let config = case.config(vec![options.first_cpu()]);
        let guest = ScenarioGuest::with_config(hypervisor, name, case.program(), config, options)?;
        let vm = guest.machine.vm();
        let wiring = case.wiring(vm.as_ref())?;
        let gsi = wiring.gsi(name)?;
        let kind = connect(&guest, case, gsi).map_err(|error| guest.failed(error))?;
        wiring
            .interrupts
            .write(guest.machine.vm().memory(), PARAMETERS)
            .map_err(|error| guest.failed(error))?;
        wiring
            .connect(vm.as_ref())
            .map_err(|error| guest.failed(error))?;
        Ok(Self {
            gsi,
            kind,
            view: GuestView::new(vm.memory()),
            spared: 0,
            guest,
        })
    }
}

impl LevelScenario {
    /// Fails unless the guest has ended most of `ops` forwarded interrupts with its bit. Occasionally a preempted vCPU
    /// leaves the guest in the middle of an interrupt, and ends that interrupt with the register.
    fn check_forwarded(&mut self, ops: u64) -> Result<(), SubjectError> {
        let before = self.spared;
        self.spared = self.guest.results()?.spared;
        let spared = self.spared - before;
        if matches!(self.kind, LevelKind::Forwarded { .. }) && spared < ops / 2 {
            let what = format!("only {spared} of {ops} interrupts were ended by the bit");
            return Err(self.guest.failed(what));
        }
        Ok(())
    }
}

/// The device's thread.
struct LevelDevice<'d> {
    irqs: &'d dyn Irqs,
    gsi: Gsi,
    kind: &'d LevelKind,
    view: &'d GuestView,
}

impl LevelDevice<'_> {
    /// Raises the line `ops` times, each time until the guest has served it. Returns the total time.
    fn assert(&self, ops: u64, ready: u64) -> Result<Duration, ScenarioFailure> {
        let view = self.view;
        view.wait(|| view.ready() > ready)?;
        let started = Instant::now();
        for _ in 0..ops {
            match self.kind {
                LevelKind::Resample { irqfd, lowered } => {
                    irqfd.signal();
                    view.wait(|| lowered.read().is_ok())?;
                }
                LevelKind::Forwarded { line } => {
                    line.raise();
                    view.wait(|| line.has_ended())?;
                }
                LevelKind::Userspace { lowered } => {
                    self.irqs.set_line(self.gsi, true)?;
                    view.wait(|| lowered.read().is_ok())?;
                }
            }
        }
        Ok(started.elapsed())
    }
}

fn connect(
    guest: &ScenarioGuest,
    case: InterruptCase,
    gsi: Gsi,
) -> Result<LevelKind, ScenarioFailure> {
    if case == InterruptCase::Level(Lowered::Forwarded) {
        let line = guest.machine.vm().forward_line(gsi)?;
        return Ok(LevelKind::Forwarded { line });
    }
    let lowered = EventFd::new(EFD_NONBLOCK)?;
    if case == InterruptCase::Level(Lowered::Resample) {
        let event = Arc::new(EventFd::new(EFD_NONBLOCK)?);
        let vm = guest.machine.vm();
        let irqfd = vm.register_irqfd(&event, gsi, Some(&lowered))?;
        return Ok(LevelKind::Resample { irqfd, lowered });
    }
    let (vm, told) = (Arc::clone(guest.machine.vm()), lowered.try_clone()?);
    let served = move || {
        // An error need not be handled here: the line stays raised and interrupts again, so the counts do not agree.
        let _ = vm.set_line(gsi, false);
        let _ = told.write(1);
    };
    attach(&guest.machine, SERVED, Arc::new(Hook(served)))?;
    Ok(LevelKind::Userspace { lowered })
}

impl GuestScenario for LevelScenario {
    fn guest(&self) -> &ScenarioGuest {
        &self.guest
    }

    fn measure(&mut self, ops: u64) -> Result<RunSample, SubjectError> {
        let (cpu, ready) = (self.guest.other_cpu, self.view.ready());
        let address = match self.kind {
            LevelKind::Resample { .. } | LevelKind::Forwarded { .. } => 0,
            LevelKind::Userspace { .. } => SERVED.value(),
        };
        let parameters = Parameters {
            count: ops,
            address,
            ..Parameters::default()
        };
        self.view.begin();
        let machine = Arc::clone(&self.guest.machine);
        let device = LevelDevice {
            irqs: machine.vm().as_ref(),
            gsi: self.gsi,
            kind: &self.kind,
            view: &self.view,
        };
        let (run, elapsed) = std::thread::scope(|scope| {
            let asserting = scope.spawn(|| {
                affinity::prefer(cpu);
                device.assert(ops, ready)
            });
            let run = self.guest.run(&parameters);
            self.view.end();
            (run, asserting.join())
        });
        let run = run?;
        let elapsed = elapsed
            .map_err(|_| self.guest.failed("the device's thread ended early"))?
            .map_err(|error| self.guest.failed(error))?;
        self.check_forwarded(ops)?;
        Ok(run.sample(ops, nanoseconds(elapsed)))
    }
}
