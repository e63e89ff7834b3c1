//! Drivers that poll: what they remember of a queue, and whether a wrong answer of the queue can fool them.
//!
//! A driver remembers its place, enables an interrupt, and asks later, perhaps on another thread, whether a buffer was
//! used since then (Linux's `virtqueue_enable_cb_prepare` and `virtqueue_poll`). If the answer is no while a buffer
//! waits, a driver that only polls has lost a notification.
#![allow(unsafe_code)]

use std::sync::Arc;
use std::sync::atomic::Ordering;

use vmbell_check::{Error, Explorer, Report, Shape, claim};

use crate::{Bells, Checked, DriverSide, Site, device, native};

/// A driver that polls.
pub trait Polls {
    /// The driver side of the queue.
    fn side(&mut self) -> &mut dyn DriverSide;

    /// Returns the driver's answer: whether a buffer was used since the driver remembered its place.
    fn poll(&self) -> bool;
}

/// A kind of driver that polls.
#[derive(Clone, Copy, Debug)]
pub struct Poller {
    /// The name of the driver.
    pub name: &'static str,
    /// Makes a driver of a ring in zeroed memory, which remembers its place and has then consumed this number of
    /// buffers. Only vmbell's queues on split rings support a number other than 0.
    pub new: fn(&Site, u64) -> Box<dyn Polls>,
}

/// Explores a driver that has remembered its place and consumed `before` buffers. It then makes `requests` further
/// requests, one after the other, and takes all answers except the last. Once the last is used, the driver polls.
///
/// # Errors
///
/// If the checker cannot explore the driver.
pub fn explore(
    explorer: &Explorer,
    poller: Poller,
    shape: Shape,
    before: u64,
    requests: u64,
) -> Result<Report, Error> {
    let index = before & 0xffff;
    let shape = shape.starting_at(u16::try_from(index).unwrap_or_default());
    explorer.run(|scenario| {
        let ring = scenario.ring(shape);
        let (memory, layout) = (ring.memory(), (ring.descriptors, ring.driver, ring.device));
        // SAFETY: the checker keeps its memory mapped while it explores.
        let site = unsafe { Site::new(memory.pointer(), memory.len(), shape, layout) };
        let mut driver = (poller.new)(&site, before);
        ring.preset();
        let bells: Arc<dyn Bells> = Arc::new(Checked::new(ring));
        scenario.task("driver", move || {
            take_all_but_one(driver.side(), requests, &*bells);
            claim(driver.poll(), || {
                "the driver is told that nothing is new, and a buffer waits".to_string()
            });
        });
        scenario.background("device", ring.reference_device());
    })
}

/// Makes requests, one after the other, and takes the used buffers until the last is used. Interrupts stay enabled.
fn take_all_but_one(side: &mut dyn DriverSide, requests: u64, bells: &dyn Bells) {
    for request in 1..=requests {
        side.add();
        if side.wants_kick() {
            bells.kick();
        }
        bells.wait_for_interrupt();
        if request < requests {
            claim(side.take(), || {
                "an interrupt came for no buffer".to_string()
            });
        }
    }
}

/// Returns the answer that a driver gets after `count` buffers were used since it remembered its place. vmbell's device
/// serves them in order, and the last one waits.
///
/// # Panics
///
/// If the device does not serve a buffer.
pub fn polls_after(poller: Poller, shape: Shape, count: u32) -> bool {
    let site = site(shape);
    let mut driver = (poller.new)(&site, 0);
    let new = device("vmbell").new.expect("vmbell is not a reference");
    let mut served = new(&site, false);
    for buffer in 0..count {
        driver.side().add();
        driver.side().wants_kick();
        served.handle(&Silent);
        let is_last = buffer + 1 == count;
        assert!(is_last || driver.side().take(), "the device answers");
    }
    let told = driver.poll();
    assert!(driver.side().take(), "the last one waits");
    told
}

/// Returns the driver's answer after it has consumed `count` buffers since it remembered its place. No buffer waits.
pub fn polls_after_consuming(poller: Poller, shape: Shape, count: u64) -> bool {
    let site = site(shape);
    let driver = (poller.new)(&site, count);
    let index = u16::try_from(count & 0xffff).unwrap_or_default();
    let used_index = site.layout.2 + 2;
    site.field(used_index).store(index, Ordering::Relaxed);
    driver.poll()
}

/// Makes a ring in memory that stays mapped for the rest of the process.
pub(crate) fn site(shape: Shape) -> Site {
    let (base, len) = (native::pages(), native::PAGES * 4096);
    // SAFETY: the pages stay mapped, and are used through this value only.
    unsafe { Site::new(base, len, shape, native::contiguous(shape)) }
}

/// The notifications of sides that are called in turn.
#[derive(Debug)]
pub(crate) struct Silent;

impl Bells for Silent {
    fn kick(&self) {}
    fn interrupt(&self) {}
    fn wait_for_kick(&self) -> bool {
        false
    }
    fn wait_for_interrupt(&self) -> bool {
        false
    }
    fn spin(&self) -> bool {
        false
    }
}
