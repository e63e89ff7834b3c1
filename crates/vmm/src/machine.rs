//! A guest with its devices, and the exit loop. The loop runs one vCPU on the thread that owns it, answers exits from
//! the buses, and handles exits that no device answers.
//!
//! Several vCPUs run on one thread each, until one of them ends the run for all.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};

use vmbell::bus::{Backlog, Bus};
use vmbell::sync::{Mutex, RwLock};
use vmbell::thread::{self, OnStart, ThreadKind};
use vmbell_hypervisor::{Buses, Kick, Vcpu, Vm, VmEntry, VmExit};

use super::error::MachineError;
use super::stop::{Deadline, Stop, done};

/// ENOSYS, Linux's return value for an unknown hypercall.
const ENOSYS: u64 = 38_u64.wrapping_neg();

/// A guest with its devices.
#[derive(Debug)]
pub struct Machine {
    vm: Arc<dyn Vm>,
    /// The bus of devices on I/O ports.
    pub pio: Arc<Bus>,
    /// The bus of devices on guest-physical addresses.
    pub mmio: Arc<Bus>,
    /// The bus of devices on hypercall numbers.
    pub hypercall: Arc<Bus>,
    /// Work that the devices leave to the vCPUs' exit loops. The work waits while no vCPU is in its exit loop outside
    /// the guest.
    pub backlog: Backlog,
}

impl Machine {
    /// Makes a machine of this guest, without a program and without devices.
    pub fn new(vm: Arc<dyn Vm>) -> Self {
        Self {
            vm,
            pio: Arc::default(),
            mmio: Arc::default(),
            hypercall: Arc::default(),
            backlog: Backlog::default(),
        }
    }

    /// The guest. A device that registers doorbells or irqfds itself keeps a clone.
    pub const fn vm(&self) -> &Arc<dyn Vm> {
        &self.vm
    }

    /// Makes the exit loop of one vCPU, for the thread that will run it.
    pub fn runner<'m>(&'m self, vcpu: &'m mut dyn Vcpu) -> Runner<'m> {
        Runner::new(self, vcpu)
    }
}

/// The exit loop of one vCPU, with a reader of each bus for its thread.
#[derive(Debug)]
pub struct Runner<'m> {
    vcpu: &'m mut dyn Vcpu,
    buses: Buses,
    entry: VmEntry,
}

impl<'m> Runner<'m> {
    fn new(machine: &Machine, vcpu: &'m mut dyn Vcpu) -> Self {
        let buses = Buses {
            pio: machine.pio.reader(),
            mmio: machine.mmio.reader(),
            hypercall: machine.hypercall.reader(),
            backlog: machine.backlog.clone(),
        };
        Self {
            vcpu,
            buses,
            entry: VmEntry::Resume,
        }
    }

    /// Runs the vCPU until the program is done, halts or is kicked. Fails if the backend fails, or on a fault
    /// or an access of the guest to a system register.
    ///
    /// A read that no device answers has all bits set, and a write is ignored.
    pub fn run(&mut self) -> Result<Stop, MachineError> {
        loop {
            let entry = std::mem::take(&mut self.entry);
            let exit = self.vcpu.serve(entry, &mut self.buses);
            let exit = exit.map_err(MachineError::Vcpu)?;
            if let Some(code) = done(&exit) {
                return Ok(Stop::Done(code));
            }
            match exit {
                VmExit::PioOut { .. } | VmExit::MmioWrite { .. } => {}
                VmExit::PioIn { .. } | VmExit::MmioRead { .. } => {
                    self.entry = VmEntry::Data(u64::MAX);
                }
                VmExit::Hypercall { .. } => self.entry = VmEntry::Data(ENOSYS),
                VmExit::RegisterRead { index } | VmExit::RegisterWrite { index, .. } => {
                    return Err(MachineError::Register { index });
                }
                VmExit::Halt => return Ok(Stop::Halted),
                VmExit::Shutdown => return Ok(Stop::Shutdown),
                VmExit::Reset => return Ok(Stop::Reset),
                VmExit::Kicked => return Ok(Stop::Kicked),
                VmExit::Fault(fault) => return Err(MachineError::Fault(*fault)),
            }
        }
    }
}

