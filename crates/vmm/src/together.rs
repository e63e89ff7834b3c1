//! Runs several vCPUs, each on a thread of its own, until one of them ends the run for all.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use super::stop::{Deadline, Stop};
use super::{Machine, MachineError};
use vmbell::thread::{self, OnStart, ThreadKind};
use vmbell_hypervisor::{Kick, Vcpu};

/// Kicks all vCPUs.
#[derive(Debug)]
struct Everyone(Vec<Arc<dyn Kick>>);

impl Kick for Everyone {
    fn kick(&self) {
        self.0.iter().for_each(|vcpu| vcpu.kick());
    }
}

/// Ends the other vCPUs when it is dropped, so also when its thread panics.
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
    /// [`Stop::Kicked`]. Returns how the first vCPU ended.
    ///
    /// `until` is called every 20 ms on a thread of its own, and after each kick on the threads of the vCPUs. The guest
    /// begins when all of these threads and the calling one are prepared ([`thread::on_spawn`]).
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
        // The guest begins when the gate is opened, and that is when every thread has started.
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
                    // The kick is neither for the end of the run nor for `until`, so the vCPU goes on.
                    Ok(Stop::Kicked) if !ended.load(Ordering::Acquire) && !until() => {}
                    outcome => break outcome,
                }
            };
            first
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .get_or_insert(outcome);
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
            // After the vCPUs, whose threads would inherit a filter of system calls, and pass it at each exit.
            thread::prepare(ThreadKind::Main)();
            drop(closed);
            Ok(())
        })?;
        let first = first.into_inner().unwrap_or_else(PoisonError::into_inner);
        // Without vCPUs there is no outcome.
        first.unwrap_or(Ok(Stop::Halted))
    }
}
