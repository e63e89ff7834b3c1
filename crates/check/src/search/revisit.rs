//! Backward revisits: a new write gives its value to reads that were added before it.
//!
//! For a read that does not precede the write, there is another graph to explore, in which the read reads from the
//! write. Events added after the read are dropped, unless they precede the write. Only one graph may lead there, so
//! dropped events must be what the search would add itself: reads of the newest writes, writes in the newest place.
//!
//! A read of several atoms counts as a series of reads, one for each atom: a revisit of one atom keeps the sources of
//! earlier atoms and chooses those of later atoms again. So part of a read can be kept: see [`Event::chosen`].

use std::ops::Range;

use super::Search;
use crate::error::Error;
use crate::graph::{Event, Graph, INIT, Id, Kind};
use crate::model::{Places, combine_places, combine_sources};

/// A read, and which of its atoms have to choose their sources again.
struct Again {
    read: Id,
    atoms: Range<usize>,
}

impl Search {
    /// Puts the revisits of a write, which is not yet in the graph, on the work list.
    pub(super) fn revisit(&mut self, write: &Event) {
        for atom in write.span.range() {
            for at in 0..self.graph.readers[atom].len() {
                let read = self.graph.readers[atom][at];
                if self.graph.within(read, &write.prefix) {
                    continue;
                }
                let event = self.graph.event(read);
                let part = atom - usize::from(event.span.first);
                if self.drops_maximal(read, part, write) {
                    self.revisit_part(read, part, write);
                }
            }
        }
    }

    /// Returns whether the search would add by itself everything that a revisit of an atom of a read drops.
    fn drops_maximal(&self, read: Id, part: usize, write: &Event) -> bool {
        let limit = self.graph.event(read).chosen[part];
        let ids = 1..Id::try_from(self.graph.events.len()).unwrap_or(Id::MAX);
        ids.into_iter().all(|id| {
            let event = self.graph.event(id);
            if self.graph.within(id, &write.prefix) {
                return true;
            }
            if event.kind == Kind::Read {
                let from = dropped_from(event, limit, (id == read).then_some(part));
                return (from..usize::from(event.span.atoms))
                    .all(|part| self.reads_newest(id, part, write));
            }
            id <= limit || self.is_maximal(id, write)
        })
    }

    /// The newest write to an atom, among the events up to `up_to` and those that precede the new write.
    fn newest(&self, atom: usize, up_to: Id, write: &Event) -> Option<Id> {
        let stays = |other: Id| other <= up_to || self.graph.within(other, &write.prefix);
        self.graph.co[atom]
            .iter()
            .rev()
            .copied()
            .find(|&other| stays(other))
    }

    /// Returns whether an atom of a read reads the newest write that the sources of earlier atoms leave.
    fn reads_newest(&self, id: Id, part: usize, write: &Event) -> bool {
        let read = self.graph.event(id);
        let atom = usize::from(read.span.first) + part;
        if part == 0 {
            return self.newest(atom, read.chosen[part], write) == Some(read.rf[part]);
        }
        let stays = |other: Id| {
            (other <= read.chosen[part] && other != id) || self.graph.within(other, &write.prefix)
        };
        let mut graph = self.graph.restrict(stays);
        self.model.rebuild(&mut graph);
        let rank = |id: Id| if id == INIT { INIT } else { rank(id, stays) };
        let mut partial = read.clone();
        partial.prev = rank(read.prev);
        partial.span.atoms = u8::try_from(part + 1).unwrap_or(u8::MAX);
        for source in &mut partial.rf[..part] {
            *source = rank(*source);
        }
        let newest = graph.co[atom].iter().rev().copied().find(|&other| {
            partial.rf[part] = other;
            self.model.may_read_parts(&graph, &partial)
        });
        newest == Some(rank(read.rf[part]))
    }

    fn is_maximal(&self, id: Id, write: &Event) -> bool {
        let graph = &self.graph;
        let event = graph.event(id);
        match event.kind {
            Kind::Write => event.span.range().all(|atom| {
                let read = graph.readers[atom].iter().any(|&reader| {
                    let read = graph.event(reader);
                    let part = atom - usize::from(read.span.first);
                    read.rf[part] == id
                        && (read.chosen[part] <= id || graph.within(reader, &write.prefix))
                });
                // A read-modify-write comes directly after the write that it read from.
                !read && (event.exclusive || self.newest(atom, id, write) == Some(id))
            }),
            Kind::Choice(_) => event.value == 0,
            Kind::Read | Kind::Fence | Kind::Init => true,
        }
    }

