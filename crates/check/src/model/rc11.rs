//! RC11: happens-before, coherence, atomicity, and a partial order of the sequentially consistent events.
//!
//! A graph can happen if `hb; eco?` is irreflexive (coherence), if no write comes between a read-modify-write and what it
//! read from, and if `psc` has no cycle. `po` and `rf` have no cycle because the search adds a read after its write, so
//! load buffering does not happen; this is RC11's own choice, and hardware such as arm64 is weaker there for relaxed loads.
//! Accesses that are not atomic count as relaxed; a data race is not reported.

use super::{Places, tears};
use crate::graph::{Clock, Event, Graph, INIT, Id, Kind, Order, TASKS, Views};

/// The maximum number of sequentially consistent events that a graph can have.
pub(crate) const SC_EVENTS: usize = 127;

/// Computes what the model stores about an event from its past. A read's sources and a write's place are known.
fn views(graph: &Graph, event: &Event) -> Views {
    let mut views = Views::default();
    if event.prev != INIT {
        let prev = &graph.event(event.prev).views;
        views = Views {
            message: Clock::default(),
            ..*prev
        };
    }
    match event.kind {
        Kind::Read => {
            for &source in &event.rf[..usize::from(event.span.atoms)] {
                let message = graph.event(source).views.message;
                if event.order.acquires() {
                    views.hb.join(&message);
                } else {
                    views.pending.join(&message);
                }
            }
        }
        Kind::Fence if event.order.acquires() => views.hb.join(&views.pending),
        _ => {}
    }
    views.hb.add(event.task, event.index);
    match event.kind {
        Kind::Fence if event.order.releases() => views.released = views.hb,
        Kind::Write => views.message = message(graph, event, &views),
        _ => {}
    }
    views
}

/// Returns what happens before a read that acquires this write: the release sequences that the write continues.
fn message(graph: &Graph, write: &Event, views: &Views) -> Clock {
    let mut message = views.released;
    if write.order.releases() {
        message.join(&views.hb);
    } else if write.span.atoms > 0 {
        // Each earlier release write of the task to the same place heads a release sequence.
        for &id in &graph.co[usize::from(write.span.first)] {
            let head = graph.event(id);
            if id != INIT
                && head.task == write.task
                && head.index < write.index
                && head.order.releases()
            {
                message.join(&head.views.hb);
            }
        }
    }
    if write.exclusive {
        let read = graph.event(write.prev);
        for &source in &read.rf[..usize::from(read.span.atoms)] {
            message.join(&graph.event(source).views.message);
        }
    }
    message
}

/// Returns the oldest position in the `co` of an atom that an event with the past `hb` can still see.
fn bound(graph: &Graph, atom: usize, hb: &Clock) -> usize {
    let co = &graph.co[atom];
    let written = co
        .iter()
        .rposition(|&write| write == INIT || graph.within(write, hb))
        .unwrap_or(0);
    let readers = graph.readers[atom]
        .iter()
        .filter(|&&read| graph.within(read, hb));
    let read = readers
        .map(|&read| graph.position(atom, graph.source(graph.event(read), atom)))
        .max();
    written.max(read.unwrap_or(0))
}

fn coherent_read(graph: &Graph, read: &Event, hb: &Clock) -> bool {
    read.span
        .range()
        .all(|atom| graph.position(atom, graph.source(read, atom)) >= bound(graph, atom, hb))
}

pub(super) fn may_read(graph: &Graph, read: &Event) -> bool {
    if read.order == Order::SeqCst {
        let mut with = graph.clone();
        with.push(read.clone());
        return rebuild(&mut with);
    }
    let views = views(graph, read);
    let mut before = views.hb;
    before.0[usize::from(read.task)] = read.index;
    if !coherent_read(graph, read, &before) {
        return false;
    }
    if graph.sc.is_empty() {
        return true;
    }
    let mut after = 0;
    for atom in read.span.range() {
        let key = 2 * graph.position(atom, graph.source(read, atom)) + 1;
        after |= followers(graph, atom, key).of_fences;
    }
    psc_allows(graph, fences_within(graph, &before), after)
}

