//! An execution graph as a story: one order of its steps, with as few switches between tasks as a greedy choice gives.
//!
//! Under SC and TSO the steps are in the global order; a store that TSO buffers has a second line where it reaches
//! memory. Under RC11 the order follows only `po` and `rf`, and a load that misses a store above it says so.

use std::fmt::Write as _;

use crate::code::{caller_name, site_name};
use crate::graph::{Event, Graph, INIT, Id, Kind, Order, TASKS};
use crate::model::Model;
use crate::names::{Field, WordNames};
use crate::search::{Search, State};
use crate::window::{self, Times, Window};

/// One step of the story.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Execute(Id),
    /// A store leaves the store buffer.
    Commit(Id),
}

/// The steps of an execution, and how often they switch from one task to another.
#[derive(Debug)]
pub(crate) struct Story {
    steps: Vec<Step>,
    pub(crate) switches: usize,
}

impl Story {
    /// Makes a story that begins with each task, and returns the one with the fewest switches.
    pub(crate) fn of(search: &Search) -> Story {
        let stories =
            (0..search.tasks.len()).map(|first| order(&search.graph, search.model, first));
        stories.min_by_key(|story| story.switches).unwrap_or(Story {
            steps: Vec::new(),
            switches: 0,
        })
    }

    /// Returns the steps between which a notification is lost, in an execution that sleeps forever.
    fn window(&self, search: &Search) -> Option<Window> {
        let waits: Vec<Option<u16>> = search
            .tasks
            .iter()
            .map(|task| match task.state {
                State::Waits { offset, .. } => Some(offset),
                _ => None,
            })
            .collect();
        let count = search.graph.events.len();
        let mut times = Times {
            executed: vec![0; count],
            arrived: vec![0; count],
        };
        for (at, &step) in self.steps.iter().enumerate() {
            let (Step::Execute(id) | Step::Commit(id)) = step;
            if step == Step::Execute(id) {
                times.executed[usize::from(id)] = at;
            }
            times.arrived[usize::from(id)] = at;
        }
        window::find(&search.graph, search.model, &waits, &times)
    }

    /// The lines of the story. If `is_lost`, the two steps around the lost notification are marked.
    pub(crate) fn lines(&self, search: &Search, is_lost: bool) -> Vec<String> {
        let graph = &search.graph;
        let window = is_lost.then(|| self.window(search)).flatten();
        let mut marks = [
            "  <-- the notification is lost between this",
            "  <-- and this",
        ]
        .into_iter();
        let mut lines = Vec::new();
        let mut done = vec![false; graph.events.len()];
        let mut at = 0;
        while let Some(&step) = self.steps.get(at) {
            let (Step::Execute(id) | Step::Commit(id)) = step;
            let first = at;
            done[usize::from(id)] = true;
            let event = graph.event(id);
            let mut text = match step {
                Step::Commit(_) => {
                    let fields = fields(search, event);
                    let names: Vec<String> = fields.map(|field| field.name).collect();
                    format!("(the store of {} reaches memory)", names.join(" and "))
                }
                Step::Execute(_) => describe(search, id),
            };
            if event.exclusive && event.kind == Kind::Read {
                let write = self.steps.get(at + 1).and_then(|&step| match step {
                    Step::Execute(next)
                        if graph.event(next).exclusive && graph.event(next).prev == id =>
                    {
                        Some(next)
                    }
                    _ => None,
                });
                text = describe_update(search, id, write);
                if let Some(write) = write {
                    done[usize::from(write)] = true;
                    at += 1;
                }
            } else if step == Step::Execute(id) && event.kind == Kind::Write && !event.exclusive {
                // A store that reaches memory at once needs one line.
                if self.steps.get(at + 1) == Some(&Step::Commit(id)) {
                    at += 1;
                } else if search.model == Model::Tso {
                    text.push_str(" (into the store buffer)");
                }
            }
            if event.kind == Kind::Read
                && !event.exclusive
                && search.model == Model::Rc11
                && misses(graph, event, &done)
            {
                text.push_str(" (does not see the newer store)");
            }
            let name = &search.tasks[usize::from(event.task)].name;
            let mark = window
                .filter(|window| window.is_in(first..=at))
                .and_then(|_| marks.next())
                .unwrap_or_default();
            lines.push(format!(
                "{name:>8}: {text}{}{mark}",
                place_in_code(search, id, step)
            ));
            at += 1;
        }
        for task in &search.tasks {
            let end = match &task.state {
                State::Done => "has returned".to_string(),
                State::Failed(how) => how.clone(),
                State::Ready | State::Behind | State::Impossible => "was stopped".to_string(),
                State::Waits { offset, mask } => {
                    format!("sleeps; it waits for {}", awaited(search, *offset, *mask))
                }
                State::Locked(read) => {
                    let lock = graph.event(*read).span.offset;
                    format!("waits for the lock {}", search.names.place(lock.into()))
                }
                State::Spins(reads) => {
                    let read = reads
                        .first()
                        .map(|&id| search.names.place(graph.event(id).span.offset.into()));
                    format!("spins on {}", read.unwrap_or_default())
                }
            };
            lines.push(format!("{:>8}  {end}", task.name));
        }
        lines
    }
}

