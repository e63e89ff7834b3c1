//! A trace buffer of our own: an instance of tracefs, with KVM's events of one program and its children, or of all.
//!
//! Linux `Documentation/trace/ftrace.rst`: a folder made in `instances` is a buffer with its own events, filters and options,
//! and is gone when the folder is removed. `set_event_pid` names the threads whose events are recorded, and with the
//! option `event-fork` the threads and processes that these start are added. An instance lives as long as its value; one
//! whose process was killed is removed by the next command.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

/// Where tracefs is mounted, by kernels of today and before.
const PLACES: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];
/// What the names of our instances begin with; the number of the process follows.
const PREFIX: &str = "vmbell-";
/// The buffers of all CPUs together, and the least and the most of each, in KiB. One event takes about 50 bytes.
const BUFFERS: usize = 64 << 10;
const LEAST: usize = 1 << 10;
const MOST: usize = 8 << 10;
/// How often, and how far apart, a busy instance is tried to be removed.
const LOOKS: u32 = 50;
const LOOK: Duration = Duration::from_millis(20);

/// Why the exits of other programs cannot be counted here.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TracefsError {
    /// Tracefs is mounted nowhere.
    #[error("tracefs is not mounted at {}", PLACES[0])]
    NotMounted,
    /// Its files may not be used.
    #[error("this needs root and tracefs: {} does not open", path.display())]
    Denied {
        /// The file or folder.
        path: PathBuf,
    },
    /// The kernel does not have an event.
    #[error("the kernel has no event {event} (is KVM's module loaded?)")]
    NoEvent {
        /// The event.
        event: &'static str,
    },
    /// A file or folder of tracefs could not be used.
    #[error("{} cannot be {done}", path.display())]
    Failed {
        /// What was to be done with it.
        done: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
}

/// An event of KVM that is recorded.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WantedEvent {
    /// Its name.
    event: &'static str,
    /// The fields that it must have to be recorded; all without.
    filter: Option<&'static str>,
}

impl WantedEvent {
    /// All events with this name.
    pub(crate) const fn all(event: &'static str) -> Self {
        Self {
            event,
            filter: None,
        }
    }

    /// The events with this name whose fields pass the filter.
    pub(crate) const fn only(event: &'static str, filter: &'static str) -> Self {
        Self {
            event,
            filter: Some(filter),
        }
    }
}

/// Whose events are recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TracedThreads {
    /// Those of the calling thread, and of what it starts from then on.
    Children,
    /// Those of every program and of the kernel's own threads.
    All,
}

/// A trace buffer.
#[derive(Debug)]
pub(crate) struct TraceInstance {
    folder: PathBuf,
}

impl TraceInstance {
    /// Makes a buffer that records from now on.
    pub(crate) fn new(wanted: &[WantedEvent], whose: TracedThreads) -> Result<Self, TracefsError> {
        let place = place(&PLACES.map(Path::new), wanted)?;
        let instances = place.join("instances");
        remove_stale(&instances, |id| Path::new("/proc").join(id).exists());
        let folder = instances.join(format!("{PREFIX}{}", std::process::id()));
        // One of an earlier process with this number; if it stays, that is said next.
        let _ = remove(&folder);
        fs::create_dir(&folder).map_err(failed("made", &folder))?;
        let instance = Self { folder };
        let cpus = std::thread::available_parallelism().map_or(1, usize::from);
        instance.set_up(cpus, wanted, whose)?;
        Ok(instance)
    }

    fn set_up(
        &self,
        cpus: usize,
        wanted: &[WantedEvent],
        whose: TracedThreads,
    ) -> Result<(), TracefsError> {
        let size = (BUFFERS / cpus).clamp(LEAST, MOST);
        self.write("buffer_size_kb", &size.to_string())?;
        // One counter for all CPUs: it says whether the events of a thread that moves are read in their order.
        self.write("trace_clock", "counter")?;
        if whose == TracedThreads::Children {
            self.write("options/event-fork", "1")?;
            self.write("set_event_pid", &this_thread()?)?;
        }
        for WantedEvent { event, filter } in wanted {
            if let Some(filter) = filter {
                self.write(&format!("events/kvm/{event}/filter"), filter)?;
            }
        }
        for WantedEvent { event, .. } in wanted {
            self.write(&format!("events/kvm/{event}/enable"), "1")?;
        }
        Ok(())
    }

