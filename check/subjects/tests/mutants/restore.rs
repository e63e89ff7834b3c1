//! Saves and restores of vmbell's queues that forget one thing each. Unless a defect says otherwise, the side continues
//! where it was, and no signal is sent on resume.

use vmbell_check::{Explorer, Format, Load, Order, Report, Ring, Shape, choose};
use vmbell_virtqueue::{
    Buffer, Chain, DeviceControl, DeviceQueue, DeviceState, DriverState, Features, Head,
    PackedDevice, PackedDriver, PackedLayout, Side, SplitDevice, SplitDriver, SplitLayout,
};

use crate::memory::Site;
use crate::table::{Fate, Mutant, Scene, control, defects, hunt};

defects! {
    KickLost "device: a pending kick is not saved, and none is sent";
    InterruptLost "device: a pending interrupt is not saved, and none is sent";
    OldState "device: the state is that of the step before, the memory is not";
    ForgetsUnsignalled "device: forgets that it has not asked about what it gave back";
    ForgetsNextAvail "device: begins at the newest available chain";
    ForgetsTaken "device: forgets that a chain was taken and not given back";
    ForgetsHead "device: forgets which chain was taken";
    ForgetsEventIdx "device: forgets that the event index was negotiated";
    ForgetsWrap "device: forgets the wrap counters of a packed ring";
    OldAvailEvent "device: the device area of the ring is that of the beginning";
    NotificationsOff "device: disables notifications when it is restored";
    ForgetsUnkicked "driver: forgets that it has not asked about what it added";
    ForgetsPosition "driver: forgets what it has taken back";
    ForgetsBuffers "driver: forgets which buffers are in flight";
    OldDriverState "driver: the state is that of the step before, the memory is not";
    InterruptsOff "driver: disables interrupts when it is restored";
    ForgetsAvailSeen "device: forgets the available index that it has loaded"
        equivalent "it loads the index again";
    ForgetsUsedSeen "driver: forgets the used index that it has loaded"
        equivalent "it loads the index again";
}

use Defect as D;

const REQUESTS: u16 = 2;

vmbell_virtqueue::queue_brand!(Subject);

fn features(ring: &Ring) -> Features {
    Features::default().with_event_idx(ring.shape.event_idx)
}

fn split_layout(ring: &Ring) -> SplitLayout {
    SplitLayout {
        size: ring.shape.size,
        descriptors: ring.descriptors.into(),
        avail: ring.driver.into(),
        used: ring.device.into(),
    }
}

fn packed_layout(ring: &Ring) -> PackedLayout {
    PackedLayout {
        size: ring.shape.size,
        descriptors: ring.descriptors.into(),
        driver_event: ring.driver.into(),
        device_event: ring.device.into(),
    }
}

fn split_device(ring: &Ring, features: Features) -> SplitDevice<Site> {
    let queue = SplitDevice::new(&Site(ring.memory()), &split_layout(ring), features);
    queue.expect("the ring is in memory")
}

fn packed_device(ring: &Ring, features: Features) -> PackedDevice<Site> {
    let queue = PackedDevice::new(&Site(ring.memory()), &packed_layout(ring), features);
    queue.expect("the ring is in memory")
}

fn split_driver(ring: &Ring) -> SplitDriver<(), Site, Subject> {
    let (memory, layout) = (Site(ring.memory()), split_layout(ring));
    let queue = SplitDriver::attach(&memory, &layout, features(ring), Subject(()));
    queue.expect("the ring is in memory")
}

fn packed_driver(ring: &Ring) -> PackedDriver<(), Site, Subject> {
    let (memory, layout) = (Site(ring.memory()), packed_layout(ring));
    let queue = PackedDriver::attach(&memory, &layout, features(ring), Subject(()));
    queue.expect("the ring is in memory")
}

/// A device that is saved once.
struct Device<Q> {
    queue: Q,
    attach: fn(&Ring, Features) -> Q,
    ring: Ring,
    head: Option<Head>,
    old: Option<DeviceState>,
    saved: bool,
    defect: Defect,
}

