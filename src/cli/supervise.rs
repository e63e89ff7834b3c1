//! Keeps an eye on the measuring thread, so that even a subject that never returns ends in a report.
//!
//! Subjects are made, run and dropped on one thread. This one only waits: for its end, or, once the
//! limit has said stop, for a little longer. The process then ends with the thread still in it, and
//! sandboxes die with their parent.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::bench::{self, Entry, Observer, Options, Plan, Record, Status};

/// How long a subject may take to notice that it should stop.
const GRACE: Duration = Duration::from_secs(2);

/// How often the limit is looked at; rare enough not to disturb what is measured.
const LOOK: Duration = Duration::from_millis(100);

/// Measures `entries` on a thread of their own, and returns what is finished when the limit ends it.
pub(super) fn supervise(
    entries: Vec<Entry>,
    options: Options,
    plan: Plan,
    mut observer: impl Observer + Send + 'static,
) -> Result<Record> {
    let limit = options.limit;
    let record = Arc::new(Mutex::new(Record::of(&entries)));
    let shared = Arc::clone(&record);
    // Nothing is ever sent: the channel closes when the thread ends, however it ends.
    let (alive, ended) = mpsc::channel::<()>();
    thread::Builder::new()
        .name("bench".to_owned())
        .spawn(move || {
            let _alive = alive;
            bench::run(&entries, &options, &plan, &shared, &mut observer);
        })
        .context("cannot start the measuring thread")?;

    let mut told = None;
    while ended.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout) {
        let Some(stop) = limit.stop() else { continue };
        if told.get_or_insert_with(Instant::now).elapsed() >= GRACE {
            let mut record = snapshot(&record);
            give_up_running(&mut record, "did not stop when it was told to");
            record.stop(stop);
            return Ok(record);
        }
    }
    let mut record = snapshot(&record);
    give_up_running(&mut record, "its thread panicked");
    Ok(record)
}

fn snapshot(record: &Mutex<Record>) -> Record {
    record
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .clone()
}

/// The row that was being measured has failed, if it has nothing to show.
fn give_up_running(record: &mut Record, reason: &str) {
    if let Some(row) = record
        .running
        .and_then(|index| record.rows.get_mut(index))
        .filter(|row| row.samples.is_empty())
    {
        row.give_up(Status::Failed, reason.to_owned());
    }
}