fn place_in_code(search: &Search, id: Id, step: Step) -> String {
    let event = search.graph.event(id);
    if event.site == 0 || matches!(step, Step::Commit(_)) {
        return String::new();
    }
    let callers = search.callers.as_ref().and_then(|callers| callers.get(&id));
    let name = callers.and_then(|callers| caller_name(callers));
    format!("  [{}]", name.unwrap_or_else(|| site_name(event.site)))
}

fn misses(graph: &Graph, read: &Event, done: &[bool]) -> bool {
    read.span.range().any(|atom| {
        let next = graph.position(atom, graph.source(read, atom)) + 1;
        graph.co[atom][next..]
            .iter()
            .any(|&write| done[usize::from(write)])
    })
}

/// The named parts of an access.
fn fields(search: &Search, event: &Event) -> impl Iterator<Item = Field> {
    let (offset, size) = (event.span.offset, event.span.size);
    search.names.fields(offset.into(), size.into()).into_iter()
}

/// Describes an access with the value of each of its fields.
fn describe(search: &Search, id: Id) -> String {
    let event = search.graph.event(id);
    let values = |sign: &str| {
        let fields = fields(search, event);
        let values: Vec<String> = fields
            .map(|field| format!("{} {sign} {}", field.name, field.show(event.value)))
            .collect();
        values.join(", ")
    };
    match event.kind {
        Kind::Read => format!("load  {}", values("=")),
        Kind::Write => format!("store {}", values(":=")),
        Kind::Fence => format!("fence ({:?})", event.order),
        Kind::Choice(options) => format!("choice {} of {options}", event.value + 1),
        Kind::Init => String::new(),
    }
}

fn awaited(search: &Search, offset: u16, mask: u64) -> String {
    match word(search, offset) {
        Some(word) => {
            let known = u64::MAX.checked_shl(u32::try_from(word.bits.len()).unwrap_or(64));
            word.list(mask & !known.unwrap_or(0)).join(" or ")
        }
        None => search.names.place(offset.into()),
    }
}

/// The names of the bell's word at an offset, if there is one.
fn word(search: &Search, offset: u16) -> Option<&WordNames> {
    let at = usize::from(offset).checked_sub(search.mapping.len())?;
    search.names.words.get(at / 8)
}

fn describe_update(search: &Search, read: Id, write: Option<Id>) -> String {
    let event = search.graph.event(read);
    let (old, new) = (
        event.value,
        write.map(|write| search.graph.event(write).value),
    );
    let Some(word) = word(search, event.span.offset) else {
        let fields = fields(search, event).map(|field| {
            let new = new.map_or(String::new(), |new| format!(" := {}", field.show(new)));
            format!("{} = {}{new}", field.name, field.show(old))
        });
        return format!("update {}", fields.collect::<Vec<_>>().join(", "));
    };
    let list = |bits: u64| word.list(bits).join(", ");
    if !word.is_sleeper {
        let mut text = format!("{}: [{}]", word.name, list(old));
        if let Some(new) = new.filter(|&new| new != old) {
            let _ = write!(text, " -> [{}]", list(new));
        }
        return text;
    }
    // The upper half says which signals were taken back.
    let (rung, back) = (old & 0xFFFF_FFFF, old >> 32);
    let Some(new) = new else {
        return format!("finds no signal for {}", word.name);
    };
    if new >> 32 & !back != 0 {
        format!("takes {} back", list(new >> 32 & !back))
    } else if new == 0 && rung & !back == 0 {
        "sleeps on: the signal was taken back".to_string()
    } else if new == 0 {
        format!("takes {}", list(rung & !back))
    } else if new == old {
        format!("SIGNAL {} (again)", list(rung))
    } else {
        format!("SIGNAL {}", list(new & (!rung | back)))
    }
}

