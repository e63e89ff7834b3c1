//! One run of the workload: which thread runs which side, and what is counted.

use std::{
    io,
    sync::atomic::Ordering,
    thread,
    time::{Duration, Instant},
};

use super::{
    Threads, WorkloadError, WorkloadOptions,
    device::{drain, serve},
    driver::{DriverStep, WorkloadDriver},
    link::{NotificationCounters, ThreadLink},
    options::{BUFFER_LEN, MAX_PIECES},
};
use vmbell_virtqueue::{
    Brand, Chain, DeviceQueue, HostMemory, PackedDevice, PackedDriver, PackedLayout, Side,
    SplitDevice, SplitDriver, SplitLayout, brand,
};

/// The side that a thread runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The driver.
    Driver,
    /// The device.
    Device,
}

/// The result of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WorkloadResult {
    /// The time from before the first buffer was added until all buffers are done.
    pub time: Duration,
    /// Buffers that came back.
    pub bufs: u64,
    /// How many available buffer notifications the driver sent.
    pub kicks: u64,
    /// How many used buffer notifications the device sent.
    pub calls: u64,
    /// How often the driver woke and found nothing to do.
    pub spurious: u64,
    /// How often the queue was emptied and started again.
    pub resets: u64,
}

impl WorkloadResult {
    /// Nanoseconds per buffer.
    #[expect(clippy::cast_precision_loss, reason = "a quotient of measurements")]
    pub fn ns_per_buffer(&self) -> f64 {
        self.time.as_nanos() as f64 / self.bufs as f64
    }
}

/// Sends `options.bufs` buffers through a queue and back.
///
/// Each thread first calls `on_thread` with its role, to pin it to a CPU or name it.
///
/// # Errors
///
/// If the variant is not possible, or if something fails that cannot fail on a sound queue.
pub fn run(
    options: &WorkloadOptions,
    on_thread: &(dyn Fn(Role) + Sync),
) -> Result<WorkloadResult, WorkloadError> {
    options.check()?;
    if options.packed {
        packed(*options, on_thread)
    } else {
        split(*options, on_thread)
    }
}

/// Runs a variant on a queue that has been set up. `take` creates the device's side of the empty queue.
pub(super) fn with<S, B, V>(
    driver: WorkloadDriver<S, B>,
    take: impl Fn() -> V + Sync,
    options: &WorkloadOptions,
    on_thread: &(dyn Fn(Role) + Sync),
) -> Result<WorkloadResult, WorkloadError>
where
    S: Side,
    B: Brand,
    V: DeviceQueue,
{
    match options.threads {
        Threads::One => on_one(driver, take, on_thread),
        Threads::Two => on_two(driver, take, on_thread),
    }
}

fn tally<S: Side, B>(
    driver: &WorkloadDriver<S, B>,
    counters: &NotificationCounters,
    start: Instant,
) -> WorkloadResult {
    WorkloadResult {
        time: start.elapsed(),
        bufs: driver.completed,
        kicks: counters.kicks.load(Ordering::Relaxed),
        calls: counters.calls.load(Ordering::Relaxed),
        spurious: driver.spurious,
        resets: driver.resets,
    }
}

fn on_one<S, B, V>(
    mut driver: WorkloadDriver<S, B>,
    take: impl Fn() -> V,
    on_thread: &dyn Fn(Role),
) -> Result<WorkloadResult, WorkloadError>
where
    S: Side,
    B: Brand,
    V: DeviceQueue,
{
    let mut counters = NotificationCounters::default();
    on_thread(Role::Driver);
    let mut device = take();
    let mut chain = Chain::with_capacity(usize::from(device.size()));
    let start = Instant::now();
    loop {
        let kicks = counters.kicks.get_mut();
        let next = driver.turn(|| {
            *kicks += 1;
            Ok(())
        })?;
        match next {
            DriverStep::Done => return Ok(tally(&driver, &counters, start)),
            DriverStep::Reset => {
                driver.reset()?;
                device = take();
            }
            DriverStep::Again => {}
            DriverStep::Sleep => {
                device.disable_notification();
                let any = drain(&mut device, &mut chain)?;
                if any && device.needs_notification() {
                    *counters.calls.get_mut() += 1;
                }
                if !device.enable_notification() && !any {
                    let completed = driver.completed;
                    return Err(WorkloadError::Stalled { completed });
                }
            }
        }
    }
}

