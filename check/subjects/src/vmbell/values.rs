//! Both sides of vmbell's rings with a value in every field: each side checks all that it reads of the other.

use std::fmt;
use std::sync::Arc;

use vmbell_check::{Format, Scenario, Shape};
use vmbell_virtqueue::{
    Buffer, Chain, DeviceQueue, Head, PackedDevice, PackedDriver, Side, SplitDevice, SplitDriver,
};

use super::{ENTRIES, Pieces, Subject, TABLES, features, packed_layout, split_layout};
use crate::requests;
use crate::{Bells, Chains, Checked, DriverSide, Site, Work, drive, handle_chains};

/// A scenario that carries values.
#[derive(Clone, Copy, Debug)]
pub struct Values {
    /// The ring.
    pub shape: Shape,
    /// Whether each request is a chain of two descriptors, or else one descriptor that the device writes.
    pub chained: bool,
    /// Whether the descriptors are in an indirect table.
    pub indirect: bool,
    /// Whether the driver enables interrupts once, and then sleeps whenever it finds no used buffer.
    pub rests: bool,
    /// Whether the driver has disabled interrupts and then reset the queue, which enables them again. It rests.
    pub resets: bool,
    /// What both sides do. A device that gives back all chains in one batch begins with the last one, unless the ring
    /// is in order.
    pub work: Work,
}

impl Values {
    /// Returns one scenario for each combination of request kind and way to give buffers back. With an event index
    /// there are two more, in which the driver enables interrupts a single time, or lets a reset enable them.
    pub fn all(format: Format, event_idx: bool) -> Vec<Values> {
        let shape = |size| match format {
            Format::Split => Shape::split(size, event_idx),
            Format::Packed => Shape::packed(size, event_idx),
        };
        let mut found = Vec::new();
        for (chained, indirect) in [(false, false), (true, false), (true, true)] {
            let shape = shape(if chained && !indirect { 4 } else { 2 });
            for (shape, at_once) in [(shape, false), (shape, true), (shape.in_order(), true)] {
                let work = Work {
                    at_once,
                    ..Work::new(2, 2)
                };
                found.push(Values {
                    shape,
                    chained,
                    indirect,
                    rests: false,
                    resets: false,
                    work,
                });
            }
        }
        if event_idx {
            for resets in [false, true] {
                found.push(Values {
                    rests: true,
                    resets,
                    ..found[0]
                });
            }
        }
        found
    }
}

impl fmt::Display for Values {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.shape.format {
            Format::Split => "split",
            Format::Packed => "packed",
        })?;
        let switches = [
            (self.shape.event_idx, ", event index"),
            (self.shape.in_order, ", in order"),
            (self.chained, ", chained"),
            (self.indirect, ", indirect"),
            (self.work.at_once, ", at once"),
            (self.rests && !self.resets, ", enabled once"),
            (self.resets, ", enabled by a reset"),
        ];
        for (is_on, name) in switches {
            f.write_str(if is_on { name } else { "" })?;
        }
        Ok(())
    }
}

struct Sender<S: Side> {
    queue: vmbell_virtqueue::Driver<u64, S, Subject>,
    site: Site,
    pieces: Pieces,
    next: u64,
    rests: bool,
    has_enabled: bool,
}

impl<S: Side> DriverSide for Sender<S> {
    fn add(&mut self) {
        let n = self.next;
        self.next += 1;
        let [from, to] = requests::buffers(n);
        let readable = [from];
        let readable: &[Buffer] = match self.pieces {
            Pieces::One => &[],
            Pieces::Chain | Pieces::Table => {
                requests::write_request(&self.site, n);
                &readable
            }
        };
        let added = self.queue.add(readable, &[to], n);
        added.expect("the queue has a free descriptor");
    }
    fn wants_kick(&mut self) -> bool {
        self.queue.kick_prepare()
    }
    fn take(&mut self) -> bool {
        let used = self.queue.get_used().expect("the device keeps the rules");
        let Some(used) = used else { return false };
        requests::check_length(used.data, used.len);
        // A driver that rests makes no other access to the ring between taking a buffer, which moves the event, and its
        // next look.
        if !self.rests {
            requests::check_answer(&self.site, used.data);
        }
        true
    }
    fn quiet(&mut self) {
        if !self.rests {
            self.queue.disable_cb();
        }
    }
    fn listen(&mut self) -> bool {
        // Taking a buffer has moved the event.
        if self.rests && self.has_enabled {
            return true;
        }
        self.has_enabled = true;
        self.queue.enable_cb()
    }
}

struct Server<Q> {
    queue: Q,
    site: Site,
    chain: Chain,
    pieces: Pieces,
    at_once: bool,
}

