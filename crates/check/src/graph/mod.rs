//! Execution graphs: the events of all tasks, which write each read reads from (`rf`), and the order of the writes to
//! each atom (`co`). A memory model says which graphs can happen; the search enumerates them.
//!
//! An event's id is its position in the order in which the search added it. Event 0 is the initial write to all memory.

mod atoms;
mod clock;

pub(crate) use atoms::{Atoms, Span};
pub(crate) use clock::{Clock, TASKS};

use smallvec::SmallVec;

/// The position of an event in its graph.
pub(crate) type Id = u16;

/// The initial write, which covers all memory and precedes everything.
pub(crate) const INIT: Id = 0;

/// The maximum number of atoms that one access covers.
pub(crate) const WIDTH: usize = 8;

/// What an event does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Init,
    Read,
    Write,
    Fence,
    /// A choice of the scenario among this number of options.
    Choice(u8),
}

/// How an access or a fence orders others: C11's `memory_order`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Order {
    /// An access that is not atomic, or is relaxed.
    Relaxed,
    /// A load, or a fence, that acquires.
    Acquire,
    /// A store, or a fence, that releases.
    Release,
    /// A read-modify-write, or a fence, that acquires and releases.
    AcqRel,
    /// Sequentially consistent.
    SeqCst,
}

impl Order {
    pub(crate) fn acquires(self) -> bool {
        matches!(self, Order::Acquire | Order::AcqRel | Order::SeqCst)
    }

    pub(crate) fn releases(self) -> bool {
        matches!(self, Order::Release | Order::AcqRel | Order::SeqCst)
    }
}

/// How a compare-exchange reads: one order if it finds the expected value and writes, another order if it does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Compare {
    pub(crate) expected: u64,
    pub(crate) success: Order,
    pub(crate) failure: Order,
}

impl Compare {
    /// The order of a read of this value.
    pub(crate) fn order(self, value: u64) -> Order {
        if value == self.expected {
            self.success
        } else {
            self.failure
        }
    }
}

/// One step of a task.
#[derive(Clone, Debug)]
pub(crate) struct Event {
    pub(crate) task: u8,
    /// The position in the task's program order.
    pub(crate) index: u16,
    /// The task's previous event in program order, or [`INIT`].
    pub(crate) prev: Id,
    pub(crate) kind: Kind,
    pub(crate) order: Order,
    /// What decides the order of a read that belongs to a compare-exchange.
    pub(crate) compare: Option<Compare>,
    /// Whether this is half of an atomic read-modify-write: the write follows its read in program order. A failed
    /// compare-exchange is only the read.
    pub(crate) exclusive: bool,
    pub(crate) span: Span,
    /// The value that is read, written or chosen.
    pub(crate) value: u64,
    /// A read that waits takes only a value with one of these bits; 0 if it takes any value.
    pub(crate) awaits: u64,
    /// For each atom of a read, the write that it reads from.
    pub(crate) rf: [Id; WIDTH],
    /// For each atom of a read, the last event in the graph when the atom's source was chosen: the read itself, unless
    /// a revisit of an earlier atom made the source be chosen again.
    pub(crate) chosen: [Id; WIDTH],
    /// The instruction after the hook, for messages; 0 if the harness itself made the access.
    pub(crate) site: usize,
    /// This event, and all that precede it in `po` and `rf`.
    pub(crate) prefix: Clock,
    /// What the model stores about the event.
    pub(crate) views: Views,
}

/// What a model stores about an event. Each model uses its own part.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Views {
    /// Sequential consistency and TSO: how many events of each task's two chains precede this event.
    pub(crate) chains: [u16; 2 * TASKS],
    /// RC11: what happens before this event.
    pub(crate) hb: Clock,
    /// RC11: what happens before a read that acquires this write.
    pub(crate) message: Clock,
    /// RC11: what the event's task has read without acquiring it.
    pub(crate) pending: Clock,
    /// RC11: what happened before the last releasing fence of the event's task.
    pub(crate) released: Clock,
}

/// The ids of events on one atom. Most atoms have few.
pub(crate) type List = SmallVec<[Id; 8]>;

/// The events and their relations.
#[derive(Clone, Debug)]
pub(crate) struct Graph {
    pub(crate) events: Vec<Event>,
    /// Program order.
    pub(crate) tasks: [Vec<Id>; TASKS],
    /// For each atom its writes, in coherence order.
    pub(crate) co: Vec<List>,
    /// For each atom its reads, in the order in which they were added.
    pub(crate) readers: Vec<List>,
    /// The task that runs next when this graph is replayed.
    pub(crate) current: u8,
    /// RC11: the sequentially consistent events, each with the set of those that it precedes in `psc`.
    pub(crate) sc: Vec<(Id, u128)>,
}

impl Graph {
    /// A graph with only the initial write.
    pub(crate) fn new(atoms: usize) -> Graph {
        let init = Event {
            task: 0,
            index: 0,
            prev: INIT,
            kind: Kind::Init,
            order: Order::Relaxed,
            compare: None,
            exclusive: false,
            span: Span::default(),
            value: 0,
            awaits: 0,
            rf: [INIT; WIDTH],
            chosen: [INIT; WIDTH],
            site: 0,
            prefix: Clock::default(),
            views: Views::default(),
        };
        Graph {
            events: vec![init],
            tasks: Default::default(),
            co: vec![List::from_slice(&[INIT]); atoms],
            readers: vec![List::new(); atoms],
            current: 0,
            sc: Vec::new(),
        }
    }