    /// Opens the events for reading, which takes them out of the buffer. Reading does not wait.
    pub(crate) fn pipe(&self) -> Result<File, TracefsError> {
        let path = self.folder.join("trace_pipe");
        let mut options = OpenOptions::new();
        options.read(true).custom_flags(libc::O_NONBLOCK);
        options.open(&path).map_err(failed("read", &path))
    }

    /// Records no more.
    pub(crate) fn stop(&self) -> Result<(), TracefsError> {
        self.write("tracing_on", "0")
    }

    /// How many events the kernel had no room for.
    pub(crate) fn lost(&self) -> Result<u64, TracefsError> {
        let folder = self.folder.join("per_cpu");
        let mut lost = 0;
        for cpu in fs::read_dir(&folder).map_err(failed("read", &folder))? {
            let path = cpu.map_err(failed("read", &folder))?.path().join("stats");
            let text = fs::read_to_string(&path).map_err(failed("read", &path))?;
            lost += lost_in(&text);
        }
        Ok(lost)
    }

    /// Writes to a file that the kernel has made.
    fn write(&self, name: &str, text: &str) -> Result<(), TracefsError> {
        let path = self.folder.join(name);
        let file = OpenOptions::new().write(true).open(&path);
        let written = file.and_then(|mut file| file.write_all(text.as_bytes()));
        written.map_err(failed("written", &path))
    }
}

impl Drop for TraceInstance {
    fn drop(&mut self) {
        if remove(&self.folder).is_err() {
            // The next command removes it; until then nothing is to be slower for its events.
            let _ = self.write("events/enable", "0");
        }
    }
}

/// The first of the folders that is a tracefs with KVM's events.
fn place<'p>(places: &[&'p Path], wanted: &[WantedEvent]) -> Result<&'p Path, TracefsError> {
    for place in places {
        let events = place.join("events");
        match fs::metadata(&events) {
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::PermissionDenied => {
                return Err(TracefsError::Denied { path: place.into() });
            }
            Err(_) => continue,
        }
        let has = |event: &&str| events.join("kvm").join(event).exists();
        let mut events_wanted = wanted.iter().map(|wanted| wanted.event);
        return match events_wanted.find(|event| !has(event)) {
            Some(event) => Err(TracefsError::NoEvent { event }),
            None => Ok(place),
        };
    }
    Err(TracefsError::NotMounted)
}

/// Removes the instances of processes that are not there any more.
fn remove_stale(instances: &Path, is_alive: impl Fn(&str) -> bool) {
    let entries = fs::read_dir(instances).into_iter().flatten().flatten();
    for entry in entries {
        let name = entry.file_name();
        let id = name.to_str().and_then(|name| name.strip_prefix(PREFIX));
        let is_number = |id: &str| !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_digit());
        if id.is_some_and(|id| is_number(id) && !is_alive(id)) {
            // One that is still read, by a process that is not seen from here, is busy and stays.
            let _ = fs::remove_dir(entry.path());
        }
    }
}

/// Removes an instance. It is busy while somebody has a file of it open, who may be only having a look.
fn remove(folder: &Path) -> io::Result<()> {
    for _ in 0..LOOKS {
        match fs::remove_dir(folder) {
            Err(error) if error.kind() == ErrorKind::ResourceBusy => thread::sleep(LOOK),
            ended => return ended,
        }
    }
    fs::remove_dir(folder)
}

/// The number of the calling thread.
fn this_thread() -> Result<String, TracefsError> {
    let path = Path::new("/proc/thread-self");
    let target = fs::read_link(path).map_err(failed("read", path))?;
    let id = target.file_name().unwrap_or_default();
    Ok(id.to_string_lossy().into_owned())
}

/// The lost events in a CPU's statistics: overwritten ones, and those for which there was no place.
fn lost_in(stats: &str) -> u64 {
    let count = |line: &str| {
        let (name, count) = line.split_once(": ")?;
        let is_loss = ["overrun", "commit overrun", "dropped events"].contains(&name);
        is_loss.then(|| count.trim().parse::<u64>().ok()).flatten()
    };
    stats.lines().filter_map(count).sum()
}

fn failed<'p>(done: &'static str, path: &'p Path) -> impl Fn(io::Error) -> TracefsError + 'p {
    move |source| match source.kind() {
        ErrorKind::PermissionDenied => TracefsError::Denied { path: path.into() },
        _ => TracefsError::Failed {
            done,
            path: path.into(),
            source,
        },
    }
}

#[cfg(test)]
#[path = "instance_test.rs"]
mod tests;
