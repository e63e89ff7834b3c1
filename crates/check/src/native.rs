//! Runs the tasks of a scenario natively: on separate threads, without instrumentation.
//! A run can show on the real CPU a failure that a model predicts: all tasks sleep, and no signal is pending. Sleeping
//! tasks spin, because a wake-up by the kernel takes longer than the races last. A run without a hang proves nothing.
#![allow(unsafe_code)]

use std::cell::RefCell;
use std::fmt;
use std::panic::{self, AssertUnwindSafe};
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::error::Error;
use crate::search::{Access, Spec};
use crate::task::Ended;

/// How long all tasks must sleep, without a pending signal, to count as hung.
const PATIENCE: Duration = Duration::from_secs(2);

thread_local! {
    static CURRENT: RefCell<Option<Running>> = const { RefCell::new(None) };
}

/// What a native run showed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Witness {
    /// How many times the scenario ran to its end.
    pub rounds: u64,
    /// The tasks that had to return and slept forever, if the last round hung.
    pub hung: Option<Vec<String>>,
}

/// How a round went.
enum Went {
    /// All tasks that have to return have returned.
    Through,
    /// These tasks have not returned, and can never continue.
    Hung(Vec<String>),
    /// The round did not end in time.
    TooLong,
}

/// One round of a scenario.
#[derive(Debug)]
struct Round {
    /// The address and the length of the first mapping: the offsets of bells follow it.
    base: usize,
    len: usize,
    words: Vec<AtomicU64>,
    /// For each task: the word for which it sleeps, plus 1; 0 while it runs; or `RETURNED`.
    sleeps: Vec<AtomicU32>,
    /// For each task, the bits of that word which wake it.
    awaits: Vec<AtomicU64>,
    /// Signals and wake-ups.
    steps: AtomicU64,
    over: AtomicBool,
}

const RETURNED: u32 = u32::MAX;

/// A task on this thread.
#[derive(Clone)]
struct Running {
    round: Arc<Round>,
    task: usize,
}

/// Calls `f` with the task that this thread runs natively, if there is one.
fn with<R>(f: impl FnOnce(&Running) -> R) -> Option<R> {
    let running = CURRENT.with_borrow(Clone::clone)?;
    Some(f(&running))
}

/// Reads and perhaps changes a word, as one atomic step. Returns `None` if no task runs natively on this thread.
pub(crate) fn update(access: Access, change: impl Fn(u64) -> Option<u64>) -> Option<u64> {
    with(|running| {
        if access.awaits == 0 {
            running.perform(access, Op::Update(&change))
        } else {
            running.wait(access, &change)
        }
    })
}

/// Loads a value. Returns `None` if no task runs natively on this thread.
pub(crate) fn load(access: Access) -> Option<u64> {
    with(|running| running.perform(access, Op::Load))
}

/// Stores a value. Returns `None` if no task runs natively on this thread.
pub(crate) fn store(access: Access, value: u64) -> Option<()> {
    with(|running| {
        running.perform(access, Op::Store(value));
    })
}

/// Whether a task runs natively on this thread.
pub(crate) fn inside() -> bool {
    CURRENT.with_borrow(Option::is_some)
}

/// An operation on a value of the shared memory.
#[derive(Clone, Copy)]
enum Op<'a> {
    Load,
    Store(u64),
    Update(&'a dyn Fn(u64) -> Option<u64>),
}

/// Performs an [`Op`] with an atomic of one type.
macro_rules! perform {
    ($type:ty, $atomic:ty, $address:expr, $op:expr) => {{
        // SAFETY: `Memory` checks that the access is within the shared memory, which is mapped while tasks run.
        let word = unsafe { <$atomic>::from_ptr(ptr::with_exposed_provenance_mut($address)) };
        #[allow(clippy::cast_possible_truncation, reason = "the value has the size of the access")]
        match $op {
            Op::Load => u64::from(word.load(Ordering::Acquire)),
            Op::Store(value) => {
                word.store(value as $type, Ordering::Release);
                value
            }
            Op::Update(change) => {
                let change = |old| change(u64::from(old)).map(|new| new as $type);
                match word.fetch_update(Ordering::AcqRel, Ordering::Acquire, change) {
                    Ok(old) | Err(old) => u64::from(old),
                }
            }
        }
    }};
}

impl Running {
    fn perform(&self, access: Access, op: Op) -> u64 {
        let offset = usize::from(access.offset);
        if let Some(at) = offset.checked_sub(self.round.len) {
            self.round.steps.fetch_add(1, Ordering::Relaxed);
            let address = self.round.words[at / 8].as_ptr().expose_provenance();
            return perform!(u64, AtomicU64, address, op);
        }
        let address = self.round.base + offset;
        match access.size {
            1 => perform!(u8, AtomicU8, address, op),
            2 => perform!(u16, AtomicU16, address, op),
            4 => perform!(u32, AtomicU32, address, op),
            _ => perform!(u64, AtomicU64, address, op),
        }
    }

