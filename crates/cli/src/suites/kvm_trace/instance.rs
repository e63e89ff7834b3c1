//! Our own trace buffer: an instance of tracefs with KVM's events, of one program and its children or of all programs.
//!
//! Linux `Documentation/trace/ftrace.rst`: a folder made in `instances` is a buffer with its own events, filters and
//! options, which exists until the folder is removed. `set_event_pid` names the threads whose events are recorded; the
//! option `event-fork` adds the threads and processes that these start. An instance lives as long as its
//! [`TraceInstance`], which keeps one of its files open, because the kernel does not remove an instance with an open
//! file. If a process is killed, the next command removes its instance, even from another PID namespace.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use vmbell_lab::tracefs::{self, PLACES};

/// How names of our instances begin, and how many random letters and digits follow.
const PREFIX: &str = "vmbell-";
const RANDOM: usize = 8;
/// The size of all CPUs' buffers together, and the minimum and maximum per CPU, in KiB. One event takes about 50 bytes.
const BUFFERS: usize = 64 << 10;
const LEAST: usize = 1 << 10;
const MOST: usize = 8 << 10;
/// How often, and at what interval, to try to remove a busy instance.
const LOOKS: u32 = 50;
const LOOK: Duration = Duration::from_millis(20);

/// Why the exits of other programs cannot be counted here.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TracefsError {
    /// Tracefs is not mounted.
    #[error("tracefs is not mounted at {}", PLACES[0])]
    NotMounted,
    /// This process is not permitted to open the files of tracefs.
    #[error("this needs root and tracefs: cannot open {}", path.display())]
    Denied {
        /// The file or folder.
        path: PathBuf,
    },
    /// The kernel lacks an event.
    #[error("the kernel has no event {event} (is KVM's module loaded?)")]
    NoEvent {
        /// The event.
        event: &'static str,
    },
    /// A file or folder of tracefs could not be used.
    #[error("{} cannot be {done}", path.display())]
    Failed {
        /// The failed operation.
        done: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The kernel's error.
        source: io::Error,
    },
}

/// An event of KVM to record.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WantedEvent {
    /// The event's name.
    event: &'static str,
    /// The filter on the event's fields; `None` records all.
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

/// The threads whose events are recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TracedThreads {
    /// The calling thread, and what it starts from then on.
    Children,
    /// Every program, and the kernel's threads.
    All,
}

/// A trace buffer.
#[derive(Debug)]
pub(crate) struct TraceInstance {
    folder: PathBuf,
    /// One of the instance's files, open until the instance is removed.
    held: Option<File>,
}

impl TraceInstance {
    /// Makes a buffer that records from now on.
    pub(crate) fn new(wanted: &[WantedEvent], whose: TracedThreads) -> Result<Self, TracefsError> {
        let place = place(&PLACES.map(Path::new), wanted)?;
        let instances = place.join("instances");
        remove_unused(&instances);
        let instance = Self::make(&instances)?;
        let cpus = std::thread::available_parallelism().map_or(1, usize::from);
        instance.set_up(cpus, wanted, whose)?;
        Ok(instance)
    }

    /// Makes a folder with a new name, and opens one of its files.
    fn make(instances: &Path) -> Result<Self, TracefsError> {
        let mut looks = 0;
        loop {
            looks += 1;
            let mut name = tempfile::Builder::new();
            let folder = name.prefix(PREFIX).rand_bytes(RANDOM).tempdir_in(instances);
            let folder = folder.map_err(failed("made", instances))?.keep();
            let path = folder.join("tracing_on");
            let error = match File::open(&path) {
                Ok(file) => {
                    let held = Some(file);
                    return Ok(Self { folder, held });
                }
                Err(error) => error,
            };
            let _ = fs::remove_dir(&folder);
            // Another command may have removed the folder, because nothing held it yet.
            if error.kind() != ErrorKind::NotFound || looks == LOOKS {
                return Err(failed("read", &path)(error));
            }
        }
    }

    fn set_up(
        &self,
        cpus: usize,
        wanted: &[WantedEvent],
        whose: TracedThreads,
    ) -> Result<(), TracefsError> {
        let size = (BUFFERS / cpus).clamp(LEAST, MOST);
        self.write("buffer_size_kb", &size.to_string())?;
        // This trace clock is one counter for all CPUs, so it orders the events of a thread that moves between CPUs.
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

    /// Opens the events for reading, which removes them from the buffer. Reading does not block.
    pub(crate) fn pipe(&self) -> Result<File, TracefsError> {
        let path = self.folder.join("trace_pipe");
        let mut options = OpenOptions::new();
        options.read(true).custom_flags(libc::O_NONBLOCK);
        options.open(&path).map_err(failed("read", &path))
    }

    /// Stops recording.
    pub(crate) fn stop(&self) -> Result<(), TracefsError> {
        self.write("tracing_on", "0")
    }

    /// The number of events that the kernel had no room for.
    pub(crate) fn lost(&self) -> Result<u64, TracefsError> {
        tracefs::lost(&self.folder).map_err(failed("read", &self.folder))
    }

    /// Writes to a file that the kernel has made.
    fn write(&self, name: &str, text: &str) -> Result<(), TracefsError> {
        let path = self.folder.join(name);
        tracefs::write(&path, text).map_err(failed("written", &path))
    }
}

impl Drop for TraceInstance {
    fn drop(&mut self) {
        self.held = None;
        if remove(&self.folder).is_err() {
            // The next command removes the instance; until then its events must not slow anything down.
            let _ = self.write("events/enable", "0");
        }
    }
}

/// The first of these folders that is a tracefs with KVM's events.
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

/// Removes our instances that no process holds.
fn remove_unused(instances: &Path) {
    let is_ours = |name: &str| {
        let random = name.strip_prefix(PREFIX);
        random.is_some_and(|random| {
            random.len() == RANDOM && random.bytes().all(|byte| byte.is_ascii_alphanumeric())
        })
    };
    for entry in fs::read_dir(instances).into_iter().flatten().flatten() {
        if entry.file_name().to_str().is_some_and(is_ours) {
            // An instance that a process holds is busy, and stays.
            let _ = fs::remove_dir(entry.path());
        }
    }
}

/// Removes an instance. While another process has one of its files open, for example to look at it, the instance is
/// busy.
fn remove(folder: &Path) -> io::Result<()> {
    for _ in 0..LOOKS {
        match fs::remove_dir(folder) {
            Err(error) if error.kind() == ErrorKind::ResourceBusy => thread::sleep(LOOK),
            ended => return ended,
        }
    }
    fs::remove_dir(folder)
}

/// The calling thread's ID.
fn this_thread() -> Result<String, TracefsError> {
    let path = Path::new("/proc/thread-self");
    let target = fs::read_link(path).map_err(failed("read", path))?;
    let id = target.file_name().unwrap_or_default();
    Ok(id.to_string_lossy().into_owned())
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
