//! Sequential consistency and x86-TSO: global orders without a cycle.
//!
//! The events of a task form two chains: what it executes (reads, fences) and what it commits to memory (writes, fences).
//! Under SC each access is in both; under TSO a write is executed into a store buffer and committed later, so that only
//! fences and read-modify-writes are in both. A graph can happen if the chains, the order from each read to the later
//! writes of its task, `rf` between tasks, `co` and `rb` have no cycle together; and if, under TSO, no read misses an
//! earlier write of the same task. Each event has a vector clock over the chains; an edge into an event's past is a cycle.

use super::{Model, Places, readers_of};
use crate::graph::{Event, Graph, INIT, Id, Kind, Order, TASKS};

type Chains = [u16; 2 * TASKS];

fn execution(task: u8) -> usize {
    2 * usize::from(task)
}

fn commit(task: u8) -> usize {
    2 * usize::from(task) + 1
}

fn join(mine: &mut Chains, theirs: &Chains) -> bool {
    let mut grew = false;
    for (mine, theirs) in mine.iter_mut().zip(theirs) {
        grew |= *theirs > *mine;
        *mine = (*mine).max(*theirs);
    }
    grew
}

fn executes(model: Model, event: &Event) -> bool {
    match event.kind {
        Kind::Read | Kind::Fence => true,
        Kind::Write => model == Model::Sc || event.exclusive || event.order == Order::SeqCst,
        Kind::Init | Kind::Choice(_) => false,
    }
}

fn commits(model: Model, event: &Event) -> bool {
    match event.kind {
        Kind::Write | Kind::Fence => true,
        Kind::Read => model == Model::Sc || event.exclusive,
        Kind::Init | Kind::Choice(_) => false,
    }
}

/// The clock of what precedes an event through its own task alone.
fn past(model: Model, graph: &Graph, event: &Event) -> Chains {
    let mut past = Chains::default();
    let commits_too = commits(model, event);
    let (mut executed, mut committed) = (false, !commits_too);
    let mut at = event.prev;
    while at != INIT && !(executed && committed) {
        let before = graph.event(at);
        let (executes, commits) = (executes(model, before), commits(model, before));
        if (executes && !executed) || (commits && !committed) {
            join(&mut past, &before.views.chains);
        }
        executed |= executes;
        committed |= commits;
        at = before.prev;
    }
    past
}

/// Returns whether a write is in the past that a clock describes.
fn precedes(graph: &Graph, write: Id, clock: &Chains) -> bool {
    let write = graph.event(write);
    let chain = commit(write.task);
    write.views.chains[chain] <= clock[chain]
}

fn join_sources(graph: &Graph, read: &Event, past: &mut Chains) {
    for &source in &read.rf[..usize::from(read.span.atoms)] {
        let write = graph.event(source);
        if source != INIT && write.task != read.task {
            join(past, &write.views.chains);
        }
    }
}

/// Whether a read misses an earlier write of the same task.
fn misses_own(graph: &Graph, read: &Event) -> bool {
    read.span.range().any(|atom| {
        let co = &graph.co[atom];
        let own = co.iter().rposition(|&write| {
            let event = graph.event(write);
            write != INIT && event.task == read.task && event.index < read.index
        });
        own.is_some_and(|own| graph.position(atom, graph.source(read, atom)) < own)
    })
}

pub(super) fn may_read(model: Model, graph: &Graph, read: &Event) -> bool {
    if misses_own(graph, read) {
        return false;
    }
    let mut past = past(model, graph, read);
    join_sources(graph, read, &mut past);
    read.span.range().all(|atom| {
        let next = graph.co_next(atom, graph.source(read, atom));
        next.is_none_or(|next| !precedes(graph, next, &past))
    })
}

/// The clock of what precedes a write at these places.
fn past_of_write(
    model: Model,
    graph: &Graph,
    write: &Event,
    before: impl Fn(usize) -> Id,
) -> Chains {
    let mut past = past(model, graph, write);
    for atom in write.span.range() {
        let before = before(atom);
        if before != INIT {
            join(&mut past, &graph.event(before).views.chains);
        }
        for read in readers_of(graph, &graph.readers[atom], atom, before) {
            join(&mut past, &graph.event(read).views.chains);
        }
    }
    past
}

