//! A tracing instance, with the synthetic events that its triggers need.
//!
//! An instance is a folder in tracefs, and neither it nor a synthetic event ends with the process that made it. Their names have
//! the process' number and start time, so that it is known when they are left over. `guard` removes them if the process is killed.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use super::TracefsError;
use crate::process;

/// Where tracefs is mounted, by kernels of today and before.
const PLACES: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];
const PREFIX: &str = "vmbell-top-";
/// How often, and how far apart, a busy instance is tried to be removed.
const TRIES: u32 = 100;
const PAUSE: Duration = Duration::from_millis(20);
/// The folders of events that have triggers.
const GROUPS: [&str; 2] = ["kvm", "synthetic"];

/// An instance by its name.
#[derive(Clone, Debug)]
pub(super) struct Instance {
    /// Where tracefs is mounted.
    tracefs: PathBuf,
    name: String,
}

impl Instance {
    /// That of this process. It does not exist yet.
    pub(super) fn of_this_process() -> Result<Self, TracefsError> {
        let tracefs = mounted(&PLACES.map(Path::new))?.to_owned();
        let pid = std::process::id();
        let started = process::started(Path::new("/proc"), pid).unwrap_or_default();
        let name = format!("{PREFIX}{pid}-{started}");
        Ok(Self { tracefs, name })
    }

    /// That of a name, unless no process can have made it.
    pub(super) fn of_name(tracefs: &Path, name: &str) -> Option<Self> {
        owner(name)?;
        Some(Self {
            tracefs: tracefs.to_owned(),
            name: name.to_owned(),
        })
    }

    /// The name of a synthetic event of it.
    pub(super) fn synthetic(&self, what: &str) -> String {
        format!("{}-{what}", self.name).replace('-', "_")
    }