/// Orders the steps: the current task continues as long as it can.
fn order(graph: &Graph, model: Model, first: usize) -> Story {
    let count = graph.events.len();
    let buffered = |event: &Event| {
        model == Model::Tso
            && event.kind == Kind::Write
            && !event.exclusive
            && event.order != Order::SeqCst
    };
    let mut executed = vec![false; count];
    let mut committed = vec![false; count];
    executed[0] = true;
    committed[0] = true;
    let mut at = [0_usize; TASKS];
    let mut story = Story {
        steps: Vec::with_capacity(count),
        switches: 0,
    };
    let mut current = first;
    // Returns whether everything that the global order puts before a store's arrival in memory is done.
    let may_commit = |id: Id, executed: &[bool], committed: &[bool]| {
        let event = graph.event(id);
        let own = graph.tasks[usize::from(event.task)]
            .iter()
            .take(usize::from(event.index));
        let in_order = own
            .into_iter()
            .all(|&other| graph.event(other).kind != Kind::Write || committed[usize::from(other)]);
        in_order
            && event.span.range().all(|atom| {
                let before = graph.co[atom][graph.position(atom, id) - 1];
                let readers = graph.readers[atom].iter();
                committed[usize::from(before)]
                    && readers.into_iter().all(|&read| {
                        graph.source(graph.event(read), atom) != before
                            || executed[usize::from(read)]
                    })
            })
    };
    loop {
        let before = story.steps.len();
        'tasks: for turn in 0..TASKS {
            let task = (current + turn) % TASKS;
            while let Some(&id) = graph.tasks[task].get(at[task]) {
                let event = graph.event(id);
                let own_done = |executed: &[bool], committed: &[bool]| {
                    let full = event.exclusive
                        || (event.kind == Kind::Fence && event.order == Order::SeqCst);
                    let _ = executed;
                    !(full && model == Model::Tso)
                        || graph.tasks[task][..at[task]].iter().all(|&other| {
                            graph.event(other).kind != Kind::Write || committed[usize::from(other)]
                        })
                };
                let ready = match event.kind {
                    Kind::Read => {
                        own_done(&executed, &committed)
                            && event.span.range().all(|atom| {
                                let source = graph.source(event, atom);
                                committed[usize::from(source)]
                                    || (graph.event(source).task == event.task
                                        && executed[usize::from(source)])
                            })
                    }
                    Kind::Fence => own_done(&executed, &committed),
                    Kind::Write if model != Model::Rc11 && !buffered(event) => {
                        own_done(&executed, &committed) && may_commit(id, &executed, &committed)
                    }
                    _ => true,
                };
                if !ready {
                    break;
                }
                if task != current {
                    story.switches += 1;
                    current = task;
                }
                executed[usize::from(id)] = true;
                story.steps.push(Step::Execute(id));
                if event.kind == Kind::Write && !buffered(event) {
                    committed[usize::from(id)] = true;
                }
                at[task] += 1;
                commit_all(graph, &mut story, &executed, &mut committed, &may_commit);
            }
            if story.steps.len() > before {
                break 'tasks;
            }
        }
        commit_all(graph, &mut story, &executed, &mut committed, &may_commit);
        if story.steps.len() == before {
            return story;
        }
    }
}

fn commit_all(
    graph: &Graph,
    story: &mut Story,
    executed: &[bool],
    committed: &mut [bool],
    may_commit: &impl Fn(Id, &[bool], &[bool]) -> bool,
) {
    loop {
        let next = (1..graph.events.len()).find(|&id| {
            let event = &graph.events[id];
            let id = Id::try_from(id).unwrap_or(INIT);
            event.kind == Kind::Write
                && executed[usize::from(id)]
                && !committed[usize::from(id)]
                && may_commit(id, executed, committed)
        });
        let Some(next) = next else { return };
        committed[next] = true;
        story
            .steps
            .push(Step::Commit(Id::try_from(next).unwrap_or(INIT)));
    }
}
