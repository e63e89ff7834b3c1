use vmbell_virtqueue::{
    Chain, DeviceQueue, Features, Head, HostMemory, QueueError, SplitDriver, SplitLayout,
    UsedError, brand,
};

use super::driver::WorkloadDriver;
use super::run::with;
use super::*;

const FEW: u64 = if cfg!(miri) { 100 } else { 20_000 };

fn all(base: WorkloadOptions) -> Vec<WorkloadOptions> {
    let mut all = Vec::new();
    for bits in 0..64_u32 {
        let bit = |n: u32| bits >> n & 1 != 0;
        for tokens in [Tokens::Plain, Tokens::WrapCounters, Tokens::Wide] {
            all.push(WorkloadOptions {
                packed: bit(0),
                event_idx: bit(1),
                indirect: bit(2),
                virtio_1: bit(3),
                delayed_interrupt: bit(4),
                batch: if bit(5) {
                    Batch::Random
                } else {
                    Batch::Fixed(3)
                },
                tokens,
                ..base
            });
        }
    }
    all.retain(|options| options.check().is_ok());
    assert_eq!(
        all.len(),
        96,
        "each but packed legacy ones and delayed tokens"
    );
    // Miri is slow, so it runs every 13th variant, which still covers both kinds of ring.
    let step = if cfg!(miri) { 13 } else { 1 };
    all.into_iter().step_by(step).collect()
}

fn complete(options: &WorkloadOptions) -> WorkloadResult {
    let tally = run(options, &|_| {}).unwrap_or_else(|error| panic!("{options:?}: {error:?}"));
    assert_eq!(tally.bufs, options.bufs, "{options:?}");
    tally
}

#[test]
fn every_variant_completes_on_one_thread() {
    let base = WorkloadOptions {
        threads: Threads::One,
        bufs: if cfg!(miri) { 10 } else { 2_000 },
        pieces: 3,
        ring_size: 16,
        ..WorkloadOptions::default()
    };
    for options in all(base) {
        complete(&options);
        complete(&WorkloadOptions {
            reset: Some(if cfg!(miri) { 5 } else { 100 }),
            ..options
        });
    }
}

#[test]
fn every_variant_completes_on_two_threads() {
    let base = WorkloadOptions {
        bufs: if cfg!(miri) { 10 } else { 500 },
        ring_size: 16,
        ..WorkloadOptions::default()
    };
    for options in all(base) {
        complete(&options);
    }
}

#[test]
fn one_thread_does_the_same_work_every_time() {
    let options = WorkloadOptions {
        threads: Threads::One,
        batch: Batch::Random,
        bufs: FEW,
        ..WorkloadOptions::default()
    };
    let [one, two] = [complete(&options), complete(&options)];
    assert_eq!(
        (one.kicks, one.calls, one.spurious),
        (two.kicks, two.calls, two.spurious)
    );
}

#[test]
fn resets_come_as_often_as_asked_for() {
    let options = WorkloadOptions {
        reset: Some(100),
        tokens: Tokens::WrapCounters,
        bufs: FEW,
        batch: Batch::Fixed(8),
        ..WorkloadOptions::default()
    };
    for packed in [false, true] {
        let tally = complete(&WorkloadOptions { packed, ..options });
        assert!(tally.resets >= (FEW / 100).saturating_sub(16), "{tally:?}");
    }
}

#[test]
fn batches_save_notifications() {
    let one = WorkloadOptions {
        threads: Threads::One,
        bufs: FEW,
        ..WorkloadOptions::default()
    };
    let many = WorkloadOptions {
        batch: Batch::Fixed(100),
        ..one
    };
    let (one, many) = (complete(&one), complete(&many));
    assert_eq!((one.kicks, one.calls), (FEW, FEW));
    assert_eq!((many.kicks, many.calls), (FEW / 100, FEW / 100));
}

