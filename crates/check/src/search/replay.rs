//! Running the tasks of a scenario: first along a recorded graph, then beyond it.

use std::any::Any;
use std::collections::HashMap;

use super::{Execution, Search, SetUp, State, Task, Wrong};
use crate::code::site_name;
use crate::error::Error;
use crate::graph::{Graph, Id, TASKS};
use crate::guard;
use crate::hooks;
use crate::signals;
use crate::task::{self, Resume, Running, Stopped};
use crate::watchdog;

impl Search {
    /// Replays a graph, and extends it until no task can continue. Returns `None` if the graph cannot end this way.
    pub(super) fn run(
        &mut self,
        graph: Graph,
        scenario: &mut dyn FnMut(&Search) -> Result<SetUp, Error>,
    ) -> Result<Option<Execution>, Error> {
        self.begin(graph, scenario)?;
        self.dropped = false;
        self.wrong = None;
        while let Some(task) = self.next_task() {
            if let Err(error) = self.step(task) {
                // Other tasks may be suspended where they cannot unwind.
                self.finish();
                return Err(error);
            }
            if self.dropped || self.refined || self.wrong.is_some() || self.error.is_some() {
                break;
            }
        }
        let wrong = self.wrong.take();
        let stuck = self
            .tasks
            .iter()
            .any(|task| task.must && task.state != State::Done);
        self.finish();
        if let Some((site, offset)) = hooks::other_thread() {
            let place = self.names.place(usize::from(offset));
            return Err(Error::OtherThread {
                place,
                site: site_name(site),
            });
        }
        if let Some(error) = self.error.take() {
            return Err(error);
        }
        let impossible = self.tasks.iter().any(|task| match task.state {
            State::Impossible => true,
            // Without an unlock the task waits forever.
            State::Locked(read) => self.is_stale(read),
            _ => false,
        });
        if self.dropped || self.refined || impossible {
            return Ok(None);
        }
        Ok(Some(match wrong {
            Some(wrong) => Execution::Wrong(wrong),
            None if stuck => Execution::Wrong(Wrong::Stuck),
            None => Execution::Good,
        }))
    }

    /// Sets the scenario up again.
    fn begin(
        &mut self,
        graph: Graph,
        scenario: &mut dyn FnMut(&Search) -> Result<SetUp, Error>,
    ) -> Result<(), Error> {
        let zeros = vec![0; self.mapping.len()];
        self.mapping.write(0, &zeros);
        let set_up = scenario(self)?;
        self.names = set_up.names;
        if set_up.tasks.len() > TASKS {
            return Err(Error::TooManyTasks {
                tasks: set_up.tasks.len(),
                limit: TASKS,
            });
        }
        let words = self.names.words.len();
        let mut initial = vec![0; self.mapping.len() + 8 * words];
        let len = self.mapping.len();
        self.mapping.read(0, &mut initial[..len]);
        if self.initial.is_empty() {
            for word in 0..=words {
                self.atoms
                    .extend(u16::try_from(len + 8 * word).unwrap_or(u16::MAX));
            }
            self.initial = initial;
        } else if self.initial != initial {
            return Err(Error::SetupDiffers);
        }
        self.graph = if graph.events.len() == 1 {
            Graph::new(self.atoms.len())
        } else {
            graph
        };
        self.tasks = set_up
            .tasks
            .into_iter()
            .map(|spec| Task {
                name: spec.name,
                must: spec.must,
                body: Some(spec.body),
                running: None,
                state: State::Ready,
                cursor: 0,
                announced: Vec::new(),
                announced_at: None,
                stored: Vec::new(),
                announced_by: Vec::new(),
                reads: Vec::new(),
                failed: Vec::new(),
                window: Default::default(),
                held: None,
                site: 0,
            })
            .collect();
        self.current = usize::from(self.graph.current);
        self.new_path = false;
        self.spurious = 0;
        if self.strict {
            self.mapping.open(false);
        }
        Ok(())
    }

    /// Returns the task that runs next: the task that ran last, or the first that can run.
    fn next_task(&mut self) -> Option<usize> {
        // When tasks replay in order, other tasks have run since.
        let last = match self.in_order {
            true => usize::from(self.graph.current),
            false => self.current,
        };
        if self.can_run(last) {
            return Some(last);
        }
        (0..self.tasks.len()).find(|&task| self.can_run(task))
    }

    fn can_run(&self, task: usize) -> bool {
        let state = &self.tasks[task];
        match &state.state {
            State::Done | State::Failed(_) | State::Impossible | State::Locked(_) => false,
            State::Behind => self.is_next(task),
            _ if state.cursor < self.graph.tasks[task].len() => true,
            State::Ready => true,
            State::Waits { offset, mask } => self.could_wake(task, *offset, *mask),
            State::Spins(reads) => reads.iter().any(|&read| self.is_stale(read)),
        }
    }

