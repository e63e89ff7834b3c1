//! Memory models: which graphs can happen.
//!
//! Each model is a set of axioms over `po`, `rf`, `co` and `rb` (the inverse of `rf`, then `co`), as published:
//! sequential consistency; x86-TSO as in herd's `x86tso.cat`; RC11 of Lahav et al., "Repairing sequential consistency in
//! C/C++11" (PLDI 2017). Where accesses of several widths meet, an access is one event on all of its atoms, so that no
//! model tears the access.

mod rc11;
mod total;

pub(crate) use rc11::SC_EVENTS;

use std::fmt;

use crate::graph::{Event, Graph, INIT, Id, Kind, List, Order, WIDTH};

/// A memory model. Each model allows everything that the models before it allow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Model {
    /// Sequential consistency: one order of all accesses.
    Sc,
    /// x86-TSO: each task has a store buffer.
    Tso,
    /// RC11: the orderings of C11, Rust and Linux's atomics, without reads from later writes (`po` and `rf` are acyclic).
    Rc11,
}

impl fmt::Display for Model {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Model::Sc => "SC",
            Model::Tso => "TSO",
            Model::Rc11 => "RC11",
        })
    }
}

/// The positions of a write in the coherence orders of its atoms.
pub(crate) type Places = [usize; WIDTH];

impl Model {
    /// Returns whether a fence of this order has an effect in the model. If it has none, it is not an event.
    pub(crate) fn has_fence(self, order: Order) -> bool {
        match self {
            Model::Sc => false,
            Model::Tso => order == Order::SeqCst,
            Model::Rc11 => order != Order::Relaxed,
        }
    }

    /// The writes that the last read of a task can read its atoms from; the newest first.
    pub(crate) fn sources(self, graph: &Graph, read: &Event) -> Vec<[Id; WIDTH]> {
        let mut found = Vec::new();
        combine_sources(graph, &mut read.clone(), 0, &mut |read| {
            if self.may_read(graph, read) {
                found.push(read.rf);
            }
        });
        found
    }

    /// Returns whether a read of several atoms with these sources can be added at the end of its task.
    pub(crate) fn may_read_parts(self, graph: &Graph, read: &Event) -> bool {
        let atoms = usize::from(read.span.atoms);
        !(1..atoms).any(|at| tears(graph, read, at)) && self.may_read(graph, read)
    }

    /// Returns whether a read with chosen sources can be added at the end of its task.
    fn may_read(self, graph: &Graph, read: &Event) -> bool {
        match self {
            Model::Sc | Model::Tso => total::may_read(self, graph, read),
            Model::Rc11 => rc11::may_read(graph, read),
        }
    }

    /// The possible places of a write that is the last event of its task; the newest first.
    pub(crate) fn places(self, graph: &Graph, write: &Event) -> Vec<Places> {
        let mut found = Vec::new();
        let mut places = [0; WIDTH];
        combine_places(graph, write, 0, &mut places, &mut |places| {
            let may = match self {
                Model::Sc | Model::Tso => total::may_write(self, graph, write, places),
                Model::Rc11 => rc11::may_write(graph, write, places),
            };
            if may {
                found.push(*places);
            }
        });
        found
    }

    /// Computes what the model stores about an event that was just added, once the event's place is known.
    pub(crate) fn add(self, graph: &mut Graph, id: Id) {
        match self {
            Model::Sc | Model::Tso => total::add(self, graph, id),
            Model::Rc11 => rc11::add(graph, id),
        }
    }

    /// Computes what the model stores about all events of a graph that was changed in the middle. Returns false if the
    /// graph cannot happen.
    pub(crate) fn rebuild(self, graph: &mut Graph) -> bool {
        exclusives_are_atomic(graph)
            && match self {
                Model::Sc | Model::Tso => total::rebuild(self, graph),
                Model::Rc11 => rc11::rebuild(graph),
            }
    }
}

/// Lists the places of a write that atomicity allows: nothing comes between a read-modify-write and the write it read.
pub(crate) fn combine_places(
    graph: &Graph,
    write: &Event,
    at: usize,
    places: &mut Places,
    found: &mut impl FnMut(&Places),
) {
    if at == usize::from(write.span.atoms) {
        found(places);
        return;
    }
    let atom = usize::from(write.span.first) + at;
    let co = &graph.co[atom];
    let range = if write.exclusive {
        let source = graph.source(graph.event(write.prev), atom);
        let after = graph.position(atom, source) + 1;
        after..=after
    } else {
        1..=co.len()
    };
    for place in range.rev() {
        if co
            .get(place)
            .is_none_or(|&next| !graph.event(next).exclusive)
        {
            places[at] = place;
            combine_places(graph, write, at + 1, places, found);
        }
    }
}

/// Lists the sources of a read that do not tear a write; the newest first.
pub(crate) fn combine_sources(
    graph: &Graph,
    read: &mut Event,
    at: usize,
    found: &mut impl FnMut(&Event),
) {
    if at == usize::from(read.span.atoms) {
        found(read);
        return;
    }
    let atom = usize::from(read.span.first) + at;
    for &write in graph.co[atom].iter().rev() {
        read.rf[at] = write;
        if !tears(graph, read, at) {
            combine_sources(graph, read, at + 1, found);
        }
    }
}

/// Returns whether a read would see only a part of a write: the write at the last chosen atom but an older value at an
/// earlier atom, or vice versa.
fn tears(graph: &Graph, read: &Event, at: usize) -> bool {
    let first = usize::from(read.span.first);
    let older = |writer: usize, other: usize| {
        let write = read.rf[writer];
        write != INIT
            && graph.event(write).span.covers(first + other)
            && graph.position(first + other, read.rf[other]) < graph.position(first + other, write)
    };
    (0..at).any(|before| older(at, before) || older(before, at))
}

/// Returns whether each read-modify-write directly follows the write that it read from.
fn exclusives_are_atomic(graph: &Graph) -> bool {
    graph.co.iter().enumerate().all(|(atom, co)| {
        co.windows(2).all(|pair| {
            let write = graph.event(pair[1]);
            !write.exclusive || graph.source(graph.event(write.prev), atom) == pair[0]
        })
    })
}

/// The reads of an atom that read from `write`.
pub(crate) fn readers_of<'a>(
    graph: &'a Graph,
    readers: &'a List,
    atom: usize,
    write: Id,
) -> impl Iterator<Item = Id> + 'a {
    readers.iter().copied().filter(move |&read| {
        let event = graph.event(read);
        event.kind == Kind::Read && graph.source(event, atom) == write
    })
}
