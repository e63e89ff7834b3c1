//! The search: every execution graph of a scenario that a memory model allows, each once.
//!
//! The algorithm is TruSt (Kokologiannakis, Marmanis, Gladstein, Vafeiadis, "Truly stateless, optimal dynamic partial
//! order reduction", POPL 2022). A graph grows event by event. A read branches over the writes that it can read from; a
//! write branches over its places in the coherence order, and revisits reads that were added before it. A revisit drops
//! events that the search will add again in the same way. This rule lets each revisit happen from one graph only. No
//! state is cached, and the work list is short. A graph on the list is replayed: its tasks run again and get the
//! recorded values.

mod access;
mod events;
mod orders;
mod replay;
mod revisit;
mod spin;
mod swap;

pub use orders::Operation;
pub(crate) use orders::{CallSite, Changes, Met, Orders};
pub(crate) use swap::Pair;

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use crate::error::Error;
use crate::graph::{Atoms, Event, Graph, Id, Order};
use crate::memory::Mapping;
use crate::model::Model;
use crate::names::Names;
use crate::task::{Crash, Running};

/// One access to shared memory or to the word of a bell.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Access {
    pub(crate) offset: u16,
    /// The number of bytes: 1, 2, 4 or 8.
    pub(crate) size: u8,
    /// The memory order; for a compare-exchange, its success order.
    pub(crate) order: Order,
    /// The value that a compare-exchange expects, and its failure order.
    pub(crate) compare: Option<(u64, Order)>,
    /// The read waits for a value with one of these bits; 0 for any value.
    pub(crate) awaits: u64,
    /// The return address of the hook.
    pub(crate) site: usize,
}

impl Access {
    /// An access that takes any value.
    pub(crate) fn new(offset: u16, size: u8, order: Order, site: usize) -> Access {
        Access {
            offset,
            size,
            order,
            compare: None,
            awaits: 0,
            site,
        }
    }
}

/// Why a step does not return.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// The step waits: it is repeated when the task is resumed.
    Blocked,
    /// The execution is over.
    Ended,
}

/// The limits at which a search stops early.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) time: Duration,
    pub(crate) executions: u64,
    /// Steps of all tasks in one execution.
    pub(crate) events: usize,
    /// Bytes of the work list.
    pub(crate) memory: usize,
}

/// What was searched.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Stats {
    /// Executions that were explored to the end.
    pub(crate) executions: u64,
    /// Executions that turned out to be impossible, such as when two tasks took the same signal.
    pub(crate) dropped: u64,
    /// The maximum number of events of an execution.
    pub(crate) events: usize,
    pub(crate) elapsed: Duration,
    /// Tasks that could not unwind at the end of an execution, and leaked what they owned.
    pub(crate) leaked: u64,
    /// The maximum number of wake-ups in one execution that found nothing to do.
    pub(crate) spurious: u32,
}

/// A task as a scenario declares it.
pub(crate) struct Spec {
    pub(crate) name: String,
    pub(crate) must: bool,
    pub(crate) body: Box<dyn FnOnce()>,
}

/// One set-up of a scenario.
pub(crate) struct SetUp {
    pub(crate) tasks: Vec<Spec>,
    pub(crate) names: Names,
}

/// Why a task does not run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Ready,
    /// The task waits for a value with one of the bits of `mask`.
    Waits {
        offset: u16,
        mask: u64,
    },
    /// The task repeats these reads, and there is no newer value for any of them.
    Spins(Vec<Id>),
    /// The task waits for a lock that this compare-exchange found taken. What the task does with the lock is explored
    /// where the compare-exchange reads from the unlock.
    Locked(Id),
    /// The task replays, and its next event comes after an event that another task has not replayed yet.
    Behind,
    /// The task's read-modify-write has no place: another one already follows the write that it read.
    Impossible,
    Done,
    /// The task panicked or crashed, with this message.
    Failed(String),
}

pub(crate) struct Task {
    pub(crate) name: String,
    /// Whether the scenario expects the task to return.
    pub(crate) must: bool,
    body: Option<Box<dyn FnOnce()>>,
    running: Option<Running>,
    pub(crate) state: State,
    /// How many of the task's events it has replayed or added.
    cursor: usize,
    /// The plain stores that a hook announced: their values are in memory at the next step.
    announced: Vec<Access>,
    /// The place of the announced stores in the code under test, if the stores can be moved.
    announced_at: Option<CallSite>,
    /// The announced stores that are not events yet, with their values.
    stored: Vec<(Access, u64)>,
    /// The return addresses on the stack when the stores were announced, if they are recorded.
    announced_by: Vec<usize>,
    /// The reads since the task's last step of another kind, to detect that the task spins.
    reads: Vec<Id>,
    /// The sites of weak compare-exchanges that the task has already failed for no reason.
    failed: Vec<usize>,
    /// The stores that the task's next access may be paired with.
    window: swap::Window,
    /// The store that an order mutant holds back.
    held: Option<swap::Held>,
    site: usize,
}

