//! Samples what vCPUs wait for in their VMM, without tracing and at no cost to the VMs.
//!
//! A VMM maps a page of each vCPU, `kvm_run`. KVM writes the exit reason there when `KVM_RUN` returns, and 0 when the
//! vCPU enters again. So the page shows whether the vCPU is in its VMM, and for which access. It is read at irregular
//! times, so that samples do not follow a guest's timer. It belongs to the VMM, which may write anything there.
#![allow(
    unsafe_code,
    reason = "process_vm_readv(2) takes addresses of memory as numbers"
)]

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::names::Space;
use crate::names::{EXIT_IO, EXIT_MMIO, EXIT_RDMSR, EXIT_WRMSR};

/// The first Linux that is known to write 0 when a vCPU enters. 6.1 does not.
const SINCE: (u32, u32) = (6, 12);
/// The mean time between two samples of a vCPU, in microseconds.
const PERIOD: u64 = 10_000;
/// The maximum number of different places that are counted for a process.
const PLACES: usize = 1 << 10;
/// How many bytes of `kvm_run` are read: up to the end of an MMIO exit's access.
const LENGTH: usize = 56;

/// Where a vCPU was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SampledPlace {
    /// In KVM or in the guest.
    Kvm,
    /// In the VMM, for an access.
    Access {
        /// The kind of address.
        space: Space,
        /// The address.
        address: u64,
        /// Whether the access is a write.
        is_write: bool,
        /// The size in bytes; 0 if it is not a valid size of an access.
        size: u8,
    },
    /// In the VMM, for a different reason.
    Reason(u32),
    /// In the VMM, at a new place after `PLACES` different ones were seen.
    Other,
}

/// How often vCPUs were seen at each place since the start, by process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Samples {
    /// The counts.
    pub counts: HashMap<(u32, SampledPlace), u64>,
    /// The number of processes whose memory this process may not read.
    pub refused: usize,
}

/// Why there are no samples.
#[derive(Debug, thiserror::Error)]
pub enum SamplerError {
    /// The kernel is too old.
    #[error(
        "Linux {0} keeps the reason of a vCPU's last exit while it runs, unlike Linux {major}.{minor}", major = SINCE.0, minor = SINCE.1
    )]
    Kernel(String),
    /// The thread cannot be started.
    #[error("cannot start a thread")]
    Thread(#[source] io::Error),
}

/// A thread that samples until this value is dropped.
#[derive(Debug)]
pub(crate) struct Sampler {
    pages: Sender<BTreeMap<u32, Vec<u64>>>,
    samples: Arc<Mutex<Samples>>,
}

impl Sampler {
    /// Starts the thread, on a kernel of this release.
    pub(crate) fn start(release: &str) -> Result<Self, SamplerError> {
        if version(release) < Some(SINCE) {
            return Err(SamplerError::Kernel(release.to_owned()));
        }
        let (pages, incoming) = channel();
        let samples = Arc::new(Mutex::new(Samples::default()));
        let shared = Arc::clone(&samples);
        thread::Builder::new()
            .name("sampler".to_owned())
            .spawn(move || run(&incoming, &shared))
            .map_err(SamplerError::Thread)?;
        Ok(Self { pages, samples })
    }

    /// Returns the samples so far. From now on, samples `pages`, which are listed by process.
    pub(crate) fn read(&self, pages: BTreeMap<u32, Vec<u64>>) -> Samples {
        let mut samples = self.samples.lock().unwrap_or_else(PoisonError::into_inner);
        let seen = samples.clone();
        samples.counts.retain(|(pid, _), _| pages.contains_key(pid));
        // The thread outlives this value, so the send cannot fail.
        let _ = self.pages.send(pages);
        seen
    }
}