    /// Returns whether a read could read something newer.
    pub(super) fn is_stale(&self, read: Id) -> bool {
        let event = self.graph.event(read);
        event.span.range().any(|atom| {
            self.graph
                .co_next(atom, self.graph.source(event, atom))
                .is_some()
        })
    }

    fn step(&mut self, task: usize) -> Result<(), Error> {
        self.current = task;
        let state = &mut self.tasks[task];
        let mut running = match (state.running.take(), state.body.take()) {
            (Some(running), _) => running,
            (None, Some(body)) => Running::new(body).map_err(Error::Stack)?,
            (None, None) => {
                self.returned(task);
                return Ok(());
            }
        };
        state.state = State::Ready;
        watchdog::runs(&state.name);
        let stopped = running.resume(self, Resume::Run);
        self.complete_store(task);
        let state = &mut self.tasks[task];
        match stopped {
            Stopped::Suspended => state.running = Some(running),
            Stopped::Returned => self.returned(task),
            Stopped::Panicked(payload) => {
                state.state = State::Failed("panics".to_string());
                let place = task::panicked_at().map_or(String::new(), |at| format!(" at {at}"));
                self.wrong = Some(Wrong::Panic(message(&*payload) + &place));
            }
            Stopped::Crashed(crash) => {
                let signal = signals::name(crash.signal);
                state.state = State::Failed(format!("crashes with {signal}"));
                let task = state.name.clone();
                self.wrong = Some(Wrong::Crash { task, crash });
            }
        }
        if matches!(self.tasks[task].state, State::Done | State::Failed(_))
            && self.tasks[task].cursor < self.graph.tasks[task].len()
        {
            return Err(self.diverged(task, "returned"));
        }
        Ok(())
    }

    /// Handles the end of a task's code. A last store of the task may still have to wait.
    fn returned(&mut self, task: usize) {
        self.tasks[task].state = State::Done;
        self.complete_store(task);
        let placed = self.put_back();
        debug_assert!(placed.is_ok() || self.over(), "a store has a place");
    }

    pub(super) fn diverged(&self, task: usize, now: &str) -> Error {
        let state = &self.tasks[task];
        let recorded = match self.graph.tasks[task].get(state.cursor) {
            None => "nothing".to_string(),
            Some(&id) => {
                let event = self.graph.event(id);
                format!("{:?} of offset {}", event.kind, event.span.offset)
            }
        };
        Error::Diverged {
            task: state.name.clone(),
            step: state.cursor,
            recorded,
            now: now.to_string(),
        }
    }

    /// Ends the tasks of an execution.
    fn finish(&mut self) {
        self.ending = true;
        if self.strict {
            self.mapping.open(true);
        }
        for task in 0..self.tasks.len() {
            let Some(mut running) = self.tasks[task].running.take() else {
                continue;
            };
            match running.resume(self, Resume::End) {
                Stopped::Suspended => {
                    self.stats.leaked += 1;
                    running.leak();
                }
                // A task that unwinds in the middle of its work may crash: such a crash is not part of an execution.
                Stopped::Crashed(_) => self.stats.leaked += 1,
                Stopped::Returned | Stopped::Panicked(_) => {}
            }
        }
        self.ending = false;
    }

    /// Repeats the execution that has just ended, and records where its steps come from.
    pub(super) fn replay_recorded(
        &mut self,
        scenario: &mut dyn FnMut(&Search) -> Result<SetUp, Error>,
    ) -> Result<(), Error> {
        self.callers = Some(HashMap::new());
        self.run(self.graph.clone(), scenario).map(drop)
    }

    /// Repeats the execution that has just ended, with the shared memory inaccessible except for announced accesses.
    pub(super) fn replay_guarded(
        &mut self,
        scenario: &mut dyn FnMut(&Search) -> Result<SetUp, Error>,
    ) -> Result<(), Error> {
        let graph = self.graph.clone();
        let events = graph.events.len();
        self.strict = true;
        let (len, base) = (self.mapping.len(), guard::address(&self.mapping));
        let (result, unseen) = guard::protected(len, base, || self.run(graph, scenario));
        self.strict = false;
        if let Some(unseen) = unseen {
            if self.hooked == 0 {
                return Err(Error::NotInstrumented);
            }
            return Err(Error::Unhooked {
                access: if unseen.store {
                    "the store"
                } else {
                    "the load"
                },
                place: self.names.place(usize::from(unseen.offset)),
                site: site_name(unseen.site),
            });
        }
        result?;
        if self.graph.events.len() != events {
            return Err(Error::Diverged {
                task: "all".into(),
                step: events,
                recorded: "the end".into(),
                now: "another event".into(),
            });
        }
        Ok(())
    }
}

fn message(payload: &(dyn Any + Send)) -> String {
    if let Some(text) = payload.downcast_ref::<&str>() {
        (*text).to_string()
    } else if let Some(text) = payload.downcast_ref::<String>() {
        text.clone()
    } else {
        "a panic without a message".to_string()
    }
}
