//! `cargo vmbell-check test --weaken`: each exploration of a test is also weakened, and recorded for the subcommand.

use std::env;
use std::fs;
use std::io::{IsTerminal, Write, stderr};
use std::panic::Location;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

use serde_json::{Map, Value, json};

use super::{Effect, Mutant, Outcome, Site, Source, Weakening, weaken};
use crate::error::Error;
use crate::explorer::{Explorer, Scenario};
use crate::report::{Failure, Report, Verdict};
use crate::search::Changes;

/// The folder of the records.
pub(crate) const FOLDER: &str = "VMBELL_CHECK_WEAKEN";
/// The only line to weaken, as `FILE:LINE`.
const SITE: &str = "VMBELL_CHECK_WEAKEN_SITE";
/// The maximum number of executions of an exploration with weaker orders.
const BOUND: &str = "VMBELL_CHECK_WEAKEN_BOUND";

/// The version of a record's fields, which the subcommand checks.
const VERSION: u64 = 2;

/// Where the explorations of this process are recorded.
pub(crate) struct Session {
    folder: PathBuf,
}

impl Session {
    /// The session that this process is part of, if any.
    pub(crate) fn from_env() -> Option<Session> {
        let folder = env::var_os(FOLDER)?.into();
        Some(Session { folder })
    }

    /// Explores a scenario, weakens its orders, and records the result. The report is that of the scenario as it is.
    pub(crate) fn run(
        &self,
        explorer: &Explorer,
        set_up: &mut dyn FnMut(&mut Scenario),
        scenario: &Location<'_>,
    ) -> Result<Report, Error> {
        let (report, met) = explorer.explore(Some(&Changes::None), set_up)?;
        let mut weaker = explorer.clone();
        if let Ok(site) = env::var(SITE)
            && let Some((file, line)) = site.rsplit_once(':')
        {
            weaker = weaker.only_at(file, line.parse().unwrap_or(0));
        }
        if let Some(bound) = env::var(BOUND).ok().and_then(|bound| bound.parse().ok()) {
            weaker = weaker.executions(bound);
        }
        let result = if !report.is_clean() {
            json!({ "refused": report.to_string() })
        } else if explorer.guarded_data {
            json!({ "refused": Error::GuardedData.to_string() })
        } else {
            let weakening = weaken(&weaker, &report, met, scenario, set_up)?;
            weakening_record(&weakening)
        };
        self.record(&report, scenario, result)?;
        Ok(report)
    }

    fn record(
        &self,
        report: &Report,
        scenario: &Location<'_>,
        mut record: Value,
    ) -> Result<(), Error> {
        static RECORDS: AtomicUsize = AtomicUsize::new(0);
        let number = RECORDS.fetch_add(1, Ordering::Relaxed);
        record["version"] = VERSION.into();
        record["program"] = program().into();
        record["test"] = test(scenario).into();
        record["number"] = number.into();
        record["unchanged"] = report.verdicts.iter().map(unchanged).collect();
        let path = self
            .folder
            .join(format!("{}-{number}.json", std::process::id()));
        fs::write(&path, record.to_string()).map_err(|source| Error::Record { path, source })
    }
}

/// The name of the test program, without the hash that cargo appends.
fn program() -> String {
    let path = env::current_exe().unwrap_or_default();
    let name = path.file_stem().unwrap_or_default().to_string_lossy();
    let (name, _) = name.rsplit_once('-').unwrap_or((&name, ""));
    name.to_string()
}

/// The name of the running test. With one thread, the harness runs all tests on the main thread.
fn test(scenario: &Location<'_>) -> String {
    let thread = thread::current();
    let name = thread.name().filter(|&name| name != "main");
    name.map_or_else(
        || format!("{}:{}", scenario.file(), scenario.line()),
        str::to_string,
    )
}

fn unchanged(verdict: &Verdict) -> Value {
    json!({ "model": verdict.model.to_string(), "executions": verdict.executions() })
}