fn run(incoming: &Receiver<BTreeMap<u32, Vec<u64>>>, samples: &Mutex<Samples>) {
    let mut pages = BTreeMap::new();
    let mut random = 1_u64;
    let mut next = Instant::now();
    loop {
        match incoming.recv_timeout(next.saturating_duration_since(Instant::now())) {
            Ok(new) => pages = new,
            Err(RecvTimeoutError::Timeout) => {
                let looks = pages.iter().map(|(pid, pages)| (*pid, look(*pid, pages)));
                let looks: Vec<_> = looks.collect();
                let mut samples = samples.lock().unwrap_or_else(PoisonError::into_inner);
                samples.add(&looks);
                // Waits for 0.5 to 1.5 periods.
                random = random
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                let wait = PERIOD / 2 + (random >> 33) % PERIOD;
                next = Instant::now() + Duration::from_micros(wait);
            }
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

impl Samples {
    fn add(&mut self, looks: &[(u32, io::Result<Vec<SampledPlace>>)]) {
        let is_refused = |look: &&(u32, io::Result<Vec<SampledPlace>>)| {
            let error = look.1.as_ref().err();
            error.is_some_and(|error| error.kind() == io::ErrorKind::PermissionDenied)
        };
        self.refused = looks.iter().filter(is_refused).count();
        for (pid, places) in looks {
            for place in places.iter().flatten() {
                let is_new = !self.counts.contains_key(&(*pid, *place));
                let of_process = || self.counts.keys().filter(|(of, _)| of == pid).count();
                let place = match is_new && of_process() >= PLACES {
                    true => SampledPlace::Other,
                    false => *place,
                };
                *self.counts.entry((*pid, place)).or_default() += 1;
            }
        }
    }
}

/// Reads pages of a process. If a page is gone, it and the pages after it yield no place.
fn look(pid: u32, pages: &[u64]) -> io::Result<Vec<SampledPlace>> {
    let pid = libc::pid_t::try_from(pid).map_err(io::Error::other)?;
    let mut places = Vec::with_capacity(pages.len());
    for pages in pages.chunks(256) {
        let mut bytes = vec![[0_u8; LENGTH]; pages.len()];
        let local = libc::iovec {
            iov_base: bytes.as_mut_ptr().cast(),
            iov_len: bytes.len() * LENGTH,
        };
        let remote = |page: &u64| libc::iovec {
            iov_base: std::ptr::without_provenance_mut(usize::try_from(*page).unwrap_or_default()),
            iov_len: LENGTH,
        };
        let remote: Vec<_> = pages.iter().map(remote).collect();
        let count = remote.len() as libc::c_ulong;
        // SAFETY: `local` is the whole of `bytes`, which this function owns. Addresses of the other process are not accessed
        // in this one.
        let read =
            unsafe { libc::process_vm_readv(pid, &raw const local, 1, remote.as_ptr(), count, 0) };
        let read = usize::try_from(read).map_err(|_| io::Error::last_os_error())?;
        places.extend(bytes.iter().take(read / LENGTH).map(place));
    }
    Ok(places)
}

/// Decodes the start of a `kvm_run`.
fn place(run: &[u8; LENGTH]) -> SampledPlace {
    let number = |at: usize, size: usize| {
        let bytes = run[at..at + size].iter().rev();
        bytes.fold(0, |number, byte| number << 8 | u64::from(*byte))
    };
    let size = |size: u64| match size {
        1 | 2 | 4 | 8 => u8::try_from(size).unwrap_or_default(),
        _ => 0,
    };
    let access = |space, address, is_write, size| SampledPlace::Access {
        space,
        address,
        is_write,
        size,
    };
    match u32::try_from(number(8, 4)).unwrap_or(u32::MAX) {
        0 => SampledPlace::Kvm,
        EXIT_IO => access(
            Space::Port,
            number(34, 2),
            run[32] != 0,
            size(number(33, 1)),
        ),
        EXIT_MMIO => access(
            Space::Mmio,
            number(32, 8),
            run[52] != 0,
            size(number(48, 4)),
        ),
        reason @ (EXIT_RDMSR | EXIT_WRMSR) => {
            access(Space::Msr, number(44, 4), reason == EXIT_WRMSR, 0)
        }
        reason => SampledPlace::Reason(reason),
    }
}

/// The first two numbers of a kernel's release.
fn version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|letter: char| !letter.is_ascii_digit());
    let mut number = || numbers.next()?.parse().ok();
    Some((number()?, number()?))
}

#[cfg(test)]
#[path = "sampler_test.rs"]
mod tests;
