//! Where a notification is lost: between two accesses of one task, a load and a store.
//!
//! The load misses what the other task stores, and the other task misses the store: between the two accesses, the other
//! task made work available or asked to be notified, and then looked. If the load comes first, the task does not look
//! again after its store; if the store comes first, the task has no fence before the load.

use std::ops::RangeInclusive;

use crate::graph::{Graph, Id, Kind, Order};
use crate::model::Model;

/// Both accesses, as positions in a story.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Window {
    /// The load.
    look: usize,
    /// Where the store reaches memory.
    ask: usize,
}

impl Window {
    /// Whether one of the accesses is among these steps.
    pub(crate) fn is_in(self, steps: RangeInclusive<usize>) -> bool {
        steps.contains(&self.look) || steps.contains(&self.ask)
    }
}

/// Where in a story each event executes, and where each store reaches memory.
#[derive(Debug)]
pub(crate) struct Times {
    pub(crate) executed: Vec<usize>,
    pub(crate) arrived: Vec<usize>,
}

/// Finds the window in which a notification is lost. If there are several, it prefers one whose other task orders its
/// store before its load, and among those the one whose load executes last. `waits` holds for each task the word for
/// which it waits at the end.
pub(crate) fn find(
    graph: &Graph,
    model: Model,
    waits: &[Option<u16>],
    times: &Times,
) -> Option<Window> {
    let executed = |id: Id| times.executed[usize::from(id)];
    let mut best = None;
    for (task, &word) in waits.iter().enumerate() {
        for look in reads(graph, task) {
            for other in (0..waits.len()).filter(|&other| other != task) {
                let is_lost = |&work: &Id| {
                    !is_notified(graph, word, other, work) && !is_served(graph, task, look, work)
                };
                if leads_to_signal(graph, look, waits[other]) {
                    continue;
                }
                let Some(work) = missed(graph, look, other).filter(is_lost) else {
                    continue;
                };
                // The other side's first question after the work is the one about this work.
                let question = reads(graph, other)
                    .filter(|&question| graph.event(question).index > graph.event(work).index)
                    .find_map(|question| missed(graph, question, task).map(|ask| (question, ask)));
                let Some((question, ask)) = question else {
                    continue;
                };
                let rank = (is_ordered(graph, model, work, question), executed(look));
                if best.is_none_or(|(old, _)| old < rank) {
                    let window = Window {
                        look: executed(look),
                        ask: times.arrived[usize::from(ask)],
                    };
                    best = Some((rank, window));
                }
            }
        }
    }
    best.map(|(_, window)| window)
}

/// Returns whether a store of a task reaches memory before the task's later load.
fn is_ordered(graph: &Graph, model: Model, store: Id, load: Id) -> bool {
    let [first, last] = [store, load].map(|id| usize::from(graph.event(id).index));
    let task = &graph.tasks[usize::from(graph.event(store).task)];
    let is_sc = |id: Id| graph.event(id).order == Order::SeqCst;
    let is_barrier = |&id: &Id| match graph.event(id).kind {
        Kind::Fence => is_sc(id),
        _ => model == Model::Tso && graph.event(id).exclusive,
    };
    model == Model::Sc
        || task[first + 1..last].iter().any(is_barrier)
        || is_sc(store) && (model == Model::Tso || is_sc(load))
}

/// The loads of a task.
fn reads(graph: &Graph, task: usize) -> impl Iterator<Item = Id> {
    graph.tasks[task].iter().copied().filter(|&id| {
        let event = graph.event(id);
        event.kind == Kind::Read && !event.exclusive
    })
}

/// The first store of task `by` that a load does not see.
fn missed(graph: &Graph, read: Id, by: usize) -> Option<Id> {
    let read = graph.event(read);
    read.span.range().find_map(|atom| {
        let next = graph.position(atom, graph.source(read, atom)) + 1;
        let is_of_task = |&write: &Id| usize::from(graph.event(write).task) == by;
        graph.co[atom][next..].iter().copied().find(is_of_task)
    })
}

/// Returns whether a task signals this word because of what it loads.
fn leads_to_signal(graph: &Graph, read: Id, word: Option<u16>) -> bool {
    let read = graph.event(read);
    let next = graph.tasks[usize::from(read.task)].get(usize::from(read.index) + 1);
    next.is_some_and(|&next| Some(graph.event(next).span.offset) == word)
}

/// Returns whether a task signals this word after it has made the work available.
fn is_notified(graph: &Graph, word: Option<u16>, by: usize, work: Id) -> bool {
    let after = usize::from(graph.event(work).index) + 1;
    graph.tasks[by][after..].iter().any(|&id| {
        let event = graph.event(id);
        event.kind == Kind::Write && Some(event.span.offset) == word
    })
}

/// Returns whether a task sees the work after its last check, and then does something.
fn is_served(graph: &Graph, task: usize, look: Id, work: Id) -> bool {
    let own = &graph.tasks[task];
    let sees = |&id: &Id| {
        let event = graph.event(id);
        let sees_atom = |atom| {
            graph.event(work).span.covers(atom)
                && graph.position(atom, graph.source(event, atom)) >= graph.position(atom, work)
        };
        event.kind == Kind::Read && event.span.range().any(sees_atom)
    };
    let after = usize::from(graph.event(look).index) + 1;
    let Some(seen) = own[after..].iter().position(sees) else {
        return false;
    };
    let is_store = |&id: &Id| graph.event(id).kind == Kind::Write;
    own[after + seen..].iter().any(is_store)
}
