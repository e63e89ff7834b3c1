//! Notify scenarios: from the guest's store to the consumer's first instruction, one notification at a time.

use std::sync::Arc;
use std::time::Instant;

use vm_memory::{Bytes, GuestAddress, GuestMemoryMmap};

use super::case::PathCase;
use super::guest::{GuestScenario, ScenarioGuest};
use super::path::{RingConsumer, RingInstruction, VALUE};
use super::wiring::attach;
use crate::affinity;
use crate::subject::nanoseconds;
use crate::{RunSample, SubjectError, SubjectOptions, TickClock};
use vmbell::doorbell::Sharing;
use vmbell::sync::Mutex;
use vmbell_devices::{Hook, Listener, WordPoller};
use vmbell_guest::{PARAMETERS, Parameters, offset};
use vmbell_hypervisor::{Doorbell, Hypervisor};

/// How long the guest waits before each notification: long enough for a consumer to fall asleep.
const PAUSE_NS: f64 = 30_000.0;

/// A notify scenario.
pub(super) struct NotifyScenario {
    path: RingInstruction,
    guest: ScenarioGuest,
    heard: Arc<Ear>,
    consumer: Consumer,
}

/// The consumer of the notifications.
enum Consumer {
    /// The device model, on the vCPU's thread.
    Device,
    /// A thread that sleeps in `read`. It ends when this value is dropped.
    Listener {
        // Dropped first, before the thread ends.
        _doorbell: Doorbell,
        _listener: Listener,
    },
    /// A thread that polls. It exists only during a run, because otherwise it would disturb other subjects on its CPU.
    Poller,
}

/// Records the time at which a notification arrives, and lets the guest continue.
struct Ear {
    memory: GuestMemoryMmap,
    ticks: Mutex<Vec<u64>>,
}

impl Ear {
    fn hear(&self) {
        let now = TickClock::now();
        let field = |offset: usize| GuestAddress(PARAMETERS.0 + offset as u64);
        // The page is RAM for as long as the guest exists; a failed read would show as wrong counts.
        let stamp = self
            .memory
            .read_obj::<u64>(field(offset::STAMP))
            .unwrap_or(now);
        let rings = self
            .memory
            .read_obj::<u64>(field(offset::RINGS))
            .unwrap_or_default();
        self.ticks.lock().push(now.saturating_sub(stamp));
        let _ = self.memory.store(
            rings,
            field(offset::ANSWERED),
            std::sync::atomic::Ordering::Release,
        );
    }
}

impl NotifyScenario {
    pub(super) fn new(
        hypervisor: &dyn Hypervisor,
        name: &str,
        case: PathCase,
        options: &SubjectOptions,
    ) -> Result<Self, SubjectError> {
        let PathCase { path, bell, .. } = case;
        let program = path
            .notify_program()
            .ok_or_else(|| SubjectError::Skipped("nothing above the kernel is notified".into()))?;
        let guest = ScenarioGuest::new(
            hypervisor,
            name,
            program,
            case,
            vec![options.first_cpu()],
            options,
        )?;
        let heard = Arc::new(Ear {
            memory: guest.machine.vm().memory().clone(),
            ticks: Mutex::default(),
        });
        let ear = Arc::clone(&heard);
        let consumer = match bell.datamatch(path) {
            Some(datamatch) => {
                let setup = pin_to(guest.other_cpu);
                let listener = Listener::start(setup, move || {
                    ear.hear();
                    false
                })
                .map_err(|error| guest.failed(error))?;
                let vm = guest.machine.vm();
                let (event, address) = (listener.event(), path.address());
                let doorbell = vm
                    .register_ioevent(event, address, datamatch, Sharing::Exclusive)
                    .map_err(|error| guest.failed(error))?;
                Consumer::Listener {
                    _doorbell: doorbell,
                    _listener: listener,
                }
            }
            None if bell == RingConsumer::Polled => Consumer::Poller,
            None => {
                attach(
                    &guest.machine,
                    path.address(),
                    Arc::new(Hook(move || ear.hear())),
                )
                .map_err(|error| guest.failed(error))?;
                Consumer::Device
            }
        };
        Ok(Self {
            path,
            guest,
            heard,
            consumer,
        })
    }

    fn poller(&self) -> std::io::Result<Option<WordPoller>> {
        if !matches!(self.consumer, Consumer::Poller) {
            return Ok(None);
        }
        let (watched, ear) = (self.heard.memory.clone(), Arc::clone(&self.heard));
        let word = GuestAddress(PARAMETERS.0 + offset::WORD as u64);
        let load = move || {
            watched
                .load(word, std::sync::atomic::Ordering::Acquire)
                .unwrap_or_default()
        };
        WordPoller::start(pin_to(self.guest.other_cpu), load, move |_: u64| ear.hear()).map(Some)
    }
}

/// Returns what a consumer's thread does first: it pins itself to `cpu`.
pub(super) fn pin_to(cpu: usize) -> impl FnOnce() + Send + 'static {
    move || affinity::prefer(cpu)
}

impl GuestScenario for NotifyScenario {
    fn guest(&self) -> &ScenarioGuest {
        &self.guest
    }

    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "latencies and run times are far below 2^53 ns and not negative"
    )]
    fn measure(&mut self, ops: u64) -> Result<RunSample, SubjectError> {
        let poller = self.poller().map_err(|error| self.guest.failed(error))?;
        let address = self.path.address().value();
        let pause = self.guest.clock.ticks(PAUSE_NS) as u64;
        let started = Instant::now();
        let run = self.guest.run(&Parameters {
            count: ops,
            address,
            value: VALUE.into(),
            pause,
        })?;
        let elapsed_ns = nanoseconds(started.elapsed());
        drop(poller);
        let ticks = std::mem::take(&mut *self.heard.ticks.lock());
        self.guest.agree("the consumer", ticks.len() as u64, ops)?;
        Ok(RunSample {
            latencies_ns: self.guest.clock.latencies(ticks),
            ..run.sample(ops, elapsed_ns)
        })
    }
}
