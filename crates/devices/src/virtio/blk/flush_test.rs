use std::fs::File;
use std::sync::mpsc::{Receiver, Sender, channel};

use proptest::prelude::*;
use vm_memory::{Bytes, GuestAddress, GuestMemoryMmap};

use super::super::Disk;
use super::*;
use crate::virtio::answer_double::{DATA, driver_side, memory, ring};
use crate::virtio::driver::DriverSide;
use crate::virtio::ring::IN_ORDER;
use crate::virtio::{Handler, Queue};
use kit::wait::await_that;
use vmbell_virtqueue::{Brand, Buffer, Features, SplitDriver, SplitLayout, brand};

const LAYOUT: SplitLayout = SplitLayout::contiguous(0, 16);
const IN: u32 = 0;
const OUT: u32 = 1;
const SYNC: u32 = 4;
const UNANSWERED: u8 = 0xee;
/// Bytes of memory for each request: a header, a sector of data and the status.
const PLACE: u64 = 0x400;

/// A disk whose flushes end when the test says so.
struct Rig {
    // Dropped before the queue: its disk waits for the end of a flush.
    permits: Sender<io::Result<()>>,
    memory: GuestMemoryMmap,
    driver_side: DriverSide,
    disk: Arc<Disk>,
    queue: Queue,
    begun: Receiver<()>,
}

impl Rig {
    fn new() -> Self {
        let (permits, permitted) = channel::<io::Result<()>>();
        let (begin, begun) = channel();
        let file = tempfile::tempfile().unwrap();
        file.set_len(8 * 512).unwrap();
        let disk = disk(file, move || {
            let _ = begin.send(());
            // At the end of the test, the other side has been dropped.
            permitted.recv().unwrap_or(Ok(()))
        });
        let (memory, disk) = (memory(), Arc::new(disk));
        let driver_side = driver_side(&memory);
        let theirs = Arc::clone(&disk);
        Self {
            queue: Queue::new(0, &driver_side, theirs, false),
            disk,
            memory,
            driver_side,
            permits,
            begun,
        }
    }

    /// Starts the queue, with a driver that has or has not accepted flushes, and calls `body` with the driver's side.
    fn session(&self, flushes: bool, in_order: bool, body: impl FnOnce(&mut dyn Driving)) {
        let accepted = u64::from(flushes) * super::super::FLUSH;
        let of_ring = u64::from(in_order) * IN_ORDER;
        self.memory
            .write_slice(&[0; 0x1000], GuestAddress(0))
            .unwrap();
        self.disk.accepted(accepted | of_ring);
        brand::scoped(|brand| {
            let memory = Arc::new(self.memory.clone());
            let features = Features::default().with_in_order(in_order);
            let driver = SplitDriver::new(&memory, &LAYOUT, features, brand).unwrap();
            self.queue
                .start(ring(&self.memory, &LAYOUT, of_ring), in_order);
            body(&mut (driver, &self.memory));
        });
    }
}

fn disk(file: File, flush: impl Fn() -> io::Result<()> + Send + 'static) -> Disk {
    Disk::with_flush(file, false, flush).unwrap()
}

trait Driving {
    /// Makes a request available at a place in memory; returns false if the ring has no room for it.
    fn send(&mut self, place: u64, kind: u32) -> bool;
    /// The place and the status of the next completed request.
    fn take(&mut self) -> Option<(u64, u8)>;
    fn status(&self, place: u64) -> u8;
}

impl<B: Brand> Driving for (SplitDriver<u64, Arc<GuestMemoryMmap>, B>, &GuestMemoryMmap) {
    fn send(&mut self, place: u64, kind: u32) -> bool {
        let at = DATA + place * PLACE;
        let (header, data, status) = (at, at + 0x100, at + 0x300);
        self.1.write_obj(kind, GuestAddress(header)).unwrap();
        self.1.write_obj(0_u64, GuestAddress(header + 8)).unwrap();
        self.1.write_obj(UNANSWERED, GuestAddress(status)).unwrap();
        let (header, data) = (Buffer::new(header, 16), Buffer::new(data, 512));
        let status = Buffer::new(status, 1);
        let sent = match kind {
            IN => self.0.add(&[header], &[data, status], place),
            OUT => self.0.add(&[header, data], &[status], place),
            _ => self.0.add(&[header], &[status], place),
        };
        sent.is_ok()
    }

    fn take(&mut self) -> Option<(u64, u8)> {
        let used = self.0.get_used().unwrap()?;
        Some((used.data, self.status(used.data)))
    }

    fn status(&self, place: u64) -> u8 {
        let at = DATA + place * PLACE + 0x300;
        self.1.read_obj(GuestAddress(at)).unwrap()
    }
}