#[test]
fn each_thread_is_told_its_role() {
    let roles = vmbell::sync::Mutex::new(Vec::new());
    let options = WorkloadOptions {
        bufs: 10,
        ..WorkloadOptions::default()
    };
    run(&options, &|role| roles.lock().push(role)).unwrap();
    let roles = roles.into_inner();
    assert!(roles.contains(&Role::Driver) && roles.contains(&Role::Device));
}

#[test]
fn impossible_variants_are_refused() {
    let base = WorkloadOptions::default();
    let refused = |options: WorkloadOptions| run(&options, &|_| {}).unwrap_err().to_string();
    let batch = Batch::Fixed(0);
    assert!(refused(WorkloadOptions { batch, ..base }).contains("batch"));
    let reset = Some(0);
    assert!(refused(WorkloadOptions { reset, ..base }).contains("reset"));
    assert!(refused(WorkloadOptions { pieces: 9, ..base }).contains("pieces"));
    let batch = Batch::Fixed(257);
    assert!(refused(WorkloadOptions { batch, ..base }).contains("does not fit"));
    let legacy = WorkloadOptions {
        packed: true,
        virtio_1: false,
        ..base
    };
    assert!(refused(legacy).contains("VIRTIO_F_VERSION_1"));
    let delayed = WorkloadOptions {
        delayed_interrupt: true,
        tokens: Tokens::Wide,
        ..base
    };
    assert!(refused(delayed).contains("token"));
    let ring_size = 3;
    let error = run(&WorkloadOptions { ring_size, ..base }, &|_| {}).unwrap_err();
    assert!(matches!(error, WorkloadError::Setup(_)), "{error:?}");
}

/// A device whose search for a buffer has this result.
struct DeviceDouble(fn() -> Result<Option<Head>, QueueError>);

impl DeviceQueue for DeviceDouble {
    fn size(&self) -> u16 {
        4
    }

    fn pop(&mut self, _chain: &mut Chain) -> Result<Option<Head>, QueueError> {
        (self.0)()
    }

    fn next_avail(&self) -> u16 {
        0
    }

    fn add_used(&mut self, _head: Head, _len: u32) -> Result<(), UsedError> {
        Ok(())
    }

    fn add_used_batch(
        &mut self,
        _chains: impl IntoIterator<Item = (Head, u32)>,
    ) -> Result<(), UsedError> {
        Ok(())
    }

    fn needs_notification(&mut self) -> bool {
        false
    }

    fn enable_notification(&mut self) -> bool {
        false
    }

    fn disable_notification(&mut self) {}
}

/// The error of a run with this double.
fn failed(pop: fn() -> Result<Option<Head>, QueueError>, threads: Threads) -> WorkloadError {
    let options = WorkloadOptions {
        threads,
        ..WorkloadOptions::default()
    };
    let (memory, layout) = (HostMemory::new(4096), SplitLayout::contiguous(0, 4));
    brand::scoped(|brand| {
        let queue = SplitDriver::new(&memory, &layout, Features::default(), brand).unwrap();
        let driver = WorkloadDriver::new(queue, options, 0).unwrap();
        with(driver, || DeviceDouble(pop), &options, &|_| {}).unwrap_err()
    })
}

#[test]
fn a_device_that_fails_ends_the_run_and_the_driver_does_not_wait_for_it() {
    for threads in [Threads::One, Threads::Two] {
        let error = failed(|| Err(QueueError::NotInFlight { id: 3 }), threads);
        let expected = QueueError::NotInFlight { id: 3 };
        assert!(
            matches!(&error, WorkloadError::Queue(found) if *found == expected),
            "{threads:?}: {error:?}"
        );
    }
}

#[test]
fn a_device_on_the_same_thread_that_takes_nothing_is_a_stall() {
    let error = failed(|| Ok(None), Threads::One);
    assert_eq!(error.to_string(), "the queue stalled after 0 buffers");
}