    pub(super) fn tracefs(&self) -> &Path {
        &self.tracefs
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    fn folder(&self) -> PathBuf {
        self.tracefs.join("instances").join(&self.name)
    }

    /// The folder of an event, such as `kvm/kvm_exit`.
    fn event(&self, event: &str) -> PathBuf {
        self.folder().join("events").join(event)
    }

    pub(super) fn create(&self) -> Result<(), TracefsError> {
        // With lockdown no file of tracefs can be opened, and the error of the folder does not say why.
        let path = self.tracefs.join("current_tracer");
        File::open(&path).map_err(|source| TracefsError::explain("open", &path, source))?;
        let folder = self.folder();
        fs::create_dir(&folder).map_err(|source| TracefsError::explain("make", &folder, source))
    }

    /// Defines a synthetic event with these fields.
    pub(super) fn define(&self, what: &str, fields: &str) -> Result<(), TracefsError> {
        let path = self.tracefs.join("synthetic_events");
        if !path.exists() {
            return Err(TracefsError::NoOption("CONFIG_SYNTH_EVENTS"));
        }
        append(&path, &format!("{} {fields}", self.synthetic(what)))
            .map_err(|source| TracefsError::explain("write", &path, source))
    }

    /// Adds a trigger to an event.
    pub(super) fn add(&self, event: &str, trigger: &str) -> Result<(), TracefsError> {
        let folder = self.event(event);
        if !folder.exists() {
            return Err(TracefsError::NoEvent(event.to_owned()));
        }
        if !folder.join("hist").exists() {
            return Err(TracefsError::NoOption("CONFIG_HIST_TRIGGERS"));
        }
        let path = folder.join("trigger");
        append(&path, trigger).map_err(|source| TracefsError::explain("write", &path, source))
    }

    /// What the histograms of an event have counted; nothing if it has none.
    pub(super) fn hist(&self, event: &str) -> Result<String, TracefsError> {
        let path = self.event(event).join("hist");
        match fs::read_to_string(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound && self.folder().exists() => {
                Ok(String::new())
            }
            read => read.map_err(|source| TracefsError::explain("read", &path, source)),
        }
    }

    /// Removes the instance and its synthetic events, as far as they exist.
    pub(super) fn remove(&self) -> io::Result<()> {
        let folder = self.folder();
        let mut tries = 0..TRIES;
        loop {
            self.remove_triggers();
            match fs::remove_dir(&folder) {
                Ok(()) => break,
                Err(error) if error.kind() == ErrorKind::NotFound => break,
                // A killed process closes its files a moment later, or somebody looks into the folder.
                Err(error) if tries.next().is_none() => return Err(error),
                Err(_) => thread::sleep(PAUSE),
            }
        }
        let path = self.tracefs.join("synthetic_events");
        let prefix = self.synthetic("");
        for line in fs::read_to_string(&path).unwrap_or_default().lines() {
            if line.starts_with(&prefix) {
                let name = line.split_whitespace().next().unwrap_or_default();
                append(&path, &format!("!{name}"))?;
            }
        }
        Ok(())
    }

    /// Removes all triggers: the kernel keeps an instance with variables that triggers refer to. Those that refer are first.
    fn remove_triggers(&self) {
        for refers in [true, false] {
            for group in GROUPS {
                let events = fs::read_dir(self.event(group)).into_iter().flatten();
                for event in events.flatten() {
                    let path = event.path().join("trigger");
                    let triggers = fs::read_to_string(&path).unwrap_or_default();
                    for trigger in triggers.lines().filter(|line| !line.starts_with('#')) {
                        if trigger.contains(":onmatch(") == refers {
                            let trigger = trigger.split(" [").next().unwrap_or_default();
                            // What fails is tried again.
                            let _ = append(&path, &format!("!{trigger}"));
                        }
                    }
                }
            }
        }
    }
}

/// Removes the instances of processes that have ended. One that another process removes at the same time is no error.
pub(super) fn remove_left_over() {
    let Ok(tracefs) = mounted(&PLACES.map(Path::new)) else {
        return;
    };
    for name in left_over(tracefs, Path::new("/proc")) {
        if let Some(instance) = Instance::of_name(tracefs, &name) {
            let _ = instance.remove();
        }
    }
}

/// The names of instances whose processes have ended; also of those that have only a synthetic event left.
fn left_over(tracefs: &Path, proc: &Path) -> Vec<String> {
    let entries = fs::read_dir(tracefs.join("instances"))
        .into_iter()
        .flatten();
    let folders = entries.flatten().map(|entry| entry.file_name());
    let mut names: Vec<String> = folders.filter_map(|name| name.into_string().ok()).collect();
    let events = fs::read_to_string(tracefs.join("synthetic_events")).unwrap_or_default();
    let of_event = |line: &str| {
        let name = line.split_whitespace().next()?.replace('_', "-");
        Some(name.rsplit_once('-')?.0.to_owned())
    };
    names.extend(events.lines().filter_map(of_event));
    names.sort();
    names.dedup();
    names.retain(|name| {
        owner(name).is_some_and(|(pid, started)| process::started(proc, pid) != Some(started))
    });
    names
}

/// The process in an instance's name: its number, and when it started.
fn owner(name: &str) -> Option<(u32, u64)> {
    let (pid, started) = name.strip_prefix(PREFIX)?.split_once('-')?;
    Some((pid.parse().ok()?, started.parse().ok()?))
}

/// The first of the folders that is a tracefs.
fn mounted<'p>(places: &[&'p Path]) -> Result<&'p Path, TracefsError> {
    for place in places {
        match fs::metadata(place.join("instances")) {
            Ok(_) => return Ok(place),
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(source) => return Err(TracefsError::explain("read", place, source)),
        }
    }
    Err(TracefsError::NotMounted)
}

/// Writes a line in one call, as the kernel expects it.
fn append(path: &Path, line: &str) -> io::Result<()> {
    let mut file = OpenOptions::new().append(true).open(path)?;
    file.write_all(line.as_bytes())
}

#[cfg(test)]
#[path = "instance_test.rs"]
mod tests;