impl<Q: DeviceQueue + DeviceControl> Device<Q> {
    fn run(mut self) {
        let mut chain = Chain::with_capacity(2);
        loop {
            self.may_save();
            self.ring.wait_for_kick();
            loop {
                self.may_save();
                self.queue.disable_notification();
                loop {
                    self.may_save();
                    let popped = self.queue.pop(&mut chain);
                    self.head = popped.expect("the driver keeps the rules");
                    if self.head.is_none() {
                        break;
                    }
                    self.may_save();
                    if let Some(head) = self.head.take() {
                        let done = self.queue.add_used(head, 0);
                        done.expect("the chain is this queue's");
                    }
                    self.may_save();
                    if self.queue.needs_notification() {
                        self.ring.interrupt();
                    }
                }
                self.may_save();
                if !self.queue.enable_notification() {
                    break;
                }
            }
        }
    }

    fn may_save(&mut self) {
        let state = self.queue.save(&self.head);
        let mut state = state.expect("the chain is this queue's");
        let now = state.clone();
        if self.saved || choose(2) == 0 {
            self.old = Some(now);
            return;
        }
        self.saved = true;
        let mut features = features(&self.ring);
        match self.defect {
            D::OldState => state = self.old.take().unwrap_or(now),
            D::ForgetsUnsignalled => state.unsignalled = 0,
            D::ForgetsNextAvail => state.next_avail = state.avail_seen,
            D::ForgetsAvailSeen => state.avail_seen = state.next_avail,
            D::ForgetsTaken if !state.heads.is_empty() => {
                state.heads.clear();
                state.next_used = state.next_avail;
            }
            D::ForgetsHead => state.heads.clear(),
            D::ForgetsEventIdx => {
                features.event_idx = false;
                state.features = features;
            }
            D::ForgetsWrap => {
                state.next_avail |= 1 << 15;
                state.next_used |= 1 << 15;
            }
            _ => {}
        }
        self.queue = (self.attach)(&self.ring, features);
        let heads = self.queue.restore(&state);
        self.head = heads.expect("a state of a queue").pop();
        self.resume();
    }

    /// What a VMM does when the queue is restored.
    fn resume(&mut self) {
        let ring = self.ring;
        match self.defect {
            D::KickLost => {
                ring.device_bell(0).clear();
            }
            D::InterruptLost => {
                ring.driver_bell().clear();
            }
            D::OldAvailEvent => {
                let at = match ring.shape.format {
                    Format::Split => ring.device + 4 + 8 * ring.shape.size,
                    Format::Packed => ring.device,
                };
                let event = if ring.shape.format == Format::Split {
                    0
                } else {
                    1 << 15
                };
                ring.memory().store(at.into(), 2, event, Order::Relaxed);
            }
            D::NotificationsOff => self.queue.disable_notification(),
            _ => {}
        }
    }
}

type Queue<S> = vmbell_virtqueue::Driver<(), S, Subject>;

/// A driver that is saved once.
struct Driver<S: Side> {
    queue: Queue<S>,
    attach: fn(&Ring) -> Queue<S>,
    ring: Ring,
    old: Option<DriverState>,
    saved: bool,
    defect: Defect,
}

impl<S: Side> Driver<S> {
    fn run(mut self) {
        let (mut sent, mut answered) = (0, 0);
        loop {
            while sent < REQUESTS && sent - answered < self.ring.shape.size {
                self.may_save();
                let added = self.queue.add(&[Buffer::new(0x800, 8)], &[], ());
                added.expect("the queue has a free descriptor");
                sent += 1;
                self.may_save();
                if self.queue.kick_prepare() {
                    self.ring.kick();
                }
            }
            loop {
                self.may_save();
                self.queue.disable_cb();
                loop {
                    self.may_save();
                    let used = self.queue.get_used();
                    if used.expect("the device keeps the rules").is_none() {
                        break;
                    }
                    answered += 1;
                }
                self.may_save();
                if answered == sent || self.queue.enable_cb() {
                    break;
                }
            }
            if answered == REQUESTS {
                return;
            }
            if sent == REQUESTS || sent - answered == self.ring.shape.size {
                self.may_save();
                self.ring.wait_for_interrupt();
            }
        }
    }

