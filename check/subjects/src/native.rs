//! Runs a driver and a device natively, without instrumentation, on two pinned threads that spin instead of sleeping.
//!
//! Detects a hang, in which both sides wait forever. A run without a hang proves nothing.
#![allow(unsafe_code)]

use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence};
use std::thread;
use std::time::{Duration, Instant};

use vmbell_check::Shape;

use crate::{Bells, Device, Driver, Site, Work, drive};

/// How long both sides wait before they count as hung.
const PATIENCE: Duration = Duration::from_secs(3);
pub(crate) const PAGES: usize = 2;

/// What a native run showed.
#[derive(Clone, Copy, Debug)]
pub struct Outcome {
    /// The number of requests that were answered.
    pub requests: u64,
    /// Whether both sides waited for `PATIENCE`.
    pub hung: bool,
    /// How long the run took, without `PATIENCE`.
    pub elapsed: Duration,
}

#[derive(Debug, Default)]
struct Native {
    kicked: Line,
    interrupted: Line,
    device_waits: Line,
    stop: Line,
    hung: Line,
    answered: AtomicU64,
    noise: AtomicU32,
    waits_since: std::sync::Mutex<Option<(u64, Instant)>>,
    until: Option<Instant>,
}

/// A flag with its own cache line.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Line(AtomicBool);

impl Native {
    /// Called regularly by a driver that waits. False if the driver is to stop.
    fn may_wait(&self) -> bool {
        let now = Instant::now();
        let answered = self.answered.load(Ordering::Relaxed);
        let mut waits = self
            .waits_since
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        let since = match *waits {
            Some((count, since)) if count == answered => since,
            _ => {
                *waits = Some((answered, now));
                now
            }
        };
        if now - since > PATIENCE {
            let asleep = self.device_waits.0.load(Ordering::SeqCst);
            // A device that was kicked is not hung, even if it was not scheduled all this time.
            let kicked = self.kicked.0.load(Ordering::SeqCst);
            self.hung.0.store(asleep && !kicked, Ordering::Relaxed);
            return false;
        }
        true
    }

    fn wait(&self, line: &Line, may_wait: impl Fn() -> bool) -> bool {
        let mut spins = 0_u32;
        while !line.0.swap(false, Ordering::AcqRel) {
            std::hint::spin_loop();
            spins = spins.wrapping_add(1);
            if spins.is_multiple_of(1 << 20) && !may_wait() {
                return false;
            }
        }
        true
    }
}

impl Bells for Native {
    fn kick(&self) {
        self.kicked.0.store(true, Ordering::Release);
    }
    fn interrupt(&self) {
        self.interrupted.0.store(true, Ordering::Release);
    }
    fn wait_for_kick(&self) -> bool {
        self.device_waits.0.store(true, Ordering::Release);
        let mut spins = 0_u32;
        while !self.kicked.0.swap(false, Ordering::AcqRel) {
            std::hint::spin_loop();
            spins = spins.wrapping_add(1);
            if spins.is_multiple_of(1 << 10) && self.stop.0.load(Ordering::Relaxed) {
                return false;
            }
        }
        self.device_waits.0.store(false, Ordering::Release);
        true
    }
    fn wait_for_interrupt(&self) -> bool {
        self.wait(&self.interrupted, || self.may_wait())
    }
    fn spin(&self) -> bool {
        std::hint::spin_loop();
        let spins = self.noise.load(Ordering::Relaxed).wrapping_add(1);
        self.noise.store(spins, Ordering::Relaxed);
        !spins.is_multiple_of(1 << 20) || self.may_wait()
    }
    fn vary(&self) {
        let mut noise = self.noise.load(Ordering::Relaxed) | 1;
        noise ^= noise << 13;
        noise ^= noise >> 17;
        noise ^= noise << 5;
        self.noise.store(noise, Ordering::Relaxed);
        for _ in 0..noise % 200 {
            std::hint::spin_loop();
        }
        if noise.is_multiple_of(256) && self.until.is_some_and(|until| Instant::now() > until) {
            self.stop.0.store(true, Ordering::Relaxed);
        }
    }
    fn answered(&self) {
        self.answered.fetch_add(1, Ordering::Relaxed);
    }
    fn is_over(&self) -> bool {
        self.stop.0.load(Ordering::Relaxed)
    }
}