fn weakening_record(weakening: &Weakening) -> Value {
    let together = weakening.minimal.orders.iter();
    let sites = weakening.sites.iter().zip(together);
    let sites: Vec<Value> = sites
        .map(|(site, together)| {
            let mut record = site_record(site);
            record["together"] = format!("{together:?}").into();
            record
        })
        .collect();
    json!({
        "sites": sites,
        "minimal": weakening.minimal.is_minimal,
        "mutants": weakening.mutants.iter().map(mutant_record).collect::<Vec<_>>(),
        "explorations": weakening.explorations,
        "executions": weakening.executions,
    })
}

fn site_record(site: &Site) -> Value {
    let effects = site.effects.iter();
    let effects = effects.map(|(model, effect)| (model.to_string(), effect_record(effect)));
    let mut record = source_record(&site.source);
    record["operation"] = site.operation.to_string().into();
    record["order"] = format!("{:?}", site.order).into();
    record["effects"] = effects.collect::<Map<_, _>>().into();
    record
}

fn source_record(source: &Source) -> Value {
    json!({
        "file": source.file,
        "path": source.path.to_string_lossy(),
        "line": source.line,
        "function": source.function,
        "owner": source.owner.to_string(),
    })
}

fn failure_record(failure: &Failure) -> Value {
    json!({ "what": failure.what.to_string(), "trace": failure.trace })
}

fn mutant_record(mutant: &Mutant) -> Value {
    let outcomes = mutant.outcomes.iter().map(|(model, outcome)| {
        let failure = match outcome {
            Outcome::Found(failure) => failure.as_ref().map(failure_record),
            Outcome::NotReached | Outcome::NotFound | Outcome::Limit => None,
        };
        let record = json!({ "result": outcome.in_words(), "breaks": failure });
        (model.to_string(), record)
    });
    json!({
        "store": source_record(&mutant.store),
        "past": source_record(&mutant.past),
        "operation": mutant.operation.to_string(),
        "is_ordered": mutant.is_ordered,
        "outcomes": outcomes.collect::<Map<_, _>>(),
    })
}

fn effect_record(effect: &Effect) -> Value {
    match effect {
        Effect::NotReached => json!("not reached"),
        Effect::NoDifference => json!("no difference"),
        Effect::Weakened {
            least,
            breaks,
            limit,
        } => {
            let breaks = breaks.iter().map(|weaker| {
                let mut record = failure_record(&weaker.failure);
                record["order"] = format!("{:?}", weaker.order).into();
                record
            });
            json!({
                "least": format!("{least:?}"),
                "limit": limit.map(|order| format!("{order:?}")),
                "breaks": breaks.collect::<Vec<_>>(),
            })
        }
    }
}

/// Shows the progress of weakening on a terminal.
pub(super) struct Progress {
    begun: Instant,
    all: usize,
    shown: bool,
}

impl Progress {
    /// `all` is the total number of orders to weaken and of stores to move.
    pub(super) fn new(all: usize) -> Progress {
        Progress {
            begun: Instant::now(),
            all,
            shown: env::var_os(FOLDER).is_some() && stderr().is_terminal(),
        }
    }

    /// Shows that `done` of the orders and stores were explored.
    pub(super) fn show(&self, done: usize) {
        if !self.shown {
            return;
        }
        let all = self.all;
        let left = match u32::try_from(done) {
            Ok(done) if done > 0 => {
                let rest = u32::try_from(all).unwrap_or(u32::MAX) - done;
                let seconds = (self.begun.elapsed() / done * rest).as_secs();
                format!(", about {seconds} s left")
            }
            _ => String::new(),
        };
        let thread = thread::current();
        let test = thread.name().unwrap_or_default();
        let text = format!("\rweakening the orders of {test}: {done} of {all}{left}\x1b[K");
        // A terminal that is gone needs no progress.
        let _ = stderr().write_all(text.as_bytes());
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.shown {
            let _ = stderr().write_all(b"\r\x1b[K");
        }
    }
}
