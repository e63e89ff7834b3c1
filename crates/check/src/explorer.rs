//! The entry points of the crate: a scenario, the models under which it is explored, and the report.

use std::cell::RefCell;
use std::fmt;
use std::panic::{self, AssertUnwindSafe, Location};
use std::ptr::NonNull;
use std::rc::Rc;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::bell::{Sleeper, Word};
use crate::error::Error;
use crate::hooks;
use crate::memory::Mapping;
use crate::model::Model;
use crate::names::{Meaning, Named, Names, WordNames};
use crate::native::{self, Witness};
use crate::report::{Failure, Report, Verdict};
use crate::search::{Changes, Execution, Limits, Met, Orders, Search, SetUp, Spec, Stats, Wrong};
use crate::shared::Memory;
use crate::signals::Handlers;
use crate::task;
use crate::watchdog::Watchdog;
use crate::weaken::session::Session;

/// Only one search runs at a time in a process, because the hooks of all code lead to it.
static LOCK: Mutex<()> = Mutex::new(());

/// How long a search continues after the first failure to find a simpler one.
const SIMPLER: Duration = Duration::from_secs(1);

/// The same limit as a number of executions, so that the result does not depend on time.
const SIMPLER_EXECUTIONS: u64 = 1000;

/// The maximum number of pages of shared memory: offsets of accesses and bells have 16 bits.
const PAGES: usize = 15;

/// Explores scenarios.
#[derive(Clone, Debug)]
pub struct Explorer {
    models: Vec<Model>,
    limits: Limits,
    pages: usize,
    over: Option<NonNull<u8>>,
    patience: u64,
    process: u64,
    simplify: Simplify,
    pub(crate) guarded_data: bool,
    /// The only line to weaken.
    pub(crate) site: Option<(String, u32)>,
}

/// How long a search continues after the first failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Simplify {
    Never,
    Time,
    Executions,
}

impl Default for Explorer {
    fn default() -> Explorer {
        Explorer::new()
    }
}

/// One set-up of a scenario: its memory, its notifications and its tasks.
pub struct Scenario {
    memory: Memory,
    names: Names,
    tasks: Vec<Spec>,
    checks: Vec<Box<dyn FnOnce() -> Result<(), String>>>,
}

impl Explorer {
    /// An explorer of all models, with a limit of 60 seconds for each.
    pub fn new() -> Explorer {
        Explorer {
            models: vec![Model::Sc, Model::Tso, Model::Rc11],
            limits: Limits {
                time: Duration::from_secs(60),
                executions: u64::MAX,
                events: 4000,
                memory: 1 << 30,
            },
            pages: 2,
            over: None,
            patience: 60,
            process: 4 << 30,
            simplify: Simplify::Time,
            guarded_data: false,
            site: None,
        }
    }

    /// Explores under these models. Defaults to all.
    #[must_use]
    pub fn models(mut self, models: impl IntoIterator<Item = Model>) -> Explorer {
        self.models = models.into_iter().collect();
        self
    }

    /// Stops after this time for each model.
    #[must_use]
    pub fn seconds(mut self, seconds: u64) -> Explorer {
        self.limits.time = Duration::from_secs(seconds);
        self
    }

    /// Stops after this number of executions for each model. Defaults to no limit.
    #[must_use]
    pub fn executions(mut self, executions: u64) -> Explorer {
        self.limits.executions = executions;
        self
    }

    /// Stops at the first failure. By default the search continues for a second, to find a simpler trace.
    #[must_use]
    pub fn stop_at_first_failure(mut self) -> Explorer {
        self.simplify = Simplify::Never;
        self
    }

    /// The size of the shared memory in pages of 4 KiB, at most 15. Defaults to 2.
    #[must_use]
    pub fn pages(mut self, pages: usize) -> Explorer {
        self.pages = pages;
        self
    }

    /// Lets tasks share memory that is not explored, provided that explored accesses order all accesses to it. An
    /// example is data guarded by a lock whose word is in the shared memory. Repeated executions then keep that order,
    /// which takes longer.
    ///
    /// A task that loads a value that its compare-exchange has just found changed counts as waiting for a lock. It has
    /// to repeat both until it has the lock.
    #[must_use]
    pub fn with_guarded_data(mut self) -> Explorer {
        self.guarded_data = true;
        self
    }

    /// Lets [`weaken`](Self::weaken) weaken only the orders at this line. The file may have folders before its name.
    #[must_use]
    pub fn only_at(mut self, file: impl Into<String>, line: u32) -> Explorer {
        self.site = Some((file.into(), line));
        self
    }

    /// Ends the process if a task, which cannot be interrupted, takes no step for this many seconds. Defaults to 60.
    #[must_use]
    pub fn patience(mut self, seconds: u64) -> Explorer {
        self.patience = seconds;
        self
    }

    /// Ends the process if it uses more than this number of bytes. Defaults to 4 GiB.
    #[must_use]
    pub fn process_memory(mut self, bytes: u64) -> Explorer {
        self.process = bytes;
        self
    }