/// Pins the thread to a CPU, if there is one with this number. Returns the CPUs that it could run on before.
fn pin(cpu: usize) -> libc::cpu_set_t {
    // SAFETY: all bits zero are an empty set.
    let [mut before, mut set]: [libc::cpu_set_t; 2] = unsafe { std::mem::zeroed() };
    // SAFETY: the call fills `before`, whose length it has.
    unsafe { libc::sched_getaffinity(0, size_of_val(&before), &raw mut before) };
    // SAFETY: `cpu` is small, so that it is within the set.
    unsafe { libc::CPU_SET(cpu, &mut set) };
    run_on(&set);
    before
}

/// Lets the thread run on these CPUs. CPUs that do not exist have no effect.
fn run_on(set: &libc::cpu_set_t) {
    // SAFETY: the set has the length passed to the call, which reads it.
    unsafe { libc::sched_setaffinity(0, size_of_val(set), set) };
}

/// Runs a driver and a device for this time, or until both wait forever.
///
/// # Panics
///
/// If there is no memory, or if a side is a reference, which runs only under the checker.
pub fn run(driver: &Driver, device: &Device, shape: Shape, work: Work, time: Duration) -> Outcome {
    let new_driver = driver
        .new
        .expect("a reference driver runs under the checker only");
    let new_device = device
        .new
        .expect("a reference device runs under the checker only");
    let base = device.memory.map_or_else(pages, |memory| memory());
    // SAFETY: the pages are mapped for the rest of the process.
    unsafe { base.write_bytes(0, PAGES * 4096) };
    let layout = driver
        .layout
        .map_or_else(|| contiguous(shape), |layout| layout(shape));
    // SAFETY: as above; only the subjects make references to the pages.
    let site = unsafe { Site::new(base, PAGES * 4096, shape, layout) };
    let begin = Instant::now();
    let bells = Arc::new(Native {
        until: Some(begin + time),
        ..Native::default()
    });
    let work = Work {
        polls: work.polls || !device.interrupts,
        requests: u64::MAX,
        ..work
    };
    let mut side = new_driver(&site, work.mended);
    let served = {
        let bells = Arc::clone(&bells);
        thread::spawn(move || {
            // Moves the whole value to the thread, not its fields.
            let site = site;
            pin(1);
            let mut device = new_device(&site, work.mended);
            while bells.wait_for_kick() {
                device.handle(&*bells);
            }
        })
    };
    // Threads that the caller starts later would inherit the affinity of this thread.
    let before = pin(0);
    drive(&mut *side, work, &*bells);
    run_on(&before);
    fence(Ordering::SeqCst);
    let hung = bells.hung.0.load(Ordering::Relaxed);
    let elapsed = begin
        .elapsed()
        .saturating_sub(if hung { PATIENCE } else { Duration::ZERO });
    bells.stop.0.store(true, Ordering::Relaxed);
    served.join().expect("the device does not panic");
    Outcome {
        requests: bells.answered.load(Ordering::Relaxed),
        hung,
        elapsed,
    }
}

/// Maps pages that stay mapped for the rest of the process.
pub(crate) fn pages() -> NonNull<u8> {
    let (protection, flags) = (
        libc::PROT_READ | libc::PROT_WRITE,
        libc::MAP_SHARED | libc::MAP_ANONYMOUS,
    );
    // SAFETY: a new mapping at an address of the kernel's choice replaces no other.
    let at = unsafe { libc::mmap(std::ptr::null_mut(), PAGES * 4096, protection, flags, -1, 0) };
    assert!(at != libc::MAP_FAILED, "there is no memory");
    NonNull::new(at.cast()).expect("a mapping is not at 0")
}

/// The checker's default layout.
pub(crate) fn contiguous(shape: Shape) -> crate::Layout {
    let [descriptors, driver, device] = shape
        .contiguous()
        .map(|at| u16::try_from(at).expect("the ring fits the memory"));
    (descriptors, driver, device)
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (requests, seconds) = (self.requests, self.elapsed.as_secs_f64());
        if self.hung {
            write!(f, "hung after {requests} requests in {seconds:.2} s")
        } else {
            write!(f, "not hung: {requests} requests in {seconds:.2} s")
        }
    }
}