    pub(crate) fn event(&self, id: Id) -> &Event {
        &self.events[usize::from(id)]
    }

    pub(crate) fn event_mut(&mut self, id: Id) -> &mut Event {
        &mut self.events[usize::from(id)]
    }

    /// The last event of a task in program order, or [`INIT`].
    pub(crate) fn last(&self, task: u8) -> Id {
        self.tasks[usize::from(task)]
            .last()
            .copied()
            .unwrap_or(INIT)
    }

    /// The position of a write in the coherence order of an atom.
    pub(crate) fn position(&self, atom: usize, write: Id) -> usize {
        // Most such writes are near the end.
        let co = &self.co[atom];
        co.iter().rposition(|&other| other == write).unwrap_or(0)
    }

    /// The write that follows `write` in the coherence order of an atom.
    pub(crate) fn co_next(&self, atom: usize, write: Id) -> Option<Id> {
        self.co[atom].get(self.position(atom, write) + 1).copied()
    }

    /// Whether an event is in the set that a clock describes.
    pub(crate) fn within(&self, id: Id, clock: &Clock) -> bool {
        let event = self.event(id);
        event.kind == Kind::Init || clock.has(event.task, event.index)
    }

    /// The write that a read reads an atom from.
    pub(crate) fn source(&self, read: &Event, atom: usize) -> Id {
        read.rf[atom - usize::from(read.span.first)]
    }

    /// The value that an event reads, from `initial` memory and the writes in its `rf`.
    pub(crate) fn read_value(&self, read: &Event, atoms: &Atoms, initial: &[u8]) -> u64 {
        let mut value = [0; 8];
        for atom in read.span.range() {
            let bytes = atoms.bytes(atom);
            let source = self.source(read, atom);
            let to = usize::from(bytes.start - read.span.offset);
            let len = bytes.len();
            if source == INIT {
                let from = usize::from(bytes.start);
                value[to..to + len].copy_from_slice(&initial[from..from + len]);
            } else {
                let write = self.event(source);
                let from = usize::from(bytes.start - write.span.offset);
                value[to..to + len].copy_from_slice(&write.value.to_le_bytes()[from..from + len]);
            }
        }
        u64::from_le_bytes(value)
    }

    /// The events that must precede a new event in `po` and `rf`, and the event itself.
    pub(crate) fn prefix_of(&self, event: &Event) -> Clock {
        let mut prefix = Clock::default();
        if event.prev != INIT {
            prefix = self.event(event.prev).prefix;
        }
        if event.kind == Kind::Read {
            for &source in &event.rf[..usize::from(event.span.atoms)] {
                if source != INIT {
                    prefix.join(&self.event(source).prefix);
                }
            }
        }
        prefix.add(event.task, event.index);
        prefix
    }

    /// Adds an event at the end of its task, but not yet to `co`. Returns its id.
    pub(crate) fn push(&mut self, mut event: Event) -> Id {
        let id = Id::try_from(self.events.len()).unwrap_or(Id::MAX);
        event.chosen = [id; WIDTH];
        self.tasks[usize::from(event.task)].push(id);
        if event.kind == Kind::Read {
            for atom in event.span.range() {
                self.readers[atom].push(id);
            }
        }
        self.current = event.task;
        self.events.push(event);
        id
    }

    /// Inserts a write into the coherence order of each of its atoms, at the positions in `places`.
    pub(crate) fn place(&mut self, write: Id, places: &[usize]) {
        for (atom, &place) in self.event(write).span.range().zip(places) {
            self.co[atom].insert(place, write);
        }
    }

    /// The part of the graph that `keep` selects, which is closed under program order. New ids keep the old order.
    pub(crate) fn restrict(&self, keep: impl Fn(Id) -> bool) -> Graph {
        let mut new = vec![INIT; self.events.len()];
        let mut graph = Graph {
            events: Vec::with_capacity(self.events.len()),
            tasks: Default::default(),
            co: Vec::with_capacity(self.co.len()),
            readers: Vec::with_capacity(self.co.len()),
            current: self.current,
            sc: Vec::new(),
        };
        for (id, event) in (0..).zip(&self.events) {
            if id == INIT || keep(id) {
                new[usize::from(id)] = Id::try_from(graph.events.len()).unwrap_or(Id::MAX);
                graph.events.push(event.clone());
            }
        }
        // For each event, the last kept event up to it.
        let mut last = new.clone();
        for id in 1..last.len() {
            last[id] = last[id].max(last[id - 1]);
        }
        let kept = |id: Id| id == INIT || new[usize::from(id)] != INIT;
        for event in &mut graph.events {
            event.prev = new[usize::from(event.prev)];
            for (source, chosen) in event.rf.iter_mut().zip(&mut event.chosen) {
                *source = new[usize::from(*source)];
                *chosen = last[usize::from(*chosen)];
            }
        }
        let select = |list: &[Id]| -> List {
            list.iter()
                .filter(|&&id| kept(id))
                .map(|&id| new[usize::from(id)])
                .collect()
        };
        for task in 0..TASKS {
            graph.tasks[task] = select(&self.tasks[task]).into_vec();
        }
        graph.co.extend(self.co.iter().map(|list| select(list)));
        graph
            .readers
            .extend(self.readers.iter().map(|list| select(list)));
        graph
    }
}