    fn may_save(&mut self) {
        let mut state = self.queue.save().expect("no data was taken");
        let now = state.clone();
        if self.saved || choose(2) == 0 {
            self.old = Some(now);
            return;
        }
        self.saved = true;
        match self.defect {
            D::OldDriverState => state = self.old.take().unwrap_or(now),
            D::ForgetsUnkicked => state.unkicked = 0,
            D::ForgetsPosition => state.position = 0,
            D::ForgetsBuffers => state.buffers.clear(),
            D::ForgetsUsedSeen if state.ring == vmbell_virtqueue::RingKind::Split => {
                state.used_seen = u16::try_from(state.position & 0xFFFF).expect("16 bits");
            }
            _ => {}
        }
        self.queue = (self.attach)(&self.ring);
        let done = self.queue.restore(&state, |_| Some(()));
        done.expect("a state of a queue");
        if self.defect == D::InterruptsOff {
            self.queue.disable_cb();
        }
    }
}

fn explore(explorer: &Explorer, shape: Shape, defect: Defect) -> Report {
    let report = explorer.run(|scenario| {
        let ring = scenario.ring(shape);
        let driver = [
            D::ForgetsUnkicked,
            D::ForgetsPosition,
            D::ForgetsBuffers,
            D::OldDriverState,
            D::InterruptsOff,
            D::ForgetsUsedSeen,
        ];
        let is_split = shape.format == Format::Split;
        if driver.contains(&defect) {
            fn body<S: Side + 'static>(
                ring: Ring,
                defect: Defect,
                attach: fn(&Ring) -> Queue<S>,
            ) -> Box<dyn FnOnce()> {
                let driver = Driver {
                    queue: attach(&ring),
                    attach,
                    ring,
                    old: None,
                    saved: false,
                    defect,
                };
                Box::new(move || driver.run())
            }
            scenario.task(
                "driver",
                match is_split {
                    true => body(ring, defect, split_driver),
                    false => body(ring, defect, packed_driver),
                },
            );
            scenario.background("device", ring.reference_device());
        } else {
            fn body<Q>(
                ring: Ring,
                defect: Defect,
                attach: fn(&Ring, Features) -> Q,
            ) -> Box<dyn FnOnce()>
            where
                Q: DeviceQueue + DeviceControl + 'static,
            {
                let device = Device {
                    queue: attach(&ring, features(&ring)),
                    attach,
                    ring,
                    head: None,
                    old: None,
                    saved: false,
                    defect,
                };
                Box::new(move || device.run())
            }
            let load = Load::new(REQUESTS, shape.size);
            scenario.task("driver", ring.reference_driver(load));
            scenario.background(
                "device",
                match is_split {
                    true => body(ring, defect, split_device),
                    false => body(ring, defect, packed_device),
                },
            );
        }
    });
    report.expect("it can be explored")
}

/// The scenes of a defect. A packed ring of one descriptor is in another lap after each request.
fn scenes(defect: Defect) -> Vec<Scene> {
    let shapes = |event_idx| match defect {
        D::ForgetsWrap => vec![(Shape::packed(1, event_idx), "packed, size 1")],
        D::ForgetsAvailSeen | D::ForgetsUsedSeen | D::ForgetsNextAvail => {
            vec![(Shape::split(2, event_idx), "split")]
        }
        _ => vec![
            (Shape::split(2, event_idx), "split"),
            (Shape::packed(2, event_idx), "packed"),
        ],
    };
    let mut scenes = Vec::new();
    for event_idx in [false, true] {
        for (shape, kind) in shapes(event_idx) {
            let event = if event_idx { "event index" } else { "flags" };
            scenes.push(Scene {
                name: format!("{kind}, {event}"),
                explore: Box::new(move |explorer| explore(explorer, shape, defect)),
            });
        }
    }
    scenes
}

#[test]
fn mutants_of_save_and_restore_are_killed() {
    hunt("Save and restore", 18, Mutant::all(DEFECTS, scenes));
}

#[test]
fn queues_that_are_restored_without_a_defect_lose_nothing() {
    control(scenes(Defect::None));
}
