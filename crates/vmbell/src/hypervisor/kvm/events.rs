//! Counts the events of a guest with KVM's tracepoints, or with the vCPUs' statistics if this process may not
//! use tracepoints.
//!
//! The counter of a tracepoint follows the thread that opens it and all threads that this thread starts later
//! (Linux `perf_event_open(2)`, `inherit`), so events of other guests are left out. Events on the kernel's own
//! threads are left out too.

use std::path::Path;
use std::sync::Arc;
use std::{fs, io};

use perf_event::events::Tracepoint;
use perf_event::{Builder, Counter};

use super::super::{EventCounter, EventCounts};
use super::vm::Counts;

/// Where the kernel lists its tracepoints (`tracefs`).
const TRACEPOINTS: &str = "/sys/kernel/tracing/events/kvm";

/// The tracepoints if they can be opened, else the statistics.
pub fn counter(vcpus: Vec<Arc<Counts>>) -> Box<dyn EventCounter> {
    match Tracepoints::open() {
        Ok(tracepoints) => Box::new(tracepoints),
        Err(error) => {
            let source = format!("statistics of the vcpus; no tracepoints here: {error}");
            Box::new(Statistics { source, vcpus })
        }
    }
}

/// One counter for each tracepoint.
#[derive(Debug)]
struct Tracepoints(Vec<(String, Counter)>);

impl Tracepoints {
    fn open() -> io::Result<Self> {
        let failed = |what: &Path, error: io::Error| {
            let text = format!("{}: {error}", what.display());
            io::Error::new(error.kind(), text)
        };
        let folder = Path::new(TRACEPOINTS);
        let mut counters = Vec::new();
        for entry in fs::read_dir(folder).map_err(|error| failed(folder, error))? {
            let entry = entry?;
            let id = entry.path().join("id");
            // The files beside the tracepoints' folders control the whole group.
            if !entry.file_type()?.is_dir() {
                continue;
            }
            let text = fs::read_to_string(&id).map_err(|error| failed(&id, error))?;
            let number = text.trim().parse().map_err(io::Error::other)?;
            let counter = Builder::new(Tracepoint::with_id(number))
                .observe_self()
                .any_cpu()
                .include_kernel()
                .inherit(true)
                .enabled(true)
                .build()
                .map_err(|error| failed(Path::new("perf_event_open"), error))?;
            let name = entry.file_name().to_string_lossy().into_owned();
            counters.push((format!("kvm:{name}"), counter));
        }
        Ok(Self(counters))
    }
}

impl EventCounter for Tracepoints {
    fn source(&self) -> &str {
        "tracepoints of the kernel"
    }

    fn exits(&self) -> &str {
        "kvm:kvm_exit"
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