pub(super) fn may_write(model: Model, graph: &Graph, write: &Event, places: &Places) -> bool {
    let first = usize::from(write.span.first);
    let past = past_of_write(model, graph, write, |atom| {
        graph.co[atom][places[atom - first] - 1]
    });
    write.span.range().all(|atom| {
        let next = graph.co[atom].get(places[atom - first]);
        next.is_none_or(|&next| !precedes(graph, next, &past))
    })
}

pub(super) fn add(model: Model, graph: &mut Graph, id: Id) {
    let event = graph.event(id);
    let mut chains = match event.kind {
        Kind::Write => past_of_write(model, graph, event, |atom| {
            graph.co[atom][graph.position(atom, id) - 1]
        }),
        _ => past(model, graph, event),
    };
    if event.kind == Kind::Read {
        join_sources(graph, event, &mut chains);
    }
    for (chain, member) in [
        (execution(event.task), executes(model, event)),
        (commit(event.task), commits(model, event)),
    ] {
        chains[chain] += u16::from(member);
    }
    graph.event_mut(id).views.chains = chains;
    let mut changed = vec![id];
    while let Some(id) = changed.pop() {
        let chains = graph.event(id).views.chains;
        for next in successors(model, graph, id) {
            if join(&mut graph.event_mut(next).views.chains, &chains) {
                changed.push(next);
            }
        }
    }
}

/// The events that directly follow an event in the global order.
fn successors(model: Model, graph: &Graph, id: Id) -> Vec<Id> {
    let event = graph.event(id);
    let mut found = Vec::new();
    let (executed, committed) = (executes(model, event), commits(model, event));
    // The next event of each chain; a read also precedes the later writes.
    let (mut execution, mut commit) = (executed, executed || committed);
    for &later in &graph.tasks[usize::from(event.task)][usize::from(event.index) + 1..] {
        let next = graph.event(later);
        let (executes, commits) = (executes(model, next), commits(model, next));
        if (execution && executes) || (commit && commits) {
            found.push(later);
        }
        execution &= !executes;
        commit &= !commits;
        if !execution && !commit {
            break;
        }
    }
    for atom in event.span.range() {
        match event.kind {
            Kind::Write => {
                found.extend(graph.co_next(atom, id));
                let readers = readers_of(graph, &graph.readers[atom], atom, id);
                found.extend(readers.filter(|&read| graph.event(read).task != event.task));
            }
            Kind::Read => found.extend(graph.co_next(atom, graph.source(event, atom))),
            _ => {}
        }
    }
    found
}

pub(super) fn rebuild(model: Model, graph: &mut Graph) -> bool {
    let ids = || 1..Id::try_from(graph.events.len()).unwrap_or(Id::MAX);
    let reads = ids().filter(|&id| graph.event(id).kind == Kind::Read);
    if reads
        .into_iter()
        .any(|id| misses_own(graph, graph.event(id)))
    {
        return false;
    }
    let edges: Vec<Vec<Id>> = std::iter::once(Vec::new())
        .chain(ids().map(|id| successors(model, graph, id)))
        .collect();
    let mut waits_for = vec![0_u16; graph.events.len()];
    for &next in edges.iter().flatten() {
        waits_for[usize::from(next)] += 1;
    }
    for task in 0..TASKS {
        let mut count = [0_u16; 2];
        for at in 0..graph.tasks[task].len() {
            let event = graph.event_mut(graph.tasks[task][at]);
            count[0] += u16::from(executes(model, event));
            count[1] += u16::from(commits(model, event));
            let mut chains = Chains::default();
            if executes(model, event) {
                chains[execution(event.task)] = count[0];
            }
            if commits(model, event) {
                chains[commit(event.task)] = count[1];
            }
            event.views.chains = chains;
        }
    }
    let mut ready: Vec<Id> = (1..Id::try_from(graph.events.len()).unwrap_or(Id::MAX))
        .filter(|&id| waits_for[usize::from(id)] == 0)
        .collect();
    let mut done = 0;
    while let Some(id) = ready.pop() {
        done += 1;
        let chains = graph.event(id).views.chains;
        for &next in &edges[usize::from(id)] {
            join(&mut graph.event_mut(next).views.chains, &chains);
            waits_for[usize::from(next)] -= 1;
            if waits_for[usize::from(next)] == 0 {
                ready.push(next);
            }
        }
    }
    done + 1 == graph.events.len()
}
