//! A driver and a device as a scenario of the checker.
#![allow(unsafe_code)]

use std::sync::Arc;

use vmbell_check::{
    Error, Explorer, Format, Load, Memory, Report, Ring, Scenario, Shape, Weakening,
};

use crate::{Bells, Device, Driver, Layout, Site, Work, drive};

/// The notifications of a ring under the checker.
#[derive(Debug)]
pub struct Checked(Ring);

// SAFETY: the checker runs all tasks of a scenario on the thread that set it up, and `Checked` is not used elsewhere.
unsafe impl Send for Checked {}
// SAFETY: as above.
unsafe impl Sync for Checked {}

impl Checked {
    /// The notifications of this ring.
    pub fn new(ring: Ring) -> Checked {
        Checked(ring)
    }
}

impl Bells for Checked {
    fn kick(&self) {
        self.0.kick();
    }
    fn interrupt(&self) {
        self.0.interrupt();
    }
    fn wait_for_kick(&self) -> bool {
        self.0.wait_for_kick()
    }
    fn wait_for_interrupt(&self) -> bool {
        self.0.wait_for_interrupt();
        true
    }
    fn spin(&self) -> bool {
        true
    }
}

/// Explores a driver and a device.
///
/// # Errors
///
/// If the checker cannot explore the driver and the device.
///
/// # Panics
///
/// If a side does not support the shape of the ring.
pub fn pair(
    explorer: &Explorer,
    driver: &Driver,
    device: &Device,
    shape: Shape,
    work: Work,
) -> Result<Report, Error> {
    explorer_for(explorer, device).run(|scenario| set_up(scenario, driver, device, shape, work))
}

/// Weakens each order of a driver and a device in turn.
///
/// # Errors
///
/// If the checker cannot explore the two sides, or if they are not complete and clean without changes.
///
/// # Panics
///
/// If a side does not support the shape of the ring.
pub fn weaken(
    explorer: &Explorer,
    driver: &Driver,
    device: &Device,
    shape: Shape,
    work: Work,
) -> Result<Weakening, Error> {
    explorer_for(explorer, device).weaken(|scenario| set_up(scenario, driver, device, shape, work))
}

/// The explorer, with the memory that a device has mapped itself, if any.
fn explorer_for(explorer: &Explorer, device: &Device) -> Explorer {
    match device.memory {
        None => explorer.clone(),
        // SAFETY: the subject has mapped all pages that the explorer uses by default, and only tasks use them.
        Some(memory) => unsafe { explorer.clone().memory_at(memory()) },
    }
}

fn set_up(scenario: &mut Scenario, driver: &Driver, device: &Device, shape: Shape, work: Work) {
    for about in [driver.about, device.about] {
        assert!(
            about.formats.contains(&shape.format)
                && (shape.start == 0 || about.starts)
                && (!shape.in_order || about.in_order),
            "{} does not support {shape:?}",
            about.name
        );
    }
    let ring = match driver.layout {
        None => scenario.ring(shape),
        Some(layout) => {
            let (descriptors, driver, device) = layout(shape);
            scenario.ring_at(shape, descriptors, driver, device)
        }
    };
    ring.preset();
    let layout = (ring.descriptors, ring.driver, ring.device);
    let site = site(ring.memory(), shape, layout);
    let bells: Arc<dyn Bells> = Arc::new(Checked::new(ring));
    let work = Work {
        polls: work.polls || !device.interrupts,
        ..work
    };
    match driver.new {
        None => scenario.task("driver", ring.reference_driver(load(work))),
        Some(new) => {
            let (mut side, bells) = (new(&site, work.mended), Arc::clone(&bells));
            scenario.task("driver", move || drive(&mut *side, work, &*bells));
        }
    }
    match device.new {
        None => {
            let most = if work.at_once { u16::MAX } else { 1 };
            scenario.background("device", ring.reference_device_in_batches(most));
        }
        Some(new) => {
            let mut side = new(&site, work.mended);
            if work.at_once {
                side.give_back_at_once();
            }
            scenario.background("device", move || {
                while bells.wait_for_kick() {
                    side.handle(&*bells);
                }
            });
        }
    }
}

/// A ring in the memory of a scenario.
pub(crate) fn site(memory: Memory, shape: Shape, layout: Layout) -> Site {
    // SAFETY: the checker keeps its memory mapped while it explores, and the sides are dropped before it ends.
    unsafe { Site::new(memory.pointer(), memory.len(), shape, layout) }
}

fn load(work: Work) -> Load {
    assert!(
        !work.polls,
        "the reference driver sleeps until an interrupt"
    );
    let small = |number: u64| u16::try_from(number).expect("a scenario has few requests");
    Load {
        requests: small(work.requests),
        depth: small(work.depth),
        batch: work.batch,
        budget: u16::try_from(work.budget).unwrap_or(u16::MAX),
        late: work.late,
        armed: work.armed,
    }
}

impl Site {
    /// Whether the ring is split.
    pub(crate) fn is_split(&self) -> bool {
        self.shape.format == Format::Split
    }
}