fn on_two<S, B, V>(
    mut driver: WorkloadDriver<S, B>,
    take: impl Fn() -> V + Sync,
    on_thread: &(dyn Fn(Role) + Sync),
) -> Result<WorkloadResult, WorkloadError>
where
    S: Side,
    B: Brand,
    V: DeviceQueue,
{
    let eventfd = |source: io::Error| WorkloadError::EventFd { source };
    let link = ThreadLink::new().map_err(eventfd)?;
    let counters = NotificationCounters::default();
    thread::scope(|scope| {
        let device = scope.spawn(|| {
            on_thread(Role::Device);
            let result = serve(&take, &link, &counters);
            if result.is_err() {
                // The driver may be asleep, and must learn that the device thread ended.
                link.stop().map_err(eventfd)?;
            }
            result
        });
        on_thread(Role::Driver);
        let start = Instant::now();
        let result = drive(&mut driver, &link, &counters);
        let tally = tally(&driver, &counters, start);
        link.stop().map_err(eventfd)?;
        let served = device.join().map_err(|_| WorkloadError::Panicked)?;
        served.and(result).map(|()| tally)
    })
}

fn drive<S, B>(
    driver: &mut WorkloadDriver<S, B>,
    link: &ThreadLink,
    counters: &NotificationCounters,
) -> Result<(), WorkloadError>
where
    S: Side,
    B: Brand,
{
    let eventfd = |source: io::Error| WorkloadError::EventFd { source };
    while link.is_running() {
        let next = driver.turn(|| {
            counters.kicks.fetch_add(1, Ordering::Relaxed);
            link.kick().map_err(eventfd)
        })?;
        match next {
            DriverStep::Done => break,
            DriverStep::Reset => {
                if link.reset_queue().map_err(eventfd)? {
                    driver.reset()?;
                    link.resume().map_err(eventfd)?;
                }
            }
            DriverStep::Again => {}
            DriverStep::Sleep => link.wait_for_call().map_err(eventfd)?,
        }
    }
    Ok(())
}

const PAGE: u64 = 4096;

/// The addresses after the rings: of the indirect tables, the buffer, and the end of the memory.
struct AfterRings {
    tables: u64,
    buffer: u64,
    end: u64,
}

impl AfterRings {
    fn after(rings: u64, ring_size: u16) -> Self {
        let tables = rings.next_multiple_of(PAGE);
        let buffer = tables + 16 * u64::from(MAX_PIECES) * u64::from(ring_size);
        let end = buffer + u64::from(BUFFER_LEN);
        Self {
            tables,
            buffer,
            end,
        }
    }

    fn memory(&self) -> HostMemory {
        HostMemory::new(usize::try_from(self.end).unwrap_or(usize::MAX))
    }
}

fn split(
    options: WorkloadOptions,
    on_thread: &(dyn Fn(Role) + Sync),
) -> Result<WorkloadResult, WorkloadError> {
    let (size, features) = (options.ring_size, options.features());
    let layout = if options.virtio_1 {
        SplitLayout::contiguous(0, size)
    } else {
        SplitLayout::legacy(0, size, PAGE)
    };
    let rest = AfterRings::after(layout.end(), size);
    let memory = rest.memory();
    brand::scoped(|brand| {
        let mut queue = SplitDriver::new(&memory, &layout, features, brand)?;
        if options.indirect {
            queue = queue.with_indirect_tables(rest.tables, MAX_PIECES)?;
        }
        let ring = queue.ring().clone();
        let take = || SplitDevice::over(ring.clone(), features);
        let driver = WorkloadDriver::new(queue, options, rest.buffer)?;
        with(driver, take, &options, on_thread)
    })
}

fn packed(
    options: WorkloadOptions,
    on_thread: &(dyn Fn(Role) + Sync),
) -> Result<WorkloadResult, WorkloadError> {
    let (size, features) = (options.ring_size, options.features());
    let layout = PackedLayout::contiguous(0, size);
    let rest = AfterRings::after(layout.end(), size);
    let memory = rest.memory();
    brand::scoped(|brand| {
        let mut queue = PackedDriver::new(&memory, &layout, features, brand)?;
        if options.indirect {
            queue = queue.with_indirect_tables(rest.tables, MAX_PIECES)?;
        }
        let ring = queue.ring().clone();
        let take = || PackedDevice::over(ring.clone(), features);
        let driver = WorkloadDriver::new(queue, options, rest.buffer)?;
        with(driver, take, &options, on_thread)
    })
}
