//! A trace buffer of our own: an instance of tracefs, with KVM's events of one program and its children, or of all.
//!
//! Linux `Documentation/trace/ftrace.rst`: a folder made in `instances` is a buffer with its own events, filters and options,
//! and is gone when the folder is removed. `set_event_pid` names the threads whose events are recorded, and with the
//! option `event-fork` the threads and processes that these start are added. An instance lives as long as its value, which holds
//! a file of it open: the kernel removes no instance with an open file. One that nothing holds, since its process was killed, is
//! removed by the next command, which may be in another PID namespace.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use vmbell_lab::tracefs::{self, PLACES};

/// What the names of our instances begin with, and how many letters and digits follow by chance.
const PREFIX: &str = "vmbell-";
const RANDOM: usize = 8;
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
    /// A file of it, open until it is removed.
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

    /// Makes a folder whose name no other has, and holds a file of it.
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
            // Another command may have taken it for one that was left.
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

/// Removes our instances that nothing holds.
fn remove_unused(instances: &Path) {
    let is_ours = |name: &str| {
        let random = name.strip_prefix(PREFIX);
        random.is_some_and(|random| {
            random.len() == RANDOM && random.bytes().all(|byte| byte.is_ascii_alphanumeric())
        })
    };
    for entry in fs::read_dir(instances).into_iter().flatten().flatten() {
        if entry.file_name().to_str().is_some_and(is_ours) {
            // One that is held is busy and stays.
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
