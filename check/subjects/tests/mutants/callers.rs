//! Callers of vmbell's queues that make one mistake each, over split and packed rings.

use vmbell_check::{Explorer, Report, Ring, Shape};
use vmbell_virtqueue::{
    Brand, Buffer, Chain, DeviceQueue, Driver, Features, PackedDevice, PackedDriver, PackedLayout,
    Side, SplitDevice, SplitDriver, SplitLayout,
};

use crate::memory::Site;
use crate::table::{Fate, Mutant, Scene, control, defects, hunt};

defects! {
    IgnoresEnableNotification "device: ignores that a chain is waiting when it enables notifications";
    SleepsWithNotificationsOff "device: does not enable notifications before it sleeps";
    AsksBeforeUsed "device: asks if it is to interrupt before it gives the chain back";
    ForgetsToAsk "device: asks only for the first chain of a batch, before the others are given back";
    DisablesAfterEnable "device: disables notifications again before it sleeps";
    PopsOnce "device: takes one chain per kick";
    DropsKick "device: reads its eventfd after it has enabled notifications";
    KeepsLastAnswer "device: asks for each chain of a batch and keeps the last answer only";
    IgnoresEnableCb "driver: ignores that a buffer is waiting when it enables interrupts";
    SleepsWithInterruptsOff "driver: does not enable interrupts before it sleeps";
    KicksBeforeAdd "driver: asks if it is to kick before it adds the buffers";
    KicksForFirstOnly "driver: asks for the first buffer of a batch, and adds the others after that";
    DropsKickAnswer "driver: asks for each buffer and keeps the last answer only";
    TakesOnce "driver: takes one buffer per interrupt";
    DropsInterrupt "driver: reads its eventfd after it has enabled interrupts";
    IgnoresEnableCbDelayed "driver: ignores that buffers are waiting when it enables a late interrupt";
    AsksTwice "device: asks twice for the same chain"
        equivalent "the second answer is no, as nothing was given back since";
    DisablesNothing "both: never disable anything"
        equivalent "it only notifies more often";
}

use Defect as D;

const REQUESTS: u32 = 2;

vmbell_virtqueue::queue_brand!(Subject);

fn drive(mut queue: Driver<(), impl Side, impl Brand>, ring: Ring, defect: Defect) {
    let has = |other| defect == other;
    let (mut sent, mut answered) = (0, 0);
    while answered < REQUESTS {
        while sent < REQUESTS {
            let early = has(D::KicksBeforeAdd) && sent == 0 && queue.kick_prepare();
            let added = queue.add(&[Buffer::new(0x800, 8)], &[], ());
            added.expect("the queue has a free descriptor");
            sent += 1;
            let wanted = match defect {
                D::KicksBeforeAdd => early,
                D::KicksForFirstOnly if sent > 1 => false,
                D::DropsKickAnswer => queue.kick_prepare() && sent == REQUESTS,
                _ => queue.kick_prepare(),
            };
            if wanted {
                ring.kick();
            }
        }
        loop {
            if !has(D::DisablesNothing) {
                queue.disable_cb();
            }
            while queue
                .get_used()
                .expect("the device keeps the rules")
                .is_some()
            {
                answered += 1;
                if has(D::TakesOnce) {
                    break;
                }
            }
            let sleeps = match defect {
                _ if answered == REQUESTS => true,
                D::SleepsWithInterruptsOff => true,
                D::IgnoresEnableCbDelayed => {
                    queue.enable_cb_delayed();
                    true
                }
                _ => queue.enable_cb(),
            };
            if sleeps || has(D::IgnoresEnableCb) || has(D::TakesOnce) {
                break;
            }
        }
        if answered < REQUESTS {
            if has(D::DropsInterrupt) {
                ring.driver_bell().clear();
            }
            ring.wait_for_interrupt();
        }
    }
}

fn serve(mut queue: impl DeviceQueue, ring: Ring, defect: Defect) {
    let has = |other| defect == other;
    let mut chain = Chain::with_capacity(2);
    loop {
        if has(D::DropsKick) {
            ring.device_bell(0).clear();
        }
        ring.wait_for_kick();
        loop {
            if !has(D::DisablesNothing) {
                queue.disable_notification();
            }
            let (mut asked, mut wanted) = (false, false);
            while let Some(head) = queue.pop(&mut chain).expect("the driver keeps the rules") {
                if has(D::AsksBeforeUsed) {
                    wanted |= queue.needs_notification();
                }
                queue.add_used(head, 0).expect("the chain is this queue's");
                match defect {
                    D::AsksBeforeUsed => {}
                    D::ForgetsToAsk if asked => {}
                    D::KeepsLastAnswer => wanted = queue.needs_notification(),
                    _ => wanted |= queue.needs_notification(),
                }
                asked = true;
                if has(D::AsksTwice) {
                    wanted |= queue.needs_notification();
                }
                if has(D::PopsOnce) {
                    break;
                }
            }
            if wanted {
                ring.interrupt();
            }
            if has(D::SleepsWithNotificationsOff) {
                break;
            }
            let more = queue.enable_notification();
            if has(D::DisablesAfterEnable) && !more {
                queue.disable_notification();
            }
            if !more || has(D::IgnoresEnableNotification) || has(D::PopsOnce) {
                break;
            }
        }
    }
}

fn explore(explorer: &Explorer, shape: Shape, is_split: bool, defect: Defect) -> Report {
    let report = explorer.run(|scenario| {
        let ring = scenario.ring(shape);
        let site = Site(ring.memory());
        let features = Features::default().with_event_idx(shape.event_idx);
        if is_split {
            let layout = SplitLayout {
                size: shape.size,
                descriptors: ring.descriptors.into(),
                avail: ring.driver.into(),
                used: ring.device.into(),
            };
            let driver = SplitDriver::<(), _, _>::new(&site, &layout, features, Subject(()));
            let driver = driver.expect("the ring is in memory");
            let device = SplitDevice::new(&site, &layout, features);
            let device = device.expect("the ring is in memory");
            scenario.task("driver", move || drive(driver, ring, defect));
            scenario.background("device", move || serve(device, ring, defect));
        } else {
            let layout = PackedLayout {
                size: shape.size,
                descriptors: ring.descriptors.into(),
                driver_event: ring.driver.into(),
                device_event: ring.device.into(),
            };
            let driver = PackedDriver::<(), _, _>::new(&site, &layout, features, Subject(()));
            let driver = driver.expect("the ring is in memory");
            let device = PackedDevice::new(&site, &layout, features);
            let device = device.expect("the ring is in memory");
            scenario.task("driver", move || drive(driver, ring, defect));
            scenario.background("device", move || serve(device, ring, defect));
        }
    });
    report.expect("it can be explored")
}

fn scenes(defect: Defect) -> Vec<Scene> {
    let mut scenes = Vec::new();
    for event_idx in [false, true] {
        for is_split in [true, false] {
            let (shape, kind) = if is_split {
                (Shape::split(2, event_idx), "split")
            } else {
                (Shape::packed(2, event_idx), "packed")
            };
            let event = if event_idx { "event index" } else { "flags" };
            scenes.push(Scene {
                name: format!("{kind}, {event}"),
                explore: Box::new(move |explorer| explore(explorer, shape, is_split, defect)),
            });
        }
    }
    scenes
}

#[test]
fn mutants_of_the_callers_of_vmbell_are_killed() {
    hunt(
        "Callers of vmbell's queues",
        18,
        Mutant::all(DEFECTS, scenes),
    );
}

#[test]
fn callers_of_vmbell_without_a_defect_lose_nothing() {
    control(scenes(Defect::None));
}