pub(super) fn may_write(graph: &Graph, write: &Event, places: &Places) -> bool {
    if write.order == Order::SeqCst {
        let mut with = graph.clone();
        let id = with.push(write.clone());
        with.place(id, places);
        return rebuild(&mut with);
    }
    let views = views(graph, write);
    let mut before = views.hb;
    before.0[usize::from(write.task)] = write.index;
    let mut after = 0;
    for (atom, &place) in write.span.range().zip(places) {
        if place <= bound(graph, atom, &before) {
            return false;
        }
        // The new write moves the writes at and after its place by one.
        after |= followers(graph, atom, 2 * place - 1).of_fences;
    }
    agrees(graph, write, places)
        && (graph.sc.is_empty() || psc_allows(graph, fences_within(graph, &before), after))
}

/// Returns whether a write to several atoms is on the same side of every other write in all atoms that they share.
fn agrees(graph: &Graph, write: &Event, places: &Places) -> bool {
    let first = usize::from(write.span.first);
    write.span.range().all(|atom| {
        graph.co[atom].iter().enumerate().all(|(position, &other)| {
            let event = graph.event(other);
            other == INIT
                || write
                    .span
                    .range()
                    .filter(|&shared| event.span.covers(shared))
                    .all(|shared| {
                        (graph.position(shared, other) < places[shared - first])
                            == (position < places[atom - first])
                    })
        })
    })
}

pub(super) fn add(graph: &mut Graph, id: Id) {
    let views = views(graph, graph.event(id));
    graph.event_mut(id).views = views;
    let event = graph.event(id);
    let mut before = views.hb;
    before.0[usize::from(event.task)] = event.index;
    if event.kind == Kind::Fence && event.order == Order::SeqCst {
        let into = sc_within(graph, &before) | preceding(graph, &before);
        add_sc(graph, id, into);
        return;
    }
    let is_sc = is_sc(event);
    if is_sc {
        let into = access_preceding(graph, id, &before);
        add_sc(graph, id, into);
    }
    if graph.sc.is_empty() {
        return;
    }
    let (mut of_fences, mut of_access) = (0, 0);
    for atom in graph.event(id).span.range() {
        let followers = followers(graph, atom, key(graph, atom, id));
        of_fences |= followers.of_fences;
        of_access |= followers.of_access;
    }
    let fences = fences_within(graph, &before);
    if fences != 0 && of_fences != 0 {
        close(graph, fences, of_fences);
    }
    if is_sc && of_access != 0 {
        close(graph, 1 << (graph.sc.len() - 1), of_access);
    }
}

/// Whether an event is a node of `psc`.
fn is_sc(event: &Event) -> bool {
    event.order == Order::SeqCst && matches!(event.kind, Kind::Read | Kind::Write | Kind::Fence)
}

/// Where an access is in an atom's extended coherence order: a write, then the reads from it, then the next write.
fn key(graph: &Graph, atom: usize, id: Id) -> usize {
    let event = graph.event(id);
    match event.kind {
        Kind::Read => 2 * graph.position(atom, graph.source(event, atom)) + 1,
        _ => 2 * graph.position(atom, id),
    }
}

/// The sequentially consistent events in a clock.
fn sc_within(graph: &Graph, clock: &Clock) -> u128 {
    let nodes = graph.sc.iter().enumerate();
    nodes.fold(0, |set, (at, &(id, _))| {
        set | u128::from(graph.within(id, clock)) << at
    })
}

/// The sequentially consistent fences in a clock.
fn fences_within(graph: &Graph, clock: &Clock) -> u128 {
    sc_within(graph, clock) & fences(graph)
}

/// The nodes that are fences.
fn fences(graph: &Graph) -> u128 {
    let nodes = graph.sc.iter().enumerate();
    nodes.fold(0, |set, (at, &(id, _))| {
        set | u128::from(graph.event(id).kind == Kind::Fence) << at
    })
}

/// The node of an access, if it has one.
fn node(graph: &Graph, access: Id) -> u128 {
    let at = graph.sc.iter().position(|&(id, _)| id == access);
    at.map_or(0, |at| 1 << at)
}

