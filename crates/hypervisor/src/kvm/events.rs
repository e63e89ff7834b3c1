//! Counts the events of a guest with KVM's tracepoints, or with the vCPUs' statistics if this process may not
//! use tracepoints.
//!
//! The counter of a tracepoint follows the thread that opens it and all threads that this thread starts later
//! (Linux `perf_event_open(2)`, `inherit`), so events of other guests are left out. Events on the kernel's own
//! threads are left out too. Exits are counted by reason as well, with a filter on a field of their tracepoint.

use std::ffi::CString;
use std::path::Path;
use std::sync::Arc;
use std::{fs, io};

use perf_event::events::Tracepoint;
use perf_event::{Builder, Counter};

use super::super::measure::{EventCounter, EventCounts};
use super::arch::exit_reasons::FIELD;
use super::ioctl;
use super::vm::Counts;

/// Where the kernel lists its tracepoints (`tracefs`).
const TRACEPOINTS: &str = "/sys/kernel/tracing/events/kvm";

/// The name of the tracepoint of exits.
const EXITS: &str = "kvm:kvm_exit";

/// The tracepoints if they can be opened, else the statistics. `reasons` are the numbers and names of exit
/// reasons, which are counted each by itself too.
pub fn counter(vcpus: Vec<Arc<Counts>>, reasons: &[(u32, &str)]) -> Box<dyn EventCounter> {
    match Tracepoints::open(reasons) {
        Ok(tracepoints) => Box::new(tracepoints),
        Err(error) => {
            let source = format!("statistics of the vcpus; no tracepoints here: {error}");
            Box::new(Statistics { source, vcpus })
        }
    }
}

/// One counter for each tracepoint, and one for each reason of an exit.
#[derive(Debug)]
struct Tracepoints(Vec<(String, Counter)>);

impl Tracepoints {
    fn open(reasons: &[(u32, &str)]) -> io::Result<Self> {
        let folder = Path::new(TRACEPOINTS);
        let mut counters = Vec::new();
        for entry in fs::read_dir(folder).map_err(|error| failed(folder, error))? {
            let entry = entry?;
            // The files beside the tracepoints' folders control the whole group.
            if !entry.file_type()?.is_dir() {
                continue;
            }
            let name = format!("kvm:{}", entry.file_name().to_string_lossy());
            if name == EXITS {
                for (number, reason) in reasons {
                    let counter = open(&entry.path())?;
                    let filter = CString::new(format!("{FIELD} == {number}"))?;
                    ioctl::set_filter(&counter, &filter)
                        .map_err(|error| failed(Path::new("PERF_EVENT_IOC_SET_FILTER"), error))?;
                    counters.push((format!("{EXITS}:{reason}"), counter));
                }
            }
            counters.push((name, open(&entry.path())?));
        }
        Ok(Self(counters))
    }
}

/// A running counter of the tracepoint in `folder`.
fn open(folder: &Path) -> io::Result<Counter> {
    let id = folder.join("id");
    let text = fs::read_to_string(&id).map_err(|error| failed(&id, error))?;
    let number = text.trim().parse().map_err(io::Error::other)?;
    Builder::new(Tracepoint::with_id(number))
        .observe_self()
        .any_cpu()
        .include_kernel()
        .inherit(true)
        .enabled(true)
        .build()
        .map_err(|error| failed(Path::new("perf_event_open"), error))
}

fn failed(what: &Path, error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", what.display()))
}

impl EventCounter for Tracepoints {
    fn source(&self) -> &str {
        "tracepoints of the kernel"
    }

    fn exits(&self) -> &str {
        EXITS
    }

    fn read(&mut self) -> io::Result<EventCounts> {
        let counters = self.0.iter_mut();
        let read = |(name, counter): &mut (String, Counter)| Ok((name.clone(), counter.read()?));
        counters.map(read).collect()
    }
}

/// The sums of the vCPUs' statistics.
#[derive(Debug)]
struct Statistics {
    source: String,
    vcpus: Vec<Arc<Counts>>,
}

impl EventCounter for Statistics {
    fn source(&self) -> &str {
        &self.source
    }

    fn exits(&self) -> &str {
        "exits"
    }

    fn read(&mut self) -> io::Result<EventCounts> {
        let mut sums = EventCounts::new();
        for vcpu in &self.vcpus {
            for (name, value) in vcpu.statistics.all()? {
                *sums.entry(name).or_default() += value;
            }
        }
        Ok(sums)
    }
}