#[test]
fn reads_and_writes_are_answered_during_a_flush() {
    let rig = Rig::new();
    rig.session(true, false, |driver| {
        assert!(driver.send(0, SYNC) && driver.send(1, IN) && driver.send(2, OUT));
        assert_eq!(rig.queue.serve().chains, 2);
        assert_eq!([driver.take(), driver.take()], [Some((1, 0)), Some((2, 0))]);
        rig.begun.recv().unwrap();
        assert_eq!((driver.take(), driver.status(0)), (None, UNANSWERED));
        rig.permits.send(Ok(())).unwrap();
        await_that("the flush", || driver.take() == Some((0, 0)));
    });
}

#[test]
fn requests_during_a_flush_share_the_next_one_and_its_error() {
    let rig = Rig::new();
    // If the driver does not flush, each write is also a flush.
    rig.session(false, false, |driver| {
        driver.send(0, OUT);
        let _ = rig.queue.serve();
        rig.begun.recv().unwrap();
        for place in 1..5 {
            driver.send(place, OUT);
        }
        assert_eq!(rig.queue.serve().chains, 0);
        rig.permits.send(Ok(())).unwrap();
        await_that("the first flush", || driver.take() == Some((0, 0)));
        rig.begun.recv().unwrap();
        let full = io::ErrorKind::StorageFull;
        rig.permits.send(Err(full.into())).unwrap();
        for place in 1..5 {
            await_that("the others", || driver.take() == Some((place, 1)));
        }
    });
    assert!(rig.begun.try_recv().is_err(), "two flushes for five writes");
    assert!(rig.driver_side.trouble.take().is_none());
}

#[test]
fn a_driver_that_resets_during_a_flush_leaves_no_requests_to_wait_for_it() {
    let rig = Rig::new();
    let waiting = || rig.disk.flusher.requests.lock().pending.len();
    for resets in 0..100 {
        rig.session(true, false, |driver| {
            (0..8).for_each(|place| assert!(driver.send(place, SYNC)));
            assert_eq!(rig.queue.serve().chains, 0);
            assert!(waiting() <= 8, "{} after {resets} resets", waiting());
        });
        rig.queue.stop();
        if resets == 0 {
            rig.begun.recv().unwrap();
        }
    }
}

#[derive(Clone, Debug)]
enum Step {
    Send(u32),
    Serve,
    Permit,
    Take,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => prop::sample::select(vec![IN, OUT, SYNC]).prop_map(Step::Send),
        2 => Just(Step::Serve),
        1 => Just(Step::Permit),
        1 => Just(Step::Take),
    ]
}

/// The places of the requests that were sent since the last reset and have not completed, the oldest first.
struct Model {
    under_way: Vec<u64>,
    in_order: bool,
}

/// Takes one completed request, which must be one of the model's.
fn take(driver: &mut dyn Driving, model: &mut Model) -> Result<bool, TestCaseError> {
    let Some((place, status)) = driver.take() else {
        return Ok(false);
    };
    let index = model.under_way.iter().position(|sent| *sent == place);
    prop_assert!(index.is_some(), "{place} was not under way");
    prop_assert!(index == Some(0) || !model.in_order, "{place} is too early");
    model.under_way.retain(|sent| *sent != place);
    prop_assert_eq!(status, 0);
    Ok(true)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whenever flushes end, and however often the device is reset meanwhile: each request that is served completes
    /// once, in order if that was accepted, and no request from before a reset completes.
    #[test]
    fn each_request_is_done_once_and_after_a_reset_none(
        sessions in prop::collection::vec((any::<bool>(), any::<bool>(), prop::collection::vec(step(), 0..40)), 1..6),
    ) {
        let rig = Rig::new();
        let last = sessions.len() - 1;
        for (number, (flushes, in_order, steps)) in sessions.into_iter().enumerate() {
            let mut result = Ok(());
            rig.session(flushes, in_order, |driver| {
                let under_way = Vec::new();
                let model = Model { under_way, in_order };
                result = run(&rig, driver, model, steps, number == last);
            });
            result?;
            rig.queue.stop();
        }
        prop_assert!(rig.driver_side.trouble.take().is_none());
    }
}

/// Runs the steps of a session; in the last session, all of its requests complete.
fn run(
    rig: &Rig,
    driver: &mut dyn Driving,
    mut model: Model,
    steps: Vec<Step>,
    is_last: bool,
) -> Result<(), TestCaseError> {
    for step in steps {
        match step {
            Step::Send(kind) => {
                let is_free = |place: &u64| !model.under_way.contains(place);
                let place = (0..).find(is_free).unwrap_or_default();
                if driver.send(place, kind) {
                    model.under_way.push(place);
                }
            }
            Step::Serve => while rig.queue.serve().more {},
            Step::Permit => rig.permits.send(Ok(())).unwrap(),
            Step::Take => drop(take(driver, &mut model)?),
        }
    }
    if is_last {
        while rig.queue.serve().more {}
        let mut failure = Ok(false);
        await_that("the rest", || {
            rig.permits.send(Ok(())).unwrap();
            failure = take(driver, &mut model);
            model.under_way.is_empty() || failure.is_err()
        });
        failure?;
        prop_assert!(driver.take().is_none());
    }
    Ok(())
}