/// The fences that an access happens before.
fn fences_after(graph: &Graph, access: Id) -> u128 {
    let (task, index) = (graph.event(access).task, graph.event(access).index);
    let nodes = graph.sc.iter().enumerate();
    nodes.fold(0, |set, (at, &(id, _))| {
        let event = graph.event(id);
        set | u128::from(event.kind == Kind::Fence && event.views.hb.has(task, index)) << at
    })
}

/// The nodes to which `psc` leads from an access with this key: from a fence before it, and from the access itself,
/// whose `co` and `rb` edges involve only writes.
struct Followers {
    of_fences: u128,
    of_access: u128,
}

fn followers(graph: &Graph, atom: usize, key: usize) -> Followers {
    let mut of_access = 0;
    for &write in graph.co[atom].get(key / 2 + 1..).unwrap_or_default() {
        of_access |= fences_after(graph, write) | node(graph, write);
    }
    let mut of_fences = of_access;
    for &read in &graph.readers[atom] {
        let event = graph.event(read);
        if 2 * graph.position(atom, graph.source(event, atom)) + 1 > key {
            of_fences |= fences_after(graph, read);
        }
    }
    Followers {
        of_fences,
        of_access,
    }
}

/// The nodes with a `psc` edge to a fence, through an `eco` edge to an access in `before`.
fn preceding(graph: &Graph, before: &Clock) -> u128 {
    let mut set = 0;
    for atom in 0..graph.co.len() {
        let (co, readers) = (&graph.co[atom], &graph.readers[atom]);
        if co.len() == 1 && readers.is_empty() {
            continue;
        }
        let inside = |id: &Id| *id != INIT && graph.within(*id, before);
        let last_write = co
            .iter()
            .rposition(&inside)
            .map_or(0, |position| 2 * position);
        let reads = readers
            .iter()
            .filter(|id| inside(id))
            .map(|&id| key(graph, atom, id));
        let last = reads.max().unwrap_or(0).max(last_write);
        for &id in co.iter().chain(readers) {
            if id == INIT {
                continue;
            }
            let key = key(graph, atom, id);
            if key < last {
                set |= fences_within(graph, &graph.event(id).views.hb);
            }
            if key < last_write {
                set |= node(graph, id);
            }
        }
    }
    set
}

/// The nodes with a `psc` edge to an access that is itself a node: by `hb`, or by `co` and `rb` to a write.
fn access_preceding(graph: &Graph, id: Id, before: &Clock) -> u128 {
    let event = graph.event(id);
    let mut set = 0;
    for (at, &(node, _)) in graph.sc.iter().enumerate() {
        let other = graph.event(node);
        let precedes = graph.within(node, before)
            && (other.kind == Kind::Fence || ordered_accesses(graph, node, id));
        set |= u128::from(precedes) << at;
    }
    if event.kind == Kind::Write {
        for atom in event.span.range() {
            let own = key(graph, atom, id);
            for &other in graph.co[atom].iter().chain(&graph.readers[atom]) {
                if other != INIT && other != id && key(graph, atom, other) < own {
                    set |= fences_within(graph, &graph.event(other).views.hb) | node(graph, other);
                }
            }
        }
    }
    set
}

/// Returns whether `scb` orders two accesses, the first of which happens before the second: by `po`, on one place, or
/// by a path through other places.
fn ordered_accesses(graph: &Graph, one: Id, other: Id) -> bool {
    let (first, last) = (graph.event(one), graph.event(other));
    if first.task == last.task || first.span.range().any(|atom| last.span.covers(atom)) {
        return true;
    }
    let elsewhere =
        |event: &Event, access: &Event| !event.span.range().any(|atom| access.span.covers(atom));
    let later = graph.tasks[usize::from(first.task)][usize::from(first.index) + 1..].iter();
    let from = later.copied().find(|&id| elsewhere(graph.event(id), first));
    let earlier = graph.tasks[usize::from(last.task)][..usize::from(last.index)]
        .iter()
        .rev();
    let to = earlier
        .copied()
        .find(|&id| elsewhere(graph.event(id), last));
    from.zip(to)
        .is_some_and(|(from, to)| graph.within(from, &graph.event(to).views.hb))
}

fn add_sc(graph: &mut Graph, id: Id, into: u128) {
    let at = graph.sc.len();
    graph.sc.push((id, 0));
    if into != 0 {
        close(graph, into, 1 << at);
    }
}