impl<Q: DeviceQueue> Server<Q> {
    /// Takes a request, checks it and writes the answer.
    fn pop(&mut self) -> Option<(Head, u32)> {
        let popped = self.queue.pop(&mut self.chain);
        let head = popped.expect("the driver keeps the rules")?;
        let (readable, writable) = (self.chain.readable(), self.chain.writable());
        let is_chained = self.pieces != Pieces::One;
        let len = requests::answer(&self.site, readable, writable, is_chained);
        Some((head, len))
    }
}

impl<Q: DeviceQueue> Chains for Server<Q> {
    fn quiet(&mut self) {
        self.queue.disable_notification();
    }
    fn serve(&mut self) -> bool {
        let Some((head, len)) = self.pop() else {
            return false;
        };
        let given_back = if self.at_once {
            let mut heads = vec![(head, len)];
            heads.extend(std::iter::from_fn(|| self.pop()));
            if !self.site.shape.in_order {
                heads.reverse();
            }
            self.queue.add_used_batch(heads)
        } else {
            self.queue.add_used(head, len)
        };
        given_back.expect("the chain is this queue's");
        true
    }
    fn wants_interrupt(&mut self) -> bool {
        self.queue.needs_notification()
    }
    fn listen(&mut self) -> bool {
        self.queue.enable_notification()
    }
}

impl Values {
    fn pieces(&self) -> Pieces {
        match (self.chained, self.indirect) {
            (_, true) => Pieces::Table,
            (true, false) => Pieces::Chain,
            (false, false) => Pieces::One,
        }
    }

    /// Sets the scenario up.
    pub fn set_up(&self, scenario: &mut Scenario) {
        let ring = scenario.ring(self.shape);
        ring.preset();
        let layout = (ring.descriptors, ring.driver, ring.device);
        let memory = ring.memory();
        let site = crate::scenario::site(memory, self.shape, layout);
        let bells: Arc<dyn Bells> = Arc::new(Checked::new(ring));
        let (work, pieces) = (self.work, self.pieces());
        let driver = sender(&site, pieces, self);
        let device = server(&site, pieces, work.at_once);
        run(scenario, driver, device, work, bells);
    }
}

/// Adds the tasks of both sides.
pub(crate) fn run(
    scenario: &mut Scenario,
    mut driver: Box<dyn DriverSide>,
    mut device: Box<dyn Chains>,
    work: Work,
    bells: Arc<dyn Bells>,
) {
    let other = Arc::clone(&bells);
    scenario.task("driver", move || drive(&mut *driver, work, &*bells));
    scenario.background("device", move || {
        while other.wait_for_kick() {
            handle_chains(&mut *device, &*other);
        }
    });
}

fn sender(site: &Site, pieces: Pieces, values: &Values) -> Box<dyn DriverSide> {
    fn over<S: Side + 'static>(
        mut queue: vmbell_virtqueue::Driver<u64, S, Subject>,
        site: &Site,
        pieces: Pieces,
        values: &Values,
    ) -> Box<dyn DriverSide> {
        if values.resets {
            queue.disable_cb();
            queue.reset();
        }
        Box::new(Sender {
            queue,
            site: *site,
            pieces,
            next: 0,
            rests: values.rests,
            has_enabled: values.resets,
        })
    }
    let indirect = pieces == Pieces::Table;
    let features = features(site, indirect);
    if site.is_split() {
        let queue = SplitDriver::<u64, _, _>::new(site, &split_layout(site), features, Subject(()));
        let mut queue = queue.expect("the ring is in memory");
        if indirect {
            let tables = queue.with_indirect_tables(TABLES, ENTRIES);
            queue = tables.expect("the tables are in memory");
        }
        over(queue, site, pieces, values)
    } else {
        let queue =
            PackedDriver::<u64, _, _>::new(site, &packed_layout(site), features, Subject(()));
        let mut queue = queue.expect("the ring is in memory");
        if indirect {
            let tables = queue.with_indirect_tables(TABLES, ENTRIES);
            queue = tables.expect("the tables are in memory");
        }
        over(queue, site, pieces, values)
    }
}

pub(crate) fn server(site: &Site, pieces: Pieces, at_once: bool) -> Box<dyn Chains> {
    fn over<Q: DeviceQueue + 'static>(
        queue: Q,
        site: &Site,
        pieces: Pieces,
        at_once: bool,
    ) -> Box<dyn Chains> {
        Box::new(Server {
            queue,
            site: *site,
            chain: Chain::with_capacity(2),
            pieces,
            at_once,
        })
    }
    let features = features(site, true);
    if site.is_split() {
        let queue = SplitDevice::new(site, &split_layout(site), features);
        over(queue.expect("the ring is in memory"), site, pieces, at_once)
    } else {
        let queue = PackedDevice::new(site, &packed_layout(site), features);
        over(queue.expect("the ring is in memory"), site, pieces, at_once)
    }
}
