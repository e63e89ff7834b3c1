//! Runs the workload once in a mode: first a short run that does not count, then the one that counts.

use std::io;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Release;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use vmm_sys_util::eventfd::EventFd;

use super::mode::{Measured, Mode, SPARED, TAKEN, Tick};
use super::paced::Raiser;
use crate::{CpuTime, Limit, Sample, Series};
use vmbell::doorbell::{Datamatch, IoEventAddress, Sharing};
use vmbell::guest::{HANDLER, Interrupts, Parameters, VECTOR, programs};
use vmbell::hypervisor::{
    Error, EventCounter, EventCounts, Hypervisor, Irqchip, Vcpu, Vm, VmConfig,
};
use vmbell::irq::{Gsi, IrqError, Msi, Route, Target};
use vmbell::machine::{CODE, Deadline, Machine, MachineError, Stop};
use vmbell_report::Group;

/// What the guest and the raising thread do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Workload {
    /// Interrupts at a rate for some time, as near to the rate as the host allows.
    Paced {
        /// Interrupts a second.
        rate: u32,
        /// How long interrupts are raised.
        time: Duration,
    },
    /// A number of interrupts, each when the guest has asked for it, so that exits do not depend on
    /// time.
    Lockstep {
        /// The number of interrupts.
        interrupts: u64,
    },
}