/// Adds edges from each node of `from` to each of `to`, and closes the relation again.
fn close(graph: &mut Graph, from: u128, to: u128) {
    let mut reached = to;
    for (at, &(_, after)) in graph.sc.iter().enumerate() {
        if to >> at & 1 != 0 {
            reached |= after;
        }
    }
    for at in 0..graph.sc.len() {
        if from >> at & 1 != 0 || graph.sc[at].1 & from != 0 {
            graph.sc[at].1 |= reached;
        }
    }
}

/// Whether edges from each node of `from` to each of `to` make no cycle.
fn psc_allows(graph: &Graph, from: u128, to: u128) -> bool {
    let nodes = graph.sc.iter().enumerate();
    from & to == 0
        && nodes
            .into_iter()
            .all(|(at, &(_, after))| to >> at & 1 == 0 || after & from == 0)
}

/// The events in an order that `po` and `rf` allow.
fn topological(graph: &Graph) -> Vec<Id> {
    let mut order = Vec::with_capacity(graph.events.len());
    let mut done = vec![false; graph.events.len()];
    done[0] = true;
    let mut at = [0; TASKS];
    loop {
        let before = order.len();
        for (task, at) in at.iter_mut().enumerate() {
            while let Some(&id) = graph.tasks[task].get(*at) {
                let event = graph.event(id);
                if event.kind == Kind::Read
                    && event.rf.iter().any(|&source| !done[usize::from(source)])
                {
                    break;
                }
                done[usize::from(id)] = true;
                order.push(id);
                *at += 1;
            }
        }
        if order.len() == before {
            return order;
        }
    }
}

pub(super) fn rebuild(graph: &mut Graph) -> bool {
    graph.sc.clear();
    let order = topological(graph);
    if order.len() + 1 != graph.events.len() {
        return false;
    }
    for &id in &order {
        let views = views(graph, graph.event(id));
        graph.event_mut(id).views = views;
    }
    for &id in &order {
        if !coherent(graph, id) {
            return false;
        }
    }
    // Adds the nodes first, then the edges: `hb` edges in this order, `eco` edges in any order.
    for &id in &order {
        if is_sc(graph.event(id)) {
            graph.sc.push((id, 0));
        }
    }
    if graph.sc.len() > SC_EVENTS {
        return false;
    }
    psc_from_scratch(graph)
}

fn coherent(graph: &Graph, id: Id) -> bool {
    let event = graph.event(id);
    let mut before = event.views.hb;
    before.0[usize::from(event.task)] = event.index;
    match event.kind {
        Kind::Read => {
            let atoms = usize::from(event.span.atoms);
            coherent_read(graph, event, &before) && !(1..atoms).any(|at| tears(graph, event, at))
        }
        Kind::Write => {
            let first = usize::from(event.span.first);
            let mut places = Places::default();
            for atom in event.span.range() {
                places[atom - first] = graph.position(atom, id);
            }
            let after = |atom: usize| places[atom - first] > bound(graph, atom, &before);
            event.span.range().all(after) && agrees(graph, event, &places)
        }
        _ => true,
    }
}

fn psc_from_scratch(graph: &mut Graph) -> bool {
    let count = graph.sc.len();
    for at in 0..count {
        let id = graph.sc[at].0;
        let event = graph.event(id);
        let mut before = event.views.hb;
        before.0[usize::from(event.task)] = event.index;
        let into = if event.kind == Kind::Fence {
            sc_within(graph, &before) | preceding(graph, &before)
        } else {
            access_preceding(graph, id, &before)
        };
        if into >> at & 1 != 0 {
            return false;
        }
        if into != 0 {
            close(graph, into, 1 << at);
        }
    }
    // Edges from accesses that are nodes, by `eco`, to fences.
    for at in 0..count {
        let id = graph.sc[at].0;
        if graph.event(id).kind == Kind::Fence {
            continue;
        }
        for atom in graph.event(id).span.range() {
            let after = followers(graph, atom, key(graph, atom, id)).of_access;
            if after != 0 {
                close(graph, 1 << at, after);
            }
        }
    }
    graph
        .sc
        .iter()
        .enumerate()
        .all(|(at, &(_, after))| after >> at & 1 == 0)
}
