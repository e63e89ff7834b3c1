//! Counts the events of a guest with KVM's tracepoints, or with the vCPUs' statistics if this process may not use
//! tracepoints. Any thread reads the counts.

use std::ffi::CString;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use kvm_ioctls::VcpuFd;
use perf_event::events::Tracepoint;
use perf_event::{Builder, Counter};

use super::super::measure::{EventCounter, EventCounts};
use super::arch::exits::{FIELD, HOST_INTERRUPTS};
use super::ioctl;
use super::vm::Counts;
use crate::Error;

/// Where the kernel lists its tracepoints (`tracefs`).
const TRACEPOINTS: &str = "/sys/kernel/tracing/events/kvm";

/// The name of the tracepoint of exits.
const EXITS: &str = "kvm:kvm_exit";

/// The tracepoints if they can be opened, otherwise the statistics. `reasons` are the numbers and names of exit
/// reasons, which are counted each by itself too.
pub fn counter(vcpus: Vec<Arc<Counts>>, reasons: &[(u32, &str)]) -> Box<dyn EventCounter> {
    match Tracepoints::open(reasons) {
        Ok(tracepoints) => Box::new(tracepoints),
        Err(error) => {
            let source = format!("statistics of the vcpus; no tracepoints here: {error}");
            Box::new(StatisticsCounter { source, vcpus })
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
            // The files next to the tracepoints' folders control the whole group.
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
struct StatisticsCounter {
    source: String,
    vcpus: Vec<Arc<Counts>>,
}

impl EventCounter for StatisticsCounter {
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

const HEADER: usize = 24;
const DESCRIPTOR: usize = 16;
/// The bits of a descriptor's flags that hold type and unit; both are 0 for a count of events.
const KIND: u32 = 0xff;

/// A bound on the number of counters and on the length of their names: a file that exceeds it has an unknown
/// format.
const SANE: u32 = 4096;

/// The statistics file of a vCPU, with the offsets of the counters that are read often.
#[derive(Debug)]
pub struct Statistics {
    file: File,
    exits: u64,
    host_interrupts: Option<u64>,
}

impl Statistics {
    pub fn open(vcpu: &VcpuFd) -> Result<Self, Error> {
        let failed = Error::system("read the vcpu's statistics (KVM_GET_STATS_FD)");
        let file = ioctl::statistics(vcpu).map_err(failed)?;
        let all = list(&file).map_err(failed)?;
        let exits = find(&all, "exits").map_err(failed)?;
        let host_interrupts = HOST_INTERRUPTS.map(|name| find(&all, name));
        let host_interrupts = host_interrupts.transpose().map_err(failed)?;
        Ok(Self {
            file,
            exits,
            host_interrupts,
        })
    }

    /// How often the vCPU has left guest code for a reason of the guest: exits for interrupts of the host are
    /// subtracted where the kernel counts them.
    pub fn exits(&self) -> io::Result<u64> {
        let all = self.value(self.exits)?;
        let host_interrupts = self.host_interrupts.map(|offset| self.value(offset));
        Ok(all.saturating_sub(host_interrupts.transpose()?.unwrap_or_default()))
    }

    /// All counts of events by the kernel's names.
    pub fn all(&self) -> io::Result<Vec<(String, u64)>> {
        let read = |counter: Described| Ok((counter.name, self.value(counter.offset)?));
        list(&self.file)?.into_iter().map(read).collect()
    }

    fn value(&self, offset: u64) -> io::Result<u64> {
        let mut bytes = [0; 8];
        self.file.read_exact_at(&mut bytes, offset)?;
        Ok(u64::from_ne_bytes(bytes))
    }
}

/// The offset in the file of the counter with this name.
fn find(all: &[Described], name: &str) -> io::Result<u64> {
    let found = all.iter().find(|counter| counter.name == name);
    let missing = || io::Error::other(format!("there is no counter {name}"));
    Ok(found.ok_or_else(missing)?.offset)
}

/// The name and the offset of a counter that is one number.
struct Described {
    name: String,
    offset: u64,
}

/// Lists the counters that count events and are one number each.
fn list(file: &File) -> io::Result<Vec<Described>> {
    let mut header = [0; HEADER];
    file.read_exact_at(&mut header, 0)?;
    let name_size = u32_at(&header, 4);
    let count = u32_at(&header, 8);
    let descriptors = u32_at(&header, 16);
    let data = u32_at(&header, 20);
    if name_size > SANE || count > SANE {
        return Err(io::Error::other(format!(
            "{count} counters with names of {name_size} bytes"
        )));
    }
    let size = DESCRIPTOR + name_size as usize;
    let mut table = vec![0; size * count as usize];
    file.read_exact_at(&mut table, descriptors.into())?;
    let descriptors = table.chunks_exact(size).filter(|descriptor| {
        let (flags, numbers) = (u32_at(descriptor, 0), u32_at(descriptor, 4) >> 16);
        flags & KIND == 0 && numbers == 1
    });
    let describe = |descriptor: &[u8]| {
        let name = descriptor[DESCRIPTOR..].split(|byte| *byte == 0).next();
        Described {
            name: String::from_utf8_lossy(name.unwrap_or_default()).into_owned(),
            offset: u64::from(data) + u64::from(u32_at(descriptor, 8)),
        }
    };
    Ok(descriptors.map(describe).collect())
}

/// The 32-bit number at `offset`. All callers use constant offsets inside their buffers.
fn u32_at(bytes: &[u8], offset: usize) -> u32 {
    bytes
        .get(offset..offset + 4)
        .and_then(|bytes| bytes.try_into().ok())
        .map_or(0, u32::from_ne_bytes)
}