    /// Puts the shared memory at an address, for code under test that maps its guest memory itself. The previous
    /// contents are lost: when [`run`](Self::run) returns, anonymous memory is mapped at the address.
    ///
    /// # Safety
    ///
    /// The [pages](Self::pages) from `at` on are all mapped, and only tasks of the scenario use them while
    /// [`run`](Self::run) explores.
    #[must_use]
    #[allow(unsafe_code)]
    pub unsafe fn memory_at(mut self, at: NonNull<u8>) -> Explorer {
        self.over = Some(at);
        self
    }

    /// Explores a scenario. `set_up` is called for each execution, and must do the same each time.
    ///
    /// # Errors
    ///
    /// If the scenario cannot be explored.
    #[track_caller]
    pub fn run(&self, mut set_up: impl FnMut(&mut Scenario)) -> Result<Report, Error> {
        if let Some(session) = Session::from_env() {
            return session.run(self, &mut set_up, Location::caller());
        }
        self.explore(None, &mut set_up).map(|(report, _)| report)
    }

    /// Returns the explorer for weaker orders. Its search for a simpler trace is limited by executions, not by time, so
    /// that it finds the same failures again.
    pub(crate) fn for_short_traces(&self) -> Explorer {
        let mut explorer = self.clone();
        if explorer.simplify == Simplify::Time {
            explorer.simplify = Simplify::Executions;
        }
        explorer
    }

    /// Explores a scenario, with changes in the code under test. Also returns what the code under test used under each
    /// model.
    pub(crate) fn explore(
        &self,
        changes: Option<&Changes>,
        set_up: &mut dyn FnMut(&mut Scenario),
    ) -> Result<(Report, Vec<Met>), Error> {
        let _lock = LOCK.lock().unwrap_or_else(PoisonError::into_inner);
        let _watchdog = Watchdog::new(self.patience, self.process);
        let _handlers = Handlers::install()?;
        task::quiet_panics();
        hooks::set_exploring(true);
        let explored: Result<Vec<(Verdict, Met)>, Error> = self
            .models
            .iter()
            .map(|&model| self.explore_model(model, changes, set_up))
            .collect();
        hooks::set_exploring(false);
        let (verdicts, met) = explored?.into_iter().unzip();
        Ok((Report { verdicts }, met))
    }

    /// Runs the scenario natively, each task on a thread, repeatedly for `time` or until all tasks sleep forever. A
    /// hang confirms on the real CPU a failure that an exploration found. Use a load of a few thousand requests, and
    /// `cargo test` without instrumentation. Models, limits and final checks have no effect here.
    ///
    /// # Safety
    ///
    /// The tasks share nothing that only one thread may use, such as an `Rc`, and the code under test is safe to use on
    /// several threads.
    ///
    /// # Errors
    ///
    /// If the shared memory cannot be mapped, or does not fit the scenario.
    ///
    /// # Panics
    ///
    /// If a task panics.
    #[allow(unsafe_code)]
    pub unsafe fn native(
        &self,
        time: Duration,
        mut set_up: impl FnMut(&mut Scenario),
    ) -> Result<Witness, Error> {
        let _lock = LOCK.lock().unwrap_or_else(PoisonError::into_inner);
        let mapping = self.map()?;
        let base = mapping.seen().as_ptr().expose_provenance();
        let zeros = vec![0; mapping.len()];
        native::witness(base, mapping.len(), time, || {
            mapping.write(0, &zeros);
            let scenario = Scenario::new(&mapping, &mut set_up)?;
            Ok((scenario.tasks, scenario.names.words.len()))
        })
    }

    fn map(&self) -> Result<Mapping, Error> {
        if self.pages > PAGES {
            return Err(Error::TooManyPages {
                pages: self.pages,
                limit: PAGES,
            });
        }
        Mapping::new(self.pages, self.over).map_err(|source| Error::Map {
            pages: self.pages,
            source,
        })
    }