/// Why a workload has no counts.
#[derive(Debug, thiserror::Error)]
pub enum StatError {
    /// The guest could not be made, or its interrupts could not be set up.
    #[error("cannot set the guest up")]
    Vm(#[source] Error),
    /// The guest's program could not be loaded, or it faulted.
    #[error("the guest failed")]
    Machine(#[from] MachineError),
    /// The route of the interrupt is not valid.
    #[error("cannot route the interrupt")]
    Irq(#[from] IrqError),
    /// A system call of the host failed.
    #[error("cannot {operation}")]
    System {
        /// What the call was to do.
        operation: &'static str,
        /// Why the call failed.
        source: io::Error,
    },
    /// The guest did not take as many interrupts as were raised.
    #[error("the guest took {taken} interrupts of {raised}")]
    Lost {
        /// How many interrupts the guest took.
        taken: u64,
        /// How many interrupts were raised.
        raised: u64,
    },
    /// An interrupt from the keyboard or the time limit stopped the workload.
    #[error("stopped before the end")]
    Stopped,
}

/// The port where the guest asks for an interrupt.
const DOORBELL: u64 = 0xc070;
/// The first GSI that is not a pin of the I/O APIC.
const GSI: u32 = 24;
/// How many interrupts the run that does not count has.
const WARM_UP: u64 = 16;

/// Runs `workload` in `mode`, and calls `tick` with its progress once every `interval`.
pub fn run<H: Hypervisor>(
    hypervisor: &H,
    workload: Workload,
    mode: Mode,
    limit: Limit,
    interval: Option<Duration>,
    tick: &mut dyn FnMut(Tick),
) -> Result<Measured, StatError> {
    let config = VmConfig {
        irqchip: Irqchip::Full,
        pv_eoi: mode == Mode::On,
        ..VmConfig::default()
    };
    let machine = Machine::new(hypervisor.create_vm(&config).map_err(StatError::Vm)?);
    let mut session = Session::new(&machine, mode, limit)?;
    // This run does what is done only once, such as setting the guest up, before the counts begin.
    let warm_up = Workload::Lockstep {
        interrupts: WARM_UP,
    };
    session.phase(warm_up, None, &mut |_, _| {})?;
    let before = session.count()?;
    let taken = machine.results()?;
    let others = machine.vm().processes();
    let cpu_time = CpuTime::so_far(&others);
    let started = Instant::now();
    let mut last = before.clone();
    session.phase(workload, interval, &mut |counts, exits| {
        tick(Tick {
            mode,
            elapsed: started.elapsed(),
            exits: counts.of(exits) - last.of(exits),
            interrupts: counts.interrupts - last.interrupts,
        });
        last = counts;
    })?;
    let elapsed = started.elapsed();
    let cpu_time = CpuTime::so_far(&others).since(cpu_time);
    let after = session.count()?;
    let results = machine.results()?;
    let exits = session.counter.exits();
    let difference = |(name, _): (&String, &u64)| (name.clone(), after.of(name) - before.of(name));
    let interrupts = results.interrupts - taken.interrupts;
    let counts = [(TAKEN, interrupts), (SPARED, results.spared - taken.spared)];
    let sample = Sample {
        ops: interrupts,
        elapsed_ns: elapsed.as_secs_f64() * 1e9,
        exits: Some(after.of(exits) - before.of(exits)),
        events: after.events.iter().map(difference).collect(),
        counts: counts.map(|(name, n)| (name.to_owned(), n)).into(),
        ..Sample::default()
    };
    let mut series = Series::new(mode.name(), Group::Scenario, mode.reference());
    series.setting.backend = hypervisor.name();
    series.ops_per_run = interrupts;
    series.push(sample, cpu_time);
    Ok(Measured {
        source: session.counter.source().to_owned(),
        series,
    })
}

/// All counts at one moment.
#[derive(Clone, Debug)]
struct Counts {
    events: EventCounts,
    interrupts: u64,
}

impl Counts {
    fn of(&self, name: &str) -> u64 {
        self.events.get(name).copied().unwrap_or_default()
    }
}

fn count<V: Vm>(counter: &mut dyn EventCounter, machine: &Machine<V>) -> Result<Counts, StatError> {
    Ok(Counts {
        events: counter.read().map_err(system("read the counts"))?,
        interrupts: machine.results()?.interrupts,
    })
}

/// A guest, and what raises its interrupts.
struct Session<'m, V: Vm> {
    machine: &'m Machine<V>,
    vcpu: V::Vcpu,
    counter: Box<dyn EventCounter>,
    event: EventFd,
    doorbell: EventFd,
    limit: Limit,
}

fn system(operation: &'static str) -> impl Fn(io::Error) -> StatError {
    move |source| StatError::System { operation, source }
}

impl<'m, V: Vm> Session<'m, V> {
    fn new(machine: &'m Machine<V>, mode: Mode, limit: Limit) -> Result<Self, StatError> {
        let vm = machine.vm();
        let entry = machine.load(programs::interrupt_halted(), 0)?;
        let mut vcpu = vm.create_vcpu(0).map_err(StatError::Vm)?;
        vcpu.set_entry_point(entry).map_err(StatError::Vm)?;
        vcpu.set_interrupt_handler(CODE.0 + HANDLER)
            .map_err(StatError::Vm)?;
        machine.set_interrupts(&Interrupts {
            pv_eoi: mode == Mode::On,
            ..Interrupts::default()
        })?;
        let event = || EventFd::new(0).map_err(system("make an eventfd"));
        let (event, doorbell) = (event()?, event()?);
        let gsi = Gsi::new(GSI)?;
        let target = Target::Msi(Msi::fixed(0, VECTOR));
        vm.set_routing(&[Route { gsi, target }])
            .map_err(StatError::Vm)?;
        vm.register_irqfd(&event, gsi, None)
            .map_err(StatError::Vm)?;
        let port = IoEventAddress::Pio(DOORBELL);
        vm.register_ioevent(&doorbell, port, Datamatch::U32(None), Sharing::Exclusive)
            .map_err(StatError::Vm)?;
        Ok(Self {
            machine,
            vcpu,
            counter: vm.count_events(),
            event,
            doorbell,
            limit,
        })
    }

    fn count(&mut self) -> Result<Counts, StatError> {
        count(self.counter.as_mut(), self.machine)
    }

    /// Runs the guest until it has taken the workload's interrupts.
    fn phase(
        &mut self,
        workload: Workload,
        interval: Option<Duration>,
        tick: &mut dyn FnMut(Counts, &str),
    ) -> Result<(), StatError> {
        let machine = self.machine;
        let over = AtomicBool::new(false);
        let raiser = Raiser {
            memory: machine.vm().memory(),
            event: &self.event,
            doorbell: &self.doorbell,
            over: &over,
        };
        let (count, address) = match workload {
            Workload::Paced { .. } => (u64::from(u32::MAX), 0),
            Workload::Lockstep { interrupts } => (interrupts, DOORBELL),
        };
        machine.set_parameters(&Parameters {
            count,
            address,
            ..Parameters::default()
        })?;
        let (before, ready) = (raiser.interrupts(), raiser.ready());
        let limit = self.limit.clone();
        let (vcpu, counter) = (&mut self.vcpu, &mut self.counter);
        let (done, is_done) = mpsc::channel::<()>();
        let (stop, raised) = std::thread::scope(|scope| {
            let raising = scope.spawn(|| match workload {
                Workload::Paced { rate, time } => raiser.paced(ready, rate, time),
                Workload::Lockstep { .. } => raiser.lockstep(),
            });
            let running = scope.spawn(move || -> Result<Stop, StatError> {
                // It is dropped when the closure ends, whatever the outcome.
                let _done = done;
                let _deadline = Deadline::once(move || limit.stop().is_some(), vcpu.kick_handle())
                    .map_err(system("watch the time limit"))?;
                Ok(machine.runner(vcpu).run()?)
            });
            let wait = interval.unwrap_or(Duration::MAX);
            while is_done.recv_timeout(wait) == Err(RecvTimeoutError::Timeout) {
                let exits = counter.exits().to_owned();
                if let Ok(counts) = self::count(counter.as_mut(), machine) {
                    tick(counts, &exits);
                }
            }
            over.store(true, Release);
            if matches!(workload, Workload::Lockstep { .. }) {
                // The raising thread waits for a ring that will not come, so this rings for it. The
                // write cannot block or overflow: the counter is near zero.
                let _ = raiser.doorbell.write(1);
            }
            (running.join(), raising.join())
        });
        let gone = |_| StatError::Stopped;
        match stop.map_err(gone)?? {
            Stop::Done(_) => {}
            Stop::Halted | Stop::Shutdown | Stop::Kicked => return Err(StatError::Stopped),
        }
        raised
            .map_err(gone)?
            .map_err(system("raise an interrupt"))?;
        let taken = machine.results()?.interrupts - before;
        match workload {
            Workload::Lockstep { interrupts } if taken != interrupts => Err(StatError::Lost {
                taken,
                raised: interrupts,
            }),
            _ => Ok(()),
        }
    }
}