    /// Adds the revisits of one atom of a read, with each place that the write can have.
    fn revisit_part(&mut self, read: Id, part: usize, write: &Event) {
        let old = &self.graph;
        let limit = old.event(read).chosen[part];
        let keep = |id: Id| id <= limit || old.within(id, &write.prefix);
        let mut again = Vec::new();
        for id in (1..=limit).filter(|&id| old.event(id).kind == Kind::Read) {
            let event = old.event(id);
            let from = dropped_from(event, limit, (id == read).then_some(part + 1));
            let atoms = from..usize::from(event.span.atoms);
            if !old.within(id, &write.prefix) && !atoms.is_empty() {
                again.push(Again {
                    read: rank(id, keep),
                    atoms,
                });
            }
        }
        let (task, index) = (old.event(read).task, old.event(read).index);
        let mut base = old.restrict(keep);
        let read = base.tasks[usize::from(task)][usize::from(index)];
        for again in again.iter().chain([&Again {
            read,
            atoms: part..part + 1,
        }]) {
            let first = usize::from(base.event(again.read).span.first);
            for atom in again.atoms.clone() {
                base.readers[first + atom].retain(|id| *id != again.read);
            }
        }
        let mut write = write.clone();
        write.prev = base.last(write.task);
        let mut found: Vec<Places> = Vec::new();
        combine_places(&base, &write, 0, &mut Places::default(), &mut |places| {
            found.push(*places);
        });
        for places in found {
            let mut placed = base.clone();
            let id = placed.push(write.clone());
            placed.place(id, &places);
            placed.current = task;
            let event = placed.event_mut(read);
            event.rf[part] = id;
            let atom = usize::from(event.span.first) + part;
            placed.readers[atom].push(read);
            self.choose_again(placed, &again, id, read);
        }
    }

    /// Lets reads that are kept in part choose their sources, and puts each result that can happen on the work list.
    fn choose_again(&mut self, graph: Graph, again: &[Again], write: Id, revisited: Id) {
        let Some((first, rest)) = again.split_first() else {
            self.finish_revisit(graph, revisited);
            return;
        };
        let mut event = graph.event(first.read).clone();
        let mut found = Vec::new();
        combine_sources(&graph, &mut event, first.atoms.start, &mut |event| {
            found.push(event.rf);
        });
        for rf in found {
            let mut graph = graph.clone();
            let event = graph.event_mut(first.read);
            event.rf = rf;
            let base = usize::from(event.span.first);
            for atom in first.atoms.clone() {
                event.chosen[atom] = write;
            }
            for atom in first.atoms.clone() {
                graph.readers[base + atom].push(first.read);
            }
            self.update_read(&mut graph, first.read);
            self.choose_again(graph, rest, write, revisited);
        }
    }

    fn update_read(&self, graph: &mut Graph, read: Id) {
        let value = graph.read_value(graph.event(read), &self.atoms, &self.initial);
        let prefix = graph.prefix_of(graph.event(read));
        let event = graph.event_mut(read);
        (event.value, event.prefix) = (value, prefix);
        if let Some(compare) = event.compare {
            event.order = compare.order(value);
        }
    }

    fn finish_revisit(&mut self, mut graph: Graph, read: Id) {
        self.update_read(&mut graph, read);
        if !self.model.rebuild(&mut graph) {
            return;
        }
        let event = graph.event(read);
        if event.awaits != 0 && event.value & event.awaits == 0 {
            // The other task takes the signal first, and this one continues to wait.
            let taken_by = graph.event(event.rf[0]).task;
            self.two_takers(event.span.offset, event.task, taken_by);
        } else {
            self.work.push(graph);
        }
    }

    /// Refuses a signal that two tasks compete for: the search does not follow a read that has to wait again.
    fn two_takers(&mut self, offset: u16, task: u8, taken_by: u8) {
        let name = |task: u8| self.tasks[usize::from(task)].name.clone();
        let tasks = [name(task), name(taken_by)];
        let at = usize::from(offset).saturating_sub(self.mapping.len()) / 8;
        let word = self.names.words.get(at).map(|word| word.name.clone());
        let word = word.unwrap_or_default();
        let [one, other] = tasks;
        self.error
            .get_or_insert(Error::TwoTakers { word, one, other });
    }
}

/// The id of a kept event in the graph that [`Graph::restrict`] makes.
fn rank(id: Id, keep: impl Fn(Id) -> bool) -> Id {
    let before = (1..id).filter(|&other| keep(other)).count();
    Id::try_from(before + 1).unwrap_or(Id::MAX)
}

/// The first atom of a read to choose again: `revisited` if given, otherwise the first one chosen after `limit`.
fn dropped_from(read: &Event, limit: Id, revisited: Option<usize>) -> usize {
    let atoms = usize::from(read.span.atoms);
    revisited.unwrap_or_else(|| {
        (0..atoms)
            .find(|&part| read.chosen[part] > limit)
            .unwrap_or(atoms)
    })
}
