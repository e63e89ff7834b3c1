//! Backward revisits: a new write gives its value to reads that were added before it.
//!
//! For a read that does not precede the write, the graph without what was added after the read, but for what
//! precedes the write, is another graph to explore, with the read reading from the write. So that only one graph leads there,
//! what is dropped must be what the search would add by itself: reads of the newest writes, writes in the newest place.

use super::Search;
use crate::graph::{Event, Graph, Id, Kind};
use crate::model::{Places, combine_places, combine_sources};

impl Search {
    /// Puts the revisits of a write, which is not yet in the graph, on the work list.
    pub(super) fn revisit(&mut self, write: &Event) {
        let mut reads: Vec<Id> = Vec::new();
        for atom in write.span.range() {
            for &read in &self.graph.readers[atom] {
                if !self.graph.within(read, &write.prefix) && !reads.contains(&read) {
                    reads.push(read);
                }
            }
        }
        for read in reads {
            let events = Id::try_from(self.graph.events.len()).unwrap_or(Id::MAX);
            let dropped = (read..events).filter(|&id| !self.graph.within(id, &write.prefix));
            if dropped.into_iter().all(|id| self.is_maximal(id, write)) {
                self.revisit_read(read, write);
            }
        }
    }

    /// Whether the search would add this event in the same way to the graph that the revisit keeps.
    fn is_maximal(&self, id: Id, write: &Event) -> bool {
        let graph = &self.graph;
        let event = graph.event(id);
        let stays = |other: Id| other <= id || graph.within(other, &write.prefix);
        let newest = |atom: usize| {
            graph.co[atom]
                .iter()
                .rev()
                .copied()
                .find(|&other| stays(other))
        };
        match event.kind {
            Kind::Read => event
                .span
                .range()
                .all(|atom| newest(atom) == Some(graph.source(event, atom))),
            Kind::Write => event.span.range().all(|atom| {
                let read = graph.readers[atom]
                    .iter()
                    .any(|&read| stays(read) && graph.source(graph.event(read), atom) == id);
                !read && newest(atom) == Some(id)
            }),
            Kind::Choice(_) => event.value == 0,
            Kind::Fence | Kind::Init => true,
        }
    }

    fn revisit_read(&mut self, read: Id, write: &Event) {
        let mut base = self
            .graph
            .restrict(|id| id <= read || self.graph.within(id, &write.prefix));
        let (task, index) = (self.graph.event(read).task, self.graph.event(read).index);
        let read = base.tasks[usize::from(task)][usize::from(index)];
        for list in &mut base.readers {
            list.retain(|id| *id != read);
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
            self.revisit_from(&placed, read, id);
        }
    }

    /// The revisits of a read by a write that has its place.
    fn revisit_from(&mut self, placed: &Graph, read: Id, write: Id) {
        let mut event = placed.event(read).clone();
        let atoms = usize::from(event.span.atoms);
        let mut found = Vec::new();
        combine_sources(placed, &mut event, 0, &mut |event| {
            if event.rf[..atoms].contains(&write) {
                found.push(event.rf);
            }
        });
        for rf in found {
            let mut event = placed.event(read).clone();
            event.rf = rf;
            event.value = placed.read_value(&event, &self.atoms, &self.initial);
            if event.awaits != 0 && event.value & event.awaits == 0 {
                continue;
            }
            event.prefix = placed.prefix_of(&event);
            let mut graph = placed.clone();
            for atom in event.span.range() {
                graph.readers[atom].push(read);
            }
            graph.current = event.task;
            *graph.event_mut(read) = event;
            if self.model.rebuild(&mut graph) {
                self.work.push(graph);
            }
        }
    }
}