    /// Spins until a bell of the word rings.
    fn wait(&self, access: Access, change: &dyn Fn(u64) -> Option<u64>) -> u64 {
        let at = (usize::from(access.offset) - self.round.len) / 8;
        let word = &self.round.words[at];
        let sleeps = &self.round.sleeps[self.task];
        self.round.awaits[self.task].store(access.awaits, Ordering::Relaxed);
        sleeps.store(u32::try_from(at + 1).unwrap_or(RETURNED), Ordering::Release);
        loop {
            let value = word.load(Ordering::Acquire);
            if value & access.awaits != 0
                && word
                    .compare_exchange(
                        value,
                        change(value).unwrap_or(value),
                        Ordering::AcqRel,
                        Ordering::Acquire,
                    )
                    .is_ok()
            {
                sleeps.store(0, Ordering::Release);
                self.round.steps.fetch_add(1, Ordering::Relaxed);
                return value;
            }
            if self.round.over.load(Ordering::Relaxed) {
                end();
            }
            std::hint::spin_loop();
        }
    }
}

fn end() -> ! {
    panic::resume_unwind(Box::new(Ended));
}

/// The tasks of a round, each for one thread.
struct Body(Box<dyn FnOnce()>);

// SAFETY: the caller of `Explorer::native` vouches that the tasks share nothing that only one thread may use.
unsafe impl Send for Body {}

/// Runs one round.
fn run(base: usize, len: usize, words: usize, specs: Vec<Spec>, until: Instant) -> Went {
    let round = Arc::new(Round {
        base,
        len,
        words: (0..words).map(|_| AtomicU64::new(0)).collect(),
        sleeps: specs.iter().map(|_| AtomicU32::new(0)).collect(),
        awaits: specs.iter().map(|_| AtomicU64::new(0)).collect(),
        steps: AtomicU64::new(0),
        over: AtomicBool::new(false),
    });
    let tasks: Vec<(String, bool)> = specs
        .iter()
        .map(|spec| (spec.name.clone(), spec.must))
        .collect();
    let threads: Vec<_> = specs
        .into_iter()
        .enumerate()
        .map(|(task, spec)| {
            let (round, body) = (round.clone(), Body(spec.body));
            thread::spawn(move || {
                let body = body;
                CURRENT.set(Some(Running {
                    round: round.clone(),
                    task,
                }));
                let result = panic::catch_unwind(AssertUnwindSafe(body.0));
                CURRENT.set(None);
                round.sleeps[task].store(RETURNED, Ordering::Release);
                if let Err(payload) = result
                    && !payload.is::<Ended>()
                {
                    panic::resume_unwind(payload);
                }
            })
        })
        .collect();
    let went = watch(&round, &tasks, until);
    round.over.store(true, Ordering::Relaxed);
    for thread in threads {
        if let Err(payload) = thread.join() {
            panic::resume_unwind(payload);
        }
    }
    went
}

/// Waits until all tasks that have to return have returned, or hang.
fn watch(round: &Round, tasks: &[(String, bool)], until: Instant) -> Went {
    let (mut last, mut since) = (0, Instant::now());
    loop {
        let states: Vec<u32> = round
            .sleeps
            .iter()
            .map(|state| state.load(Ordering::Acquire))
            .collect();
        let must = || {
            tasks
                .iter()
                .zip(&states)
                .filter(|((_, must), state)| *must && **state != RETURNED)
        };
        if must().next().is_none() {
            return Went::Through;
        }
        let steps = round.steps.load(Ordering::Relaxed);
        let asleep = states.iter().zip(&round.awaits).all(|(&state, awaits)| {
            let word = (state as usize).checked_sub(1);
            word.is_some_and(|at| match round.words.get(at) {
                Some(word) => word.load(Ordering::Acquire) & awaits.load(Ordering::Relaxed) == 0,
                None => state == RETURNED,
            })
        });
        if steps != last || !asleep {
            (last, since) = (steps, Instant::now());
            // A round that does not end in time is not a hang.
            if since > until {
                return Went::TooLong;
            }
        } else if since.elapsed() > PATIENCE {
            return Went::Hung(must().map(|((name, _), _)| name.clone()).collect());
        }
        thread::sleep(Duration::from_micros(50));
    }
}

/// Runs rounds of a scenario for this time, or until a round hangs.
pub(crate) fn witness(
    base: usize,
    len: usize,
    time: Duration,
    mut set_up: impl FnMut() -> Result<(Vec<Spec>, usize), Error>,
) -> Result<Witness, Error> {
    let until = Instant::now() + time;
    let mut witness = Witness {
        rounds: 0,
        hung: None,
    };
    while Instant::now() < until && witness.hung.is_none() {
        let (specs, words) = set_up()?;
        match run(base, len, words, specs, until) {
            Went::Through => witness.rounds += 1,
            Went::Hung(tasks) => witness.hung = Some(tasks),
            Went::TooLong => {}
        }
    }
    Ok(witness)
}

impl fmt::Display for Witness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.hung {
            None => write!(
                f,
                "native: {} rounds, and none hung, which is no proof",
                self.rounds
            ),
            Some(tasks) => write!(
                f,
                "native: {} can never go on, after {} rounds",
                tasks.join(" and "),
                self.rounds
            ),
        }
    }
}
