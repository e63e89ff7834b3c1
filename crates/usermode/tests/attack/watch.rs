//! Watches calls to the backend: a call that hangs ends this process, with a line that names the call. The caller may
//! never return, so a panic on another thread would not help.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::{Duration, Instant};

use testbed::HANG;
use testbed::process::{children_of, stat};

use vmbell::sync::Mutex;

/// The calls in progress, and a record of earlier calls.
#[derive(Debug, Default)]
pub struct Watch {
    under_way: Mutex<BTreeMap<u64, (&'static str, Instant)>>,
    /// The longest call of each kind, and its round.
    longest: Mutex<BTreeMap<&'static str, (Duration, String)>>,
    /// How often each noted event happened.
    notes: Mutex<BTreeMap<String, u64>>,
    /// The round, for messages.
    round: Mutex<String>,
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock()
}

impl Watch {
    /// Starts a thread that checks until the process ends.
    pub fn start() -> &'static Self {
        let watch: &'static Self = Box::leak(Box::default());
        let look = move || {
            loop {
                std::thread::sleep(Duration::from_millis(100));
                watch.look();
            }
        };
        std::thread::Builder::new()
            .name("watch".into())
            .spawn(look)
            .unwrap();
        watch
    }

    fn look(&self) {
        let overdue = lock(&self.under_way)
            .values()
            .find(|(_, since)| since.elapsed() > HANG)
            .map(|(name, _)| *name);
        if let Some(name) = overdue {
            println!(
                "hang in {}: {name} takes more than {HANG:?}",
                lock(&self.round)
            );
            for pid in children_of(std::process::id().cast_signed()) {
                let state = stat(pid).map_or("gone".into(), |stat| stat[0].clone());
                println!("its child process {pid} is in state {state}");
            }
            // The sandboxes of this process end with it.
            std::process::abort();
        }
    }

    /// Begins a new round.
    pub fn begin(&self, round: String) {
        *lock(&self.round) = round;
    }

    /// Makes a call that must return: one that takes [`HANG`] counts as hung.
    pub fn call<T>(&self, name: &'static str, call: impl FnOnce() -> T) -> T {
        let begin = Instant::now();
        let key = {
            let mut calls = lock(&self.under_way);
            let key = calls.last_key_value().map_or(0, |(key, _)| key + 1);
            calls.insert(key, (name, begin));
            key
        };
        let _end = End { watch: self, key };
        call()
    }

    /// Counts an event.
    pub fn note(&self, what: impl Into<String>) {
        *lock(&self.notes).entry(what.into()).or_default() += 1;
    }

    /// Returns the longest calls, and what was counted.
    pub fn summary(&self) -> String {
        let mut text = String::new();
        for (name, (time, round)) in lock(&self.longest).iter() {
            let _ = writeln!(text, "  longest {name}: {time:.1?}, in {round}");
        }
        for (what, count) in lock(&self.notes).iter() {
            let _ = writeln!(text, "  {count} times: {what}");
        }
        text
    }
}

/// Ends the record of a call when the value is dropped, even by a panic.
struct End<'w> {
    watch: &'w Watch,
    key: u64,
}

impl Drop for End<'_> {
    fn drop(&mut self) {
        let Some((name, since)) = lock(&self.watch.under_way).remove(&self.key) else {
            return;
        };
        let mut longest = lock(&self.watch.longest);
        let (longest, round) = longest.entry(name).or_default();
        let time = since.elapsed();
        if time > *longest {
            (*longest, *round) = (time, lock(&self.watch.round).clone());
        }
    }
}