    fn explore_model(
        &self,
        model: Model,
        changes: Option<&Changes>,
        set_up: &mut dyn FnMut(&mut Scenario),
    ) -> Result<(Verdict, Met), Error> {
        let mut search = Search::new(model, self.map()?, self.limits);
        search.orders = changes.map(Orders::new);
        search.in_order = self.guarded_data;
        let checks = Rc::new(RefCell::new(Vec::new()));
        let mut scenario = |search: &Search| {
            let scenario = Scenario::new(&search.mapping, set_up)?;
            checks.replace(scenario.checks);
            Ok(SetUp {
                tasks: scenario.tasks,
                names: scenario.names,
            })
        };
        let mut failure: Option<Failure> = None;
        let mut until = None;
        let mut crashed = false;
        let mut ended = |search: &mut Search, execution: Execution| {
            let wrong = match execution {
                Execution::Wrong(wrong) => Some(wrong),
                Execution::Good => {
                    let failed = checks.take().into_iter().find_map(|check| check().err());
                    failed.map(Wrong::Claim)
                }
            };
            // A crash may corrupt any state, so no other execution follows.
            crashed |= matches!(wrong, Some(Wrong::Crash { .. }));
            if let Some(wrong) = wrong {
                let new = Failure::new(search, wrong);
                if failure.as_ref().is_none_or(|old| new.is_simpler_than(old)) {
                    failure = Some(new);
                }
            }
            // Another execution may show the same failure with fewer switches.
            let Stats {
                elapsed,
                executions,
                ..
            } = search.stats;
            let (time, count) = match failure {
                None => return true,
                Some(_) => {
                    *until.get_or_insert((elapsed + SIMPLER, executions + SIMPLER_EXECUTIONS))
                }
            };
            match self.simplify {
                _ if crashed => false,
                Simplify::Never => false,
                Simplify::Time => elapsed < time,
                Simplify::Executions => executions < count,
            }
        };
        let complete = search.explore(&mut scenario, &mut ended)?;
        let stats: Stats = search.stats;
        let verdict = Verdict {
            model,
            complete,
            stats,
            failure,
            crashed,
        };
        let met = search.orders.map(Orders::into_met);
        Ok((verdict, met.unwrap_or_default()))
    }
}

impl Scenario {
    fn new(mapping: &Mapping, set_up: &mut dyn FnMut(&mut Scenario)) -> Result<Scenario, Error> {
        let mut scenario = Scenario {
            memory: Memory::new(mapping.seen(), mapping.len()),
            names: Names::default(),
            tasks: Vec::new(),
            checks: Vec::new(),
        };
        match panic::catch_unwind(AssertUnwindSafe(|| set_up(&mut scenario))) {
            Ok(()) => Ok(scenario),
            Err(payload) => match payload.downcast::<Error>() {
                Ok(error) => Err(*error),
                Err(payload) => panic::resume_unwind(payload),
            },
        }
    }

    /// Ends the set-up with an error, which the exploration returns.
    pub(crate) fn refuse(&self, error: Error) -> ! {
        panic::resume_unwind(Box::new(error))
    }

    /// The shared memory. It is filled with zeros.
    pub fn memory(&self) -> Memory {
        self.memory
    }

    /// Adds a task that has to return: if it sleeps at the end, a signal was lost.
    pub fn task(&mut self, name: &str, body: impl FnOnce() + 'static) {
        self.add(name, true, Box::new(body));
    }

    /// Adds a task that may sleep at the end, such as a device that waits for more requests.
    pub fn background(&mut self, name: &str, body: impl FnOnce() + 'static) {
        self.add(name, false, Box::new(body));
    }

    fn add(&mut self, name: &str, must: bool, body: Box<dyn FnOnce()>) {
        self.tasks.push(Spec {
            name: name.to_string(),
            must,
            body,
        });
    }

    /// Adds a place where a task can sleep, with the names of its bells: the first is `bell(0)`.
    pub fn sleeper(&mut self, name: &str, bells: &[&str]) -> Sleeper {
        Sleeper::new(self.add_word(name, bells, true))
    }

    /// Adds the state of a notification that is not an eventfd, with the names of its bits from bit 0 on. All are
    /// clear.
    pub fn word(&mut self, name: &str, bits: &[&str]) -> Word {
        Word::new(self.add_word(name, bits, false))
    }

    fn add_word(&mut self, name: &str, bits: &[&str], is_sleeper: bool) -> u16 {
        let memory = self.memory.len();
        let offset = memory + 8 * self.names.words.len();
        self.names.words.push(WordNames {
            name: name.to_string(),
            bits: bits.iter().map(|bit| (*bit).to_string()).collect(),
            is_sleeper,
        });
        match u16::try_from(offset) {
            // The word's bytes also have offsets.
            Ok(offset) if offset <= u16::MAX - 8 => offset,
            _ => self.refuse(Error::TooManyWords {
                words: self.names.words.len(),
                memory,
            }),
        }
    }

    /// Names a range of bytes of the shared memory, for traces.
    pub fn name(&mut self, at: usize, len: usize, name: &str) {
        self.name_as(at, len, name, Meaning::Number);
    }

    /// Like [`name`](Self::name), for a field whose values are shown in a different form than as numbers.
    pub(crate) fn name_as(&mut self, at: usize, len: usize, name: &str, meaning: Meaning) {
        self.names.ranges.push(Named {
            at,
            len,
            name: name.to_string(),
            meaning,
        });
    }

    /// Adds a check at the end of each execution in which the tasks returned.
    pub fn at_end(&mut self, check: impl FnOnce() -> Result<(), String> + 'static) {
        self.checks.push(Box::new(check));
    }
}

impl fmt::Debug for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tasks: Vec<&str> = self.tasks.iter().map(|task| task.name.as_str()).collect();
        f.debug_struct("Scenario")
            .field("memory", &self.memory)
            .field("tasks", &tasks)
            .finish_non_exhaustive()
    }
}