/// Kicks all vCPUs.
#[derive(Debug)]
struct Everyone(Vec<Arc<dyn Kick>>);

impl Kick for Everyone {
    fn kick(&self) {
        self.0.iter().for_each(|vcpu| vcpu.kick());
    }
}

/// Ends the other vCPUs when it is dropped, even if its thread panics.
struct EndOthers<'e> {
    ended: &'e AtomicBool,
    everyone: &'e Everyone,
}

impl Drop for EndOthers<'_> {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Release);
        self.everyone.kick();
    }
}

impl Machine {
    /// Runs all `vcpus` until one is done, halts or fails, or until `until` returns true: then the result is
    /// [`Stop::Kicked`]. Returns how the first vCPU ended that was not kicked.
    ///
    /// `until` is called every 20 ms on its own thread, and after each kick on the threads of the vCPUs. The guest
    /// begins when all of these threads and the calling thread are prepared ([`thread::on_spawn`]).
    pub fn run_together(
        &self,
        vcpus: &mut [Box<dyn Vcpu>],
        until: impl Fn() -> bool + Send + Sync + 'static,
    ) -> Result<Stop, MachineError> {
        let until = Arc::new(until);
        let everyone = Arc::new(Everyone(
            vcpus.iter().map(|vcpu| vcpu.kick_handle()).collect(),
        ));
        let (ended, first) = (AtomicBool::new(false), Mutex::new(None));
        let asked = Arc::clone(&until);
        let _deadline = Deadline::when(move || asked(), Arc::clone(&everyone) as Arc<dyn Kick>)
            .map_err(|source| MachineError::Thread { source })?;
        // The guest begins when the gate is opened, after every thread has started.
        let gate = RwLock::new(());
        let (starting, started) = channel::<()>();
        let run = |vcpu: &mut dyn Vcpu, start: OnStart, starting: Sender<()>| {
            let _end = EndOthers {
                ended: &ended,
                everyone: &everyone,
            };
            start();
            drop(starting);
            drop(gate.read());
            let mut runner = self.runner(vcpu);
            let outcome = loop {
                match runner.run() {
                    // Neither the end of the run nor `until` explains the kick, so the vCPU continues.
                    Ok(Stop::Kicked) if !ended.load(Ordering::Acquire) && !until() => {}
                    outcome => break outcome,
                }
            };
            // A kick is the result only if no vCPU ended otherwise.
            let mut first = first.lock();
            if matches!(*first, None | Some(Ok(Stop::Kicked))) {
                *first = Some(outcome);
            }
        };
        std::thread::scope(|scope| {
            let closed = gate.write();
            for (index, vcpu) in (0..).zip(vcpus.iter_mut()) {
                let thread = std::thread::Builder::new().name(format!("vcpu-{index}"));
                let (run, starting) = (&run, starting.clone());
                let start = thread::prepare(ThreadKind::Vcpu(index));
                let run = move || run(&mut **vcpu, start, starting);
                if let Err(source) = thread.spawn_scoped(scope, run) {
                    drop(EndOthers {
                        ended: &ended,
                        everyone: &everyone,
                    });
                    return Err(MachineError::Thread { source });
                }
            }
            drop(starting);
            // Nothing is sent: the channel closes when the last vCPU has started.
            let _ = started.recv();
            // The vCPUs' threads have started by now. Otherwise they would inherit this thread's filter of system
            // calls, and run it at each exit.
            thread::prepare(ThreadKind::Main)();
            drop(closed);
            Ok(())
        })?;
        let first = first.into_inner();
        // Without vCPUs there is no outcome.
        first.unwrap_or(Ok(Stop::Halted))
    }
}