impl Task {
    /// Returns whether the task had to return and has not returned.
    pub(crate) fn is_stuck(&self) -> bool {
        self.must && self.state != State::Done
    }
}

/// What went wrong in an execution.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Wrong {
    /// Tasks that had to return have not returned.
    Stuck,
    Panic(String),
    Crash {
        task: String,
        crash: Crash,
    },
    /// The scenario's own claim.
    Claim(String),
}

/// The work of one exploration: one scenario under one model.
pub(crate) struct Search {
    pub(crate) model: Model,
    pub(crate) mapping: Mapping,
    pub(crate) atoms: Atoms,
    /// The shared memory before the tasks run, then the words of the bells.
    pub(crate) initial: Vec<u8>,
    pub(crate) graph: Graph,
    work: Vec<Graph>,
    pub(crate) tasks: Vec<Task>,
    current: usize,
    pub(crate) limits: Limits,
    pub(crate) stats: Stats,
    begun: Instant,
    /// The execution has ended: its tasks unwind, and accesses reach plain memory.
    ending: bool,
    /// The partition was refined: the search begins again.
    refined: bool,
    dropped: bool,
    pub(crate) wrong: Option<Wrong>,
    pub(crate) error: Option<Error>,
    /// Pairs of hooks that ran in succession.
    pub(crate) paths: HashSet<(usize, usize)>,
    new_path: bool,
    /// The orders of the code under test, if they are recorded or weakened.
    pub(crate) orders: Option<Orders>,
    pub(crate) strict: bool,
    /// Whether tasks replay a read only after the write that it reads from, and go on only when all have replayed.
    pub(crate) in_order: bool,
    /// Steps of code under test.
    pub(crate) hooked: u64,
    pub(crate) names: Names,
    /// Wake-ups in this execution that found nothing to do.
    pub(crate) spurious: u32,
    /// While an execution is replayed for its trace: the return addresses on the task's stack, for each event.
    pub(crate) callers: Option<HashMap<Id, Vec<usize>>>,
}

/// How an execution ended.
pub(crate) enum Execution {
    /// All tasks returned, or are allowed to wait.
    Good,
    Wrong(Wrong),
}

impl Search {
    pub(crate) fn new(model: Model, mapping: Mapping, limits: Limits) -> Search {
        let atoms = Atoms::new(u16::try_from(mapping.len()).unwrap_or(u16::MAX));
        Search {
            model,
            mapping,
            graph: Graph::new(atoms.len()),
            atoms,
            initial: Vec::new(),
            work: Vec::new(),
            tasks: Vec::new(),
            current: 0,
            limits,
            stats: Stats::default(),
            begun: Instant::now(),
            ending: false,
            refined: false,
            dropped: false,
            wrong: None,
            error: None,
            paths: HashSet::new(),
            new_path: false,
            orders: None,
            strict: false,
            in_order: false,
            hooked: 0,
            names: Names::default(),
            spurious: 0,
            callers: None,
        }
    }

    /// Explores all executions. Calls `ended` after each, and stops if it returns false. True if all are explored.
    ///
    /// # Errors
    ///
    /// If the code under test does something that cannot be explored.
    pub(crate) fn explore(
        &mut self,
        scenario: &mut dyn FnMut(&Search) -> Result<SetUp, Error>,
        ended: &mut dyn FnMut(&mut Search, Execution) -> bool,
    ) -> Result<bool, Error> {
        self.begun = Instant::now();
        self.restart();
        while let Some(graph) = self.work.pop() {
            let execution = self.run(graph, scenario)?;
            self.stats.elapsed = self.begun.elapsed();
            if self.refined {
                self.restart();
                continue;
            }
            let Some(execution) = execution else {
                self.stats.dropped += 1;
                continue;
            };
            self.stats.executions += 1;
            self.stats.spurious = self.stats.spurious.max(self.spurious);
            self.stats.events = self.stats.events.max(self.graph.events.len());
            if self.new_path || self.stats.executions == 1 {
                self.replay_guarded(scenario)?;
            }
            if let Execution::Wrong(_) = execution {
                self.replay_recorded(scenario)?;
            }
            let more = ended(self, execution);
            self.callers = None;
            if !more || self.limited() {
                return Ok(self.work.is_empty());
            }
        }
        Ok(true)
    }

    fn restart(&mut self) {
        self.refined = false;
        self.stats = Stats::default();
        self.work = vec![Graph::new(self.atoms.len())];
    }

    fn limited(&self) -> bool {
        let graphs = self.work.len() * self.stats.events * size_of::<Event>();
        self.stats.elapsed >= self.limits.time
            || self.stats.executions >= self.limits.executions
            || graphs > self.limits.memory
    }
}
