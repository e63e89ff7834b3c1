//! Both sides of a split ring (virtio 1.3, 2.7), each with one defect. Without a defect they follow the specification.

use vmbell_check::Order::{Acquire, Relaxed, Release, SeqCst};
use vmbell_check::{Memory, Order, Ring, Shape, claim, fence};

use crate::table::{Fate, Mutant, Scene, control, defects, hunt};

defects! {
    NoFenceBeforeKickQuestion "driver: no fence between the available index and the kick question";
    NoFenceBeforeDriverSleeps "driver: no fence between enabling interrupts and the last look";
    NoLastLookOfDriver "driver: sleeps without a last look";
    EnablesAfterLastLook "driver: enables interrupts after the last look";
    NeverEnablesInterrupts "driver: never enables interrupts again";
    EnablesInterruptsBeforeWork "driver: stores used_event before it takes buffers, not after";
    UsedEventOneAhead "driver: used_event is one ahead";
    UsedEventOneBehind "driver: used_event is one behind";
    ComparesAvailEventAsNumbers "driver: compares with avail_event as numbers, without wrapping";
    AvailEventOffByOne "driver: need_event without the - 1";
    AvailEventInclusive "driver: need_event with <=" equivalent "it only notifies more often";
    AsksForLastOnly "driver: asks once for a batch, with the last index as the old one";
    KickQuestionBeforeIndex "driver: asks before it stores the available index";
    StaleOldIndex "driver: never moves the old index of the question" equivalent "it only notifies more often";
    EntryAfterIndex "driver: stores the available entry after the index";
    DescriptorAfterIndex "driver: stores the descriptor's length after the index";
    AvailIndexRelaxed "driver: stores the available index relaxed";
    UsedIndexReadRelaxed "driver: loads the used index relaxed";
    DropsInterruptBeforeSleep "driver: reads its eventfd after the work, not before";
    TakesOnePerInterrupt "driver: takes one buffer per interrupt";
    NoFenceBeforeInterruptQuestion "device: no fence between the used index and the interrupt question";
    NoFenceBeforeDeviceSleeps "device: no fence between enabling notifications and the last look";
    NoLastLookOfDevice "device: sleeps without a last look";
    AvailEventAfterLastLook "device: enables notifications after the last look";
    AvailEventOfBatchBegin "device: avail_event is where the batch began";
    NeverEnablesNotifications "device: never enables notifications again";
    UsedEventEqualsIndex "device: interrupts if used_event is the used index, not one before it";
    ComparesUsedEventAsNumbers "device: compares with used_event as numbers, without wrapping";
    InterruptQuestionBeforeUsed "device: asks before it stores the used index";
    AsksForLastUsedOnly "device: asks once for a batch, with the last index as the old one";
    ReadsSuppressionOnce "device: reads the driver's suppression once for a batch, at its beginning";
    ElementAfterIndex "device: stores the used element after the index";
    UsedIndexRelaxed "device: stores the used index relaxed";
    AvailIndexReadRelaxed "device: loads the available index relaxed";
    DropsKickBeforeSleep "device: reads its eventfd after the work, not before";
    ServesOnePerKick "device: serves one chain per kick";
}

use Defect as D;

/// The fields of a ring.
#[derive(Clone, Copy)]
struct Fields {
    ring: Ring,
    memory: Memory,
    size: u16,
    event_idx: bool,
    start: u16,
    batch: bool,
    defect: Defect,
}

impl Fields {
    fn has(&self, defect: Defect) -> bool {
        self.defect == defect
    }
    fn load(&self, at: u16, order: Order) -> u16 {
        u16::try_from(self.memory.load(at.into(), 2, order)).expect("16 bits")
    }
    fn store(&self, at: u16, value: u16, order: Order) {
        self.memory.store(at.into(), 2, value.into(), order);
    }
    fn avail_flags(&self) -> u16 {
        self.ring.driver
    }
    fn avail_idx(&self) -> u16 {
        self.ring.driver + 2
    }
    fn avail_entry(&self, index: u16) -> u16 {
        self.ring.driver + 4 + 2 * (index % self.size)
    }
    fn used_event(&self) -> u16 {
        self.ring.driver + 4 + 2 * self.size
    }
    fn used_flags(&self) -> u16 {
        self.ring.device
    }
    fn used_idx(&self) -> u16 {
        self.ring.device + 2
    }
    fn used_entry(&self, index: u16) -> u16 {
        self.ring.device + 4 + 8 * (index % self.size)
    }
    fn avail_event(&self) -> u16 {
        self.ring.device + 4 + 8 * self.size
    }
    fn fence_unless(&self, defect: Defect) {
        if !self.has(defect) {
            fence(SeqCst);
        }
    }
}

fn need_event(event: u16, new: u16, old: u16) -> bool {
    new.wrapping_sub(event).wrapping_sub(1) < new.wrapping_sub(old)
}

const REQUESTS: u16 = 2;

fn drive(f: &Fields) {
    let mut free: Vec<u16> = (0..f.size).rev().collect();
    let (mut avail, mut used, mut asked) = (f.start, f.start, f.start);
    let (mut sent, mut answered) = (0, 0);
    loop {
        while sent < REQUESTS {
            let Some(id) = free.pop() else { break };
            let length = usize::from(f.ring.descriptors + 16 * id + 8);
            let publish = || {
                f.store(
                    f.avail_idx(),
                    avail.wrapping_add(1),
                    match f.defect {
                        D::AvailIndexRelaxed => Relaxed,
                        _ => Release,
                    },
                )
            };
            let describe = || f.memory.store(length, 4, 8, Relaxed);
            let enter = || f.store(f.avail_entry(avail), id, Relaxed);
            match f.defect {
                D::EntryAfterIndex => [&describe as &dyn Fn(), &publish, &enter],
                D::DescriptorAfterIndex => [&enter as &dyn Fn(), &publish, &describe],
                D::KickQuestionBeforeIndex => [&describe as &dyn Fn(), &enter, &|| ()],
                _ => [&describe as &dyn Fn(), &enter, &publish],
            }
            .iter()
            .for_each(|step| step());
            if f.has(D::KickQuestionBeforeIndex) {
                kick(f, avail.wrapping_add(1), &mut asked);
                publish();
            }
            avail = avail.wrapping_add(1);
            sent += 1;
            if !f.batch && !f.has(D::KickQuestionBeforeIndex) {
                kick(f, avail, &mut asked);
            }
        }
        if f.batch && asked != avail && !f.has(D::KickQuestionBeforeIndex) {
            kick(f, avail, &mut asked);
        }
        loop {
            let enable = |used: u16| match f.event_idx {
                true => f.store(f.used_event(), used, Relaxed),
                false => f.store(f.avail_flags(), 0, Relaxed),
            };
            if !f.event_idx {
                f.store(f.avail_flags(), 1, Relaxed);
            } else if f.has(D::EnablesInterruptsBeforeWork) {
                enable(used);
            }
            let order = if f.has(D::UsedIndexReadRelaxed) {
                Relaxed
            } else {
                Acquire
            };
            let mut taken = 0;
            while f.load(f.used_idx(), order) != used
                && !(taken == 1 && f.has(D::TakesOnePerInterrupt))
            {
                let id = f.memory.load(f.used_entry(used).into(), 4, Relaxed);
                // Ids are stored plus 1, so that an element that was not written is detected.
                let known = (1..=u64::from(f.size)).contains(&id);
                claim(known, || {
                    "an element is read before it is written".to_string()
                });
                free.push(u16::try_from(id).unwrap_or(1).wrapping_sub(1));
                used = used.wrapping_add(1);
                answered += 1;
                taken += 1;
            }
            match f.defect {
                D::EnablesAfterLastLook | D::NeverEnablesInterrupts => {}
                D::EnablesInterruptsBeforeWork if f.event_idx => {}
                D::UsedEventOneAhead => enable(used.wrapping_add(1)),
                D::UsedEventOneBehind => enable(used.wrapping_sub(1)),
                _ => enable(used),
            }
            f.fence_unless(D::NoFenceBeforeDriverSleeps);
            let blind = [D::NoLastLookOfDriver, D::TakesOnePerInterrupt].contains(&f.defect);
            let done = blind || f.load(f.used_idx(), Relaxed) == used;
            if f.has(D::EnablesAfterLastLook) {
                enable(used);
            }
            if done || answered == sent {
                break;
            }
        }
        if answered == REQUESTS {
            return;
        }
        if sent == REQUESTS || free.is_empty() {
            if f.has(D::DropsInterruptBeforeSleep) {
                f.ring.driver_bell().clear();
            }
            f.ring.wait_for_interrupt();
        }
    }
}

fn kick(f: &Fields, avail: u16, asked: &mut u16) {
    f.fence_unless(D::NoFenceBeforeKickQuestion);
    let old = match f.defect {
        D::AsksForLastOnly => avail.wrapping_sub(1),
        _ => *asked,
    };
    let wanted = if f.event_idx {
        let event = f.load(f.avail_event(), Relaxed);
        match f.defect {
            D::ComparesAvailEventAsNumbers => avail > event,
            D::AvailEventOffByOne => avail.wrapping_sub(event) < avail.wrapping_sub(old),
            D::AvailEventInclusive => {
                avail.wrapping_sub(event).wrapping_sub(1) <= avail.wrapping_sub(old)
            }
            _ => need_event(event, avail, old),
        }
    } else {
        f.load(f.used_flags(), Relaxed) & 1 == 0
    };
    if !f.has(D::StaleOldIndex) {
        *asked = avail;
    }
    if wanted {
        f.ring.kick();
    }
}

fn serve(f: &Fields) {
    let (mut avail, mut used) = (f.start, f.start);
    let suppression = || match f.event_idx {
        true => f.load(f.used_event(), Relaxed),
        false => f.load(f.avail_flags(), Relaxed),
    };
    let wants = |event: u16, new: u16, old: u16| match (f.event_idx, f.defect) {
        (false, _) => event & 1 == 0,
        (true, D::UsedEventEqualsIndex) => event == new,
        (true, D::ComparesUsedEventAsNumbers) => new > event,
        (true, _) => need_event(event, new, old),
    };
    loop {
        if f.has(D::DropsKickBeforeSleep) {
            f.ring.device_bell(0).clear();
        }
        f.ring.wait_for_kick();
        loop {
            let enable = |avail: u16| match f.event_idx {
                true => f.store(f.avail_event(), avail, Relaxed),
                false => f.store(f.used_flags(), 0, Relaxed),
            };
            if !f.event_idx {
                f.store(f.used_flags(), 1, Relaxed);
            }
            let (first_avail, first) = (avail, used);
            let early = f.has(D::ReadsSuppressionOnce).then(suppression);
            let ask = |new: u16, old: u16| {
                f.fence_unless(D::NoFenceBeforeInterruptQuestion);
                if wants(early.unwrap_or_else(suppression), new, old) {
                    f.ring.interrupt();
                }
            };
            let order = if f.has(D::AvailIndexReadRelaxed) {
                Relaxed
            } else {
                Acquire
            };
            while f.load(f.avail_idx(), order) != avail
                && !(avail != first_avail && f.has(D::ServesOnePerKick))
            {
                let id = f.load(f.avail_entry(avail), Relaxed) % f.size;
                let at = usize::from(f.ring.descriptors + 16 * id);
                let len = f.memory.load(at + 8, 4, Relaxed);
                claim(len != 0, || {
                    format!("descriptor {id} is read before it is written")
                });
                f.memory.store(at + 8, 4, 0, Relaxed);
                avail = avail.wrapping_add(1);
                let enter = || {
                    let at = f.used_entry(used).into();
                    f.memory.store(at, 4, u64::from(id) + 1, Relaxed);
                };
                let publish = || {
                    f.store(
                        f.used_idx(),
                        used.wrapping_add(1),
                        match f.defect {
                            D::UsedIndexRelaxed => Relaxed,
                            _ => Release,
                        },
                    )
                };
                if f.has(D::InterruptQuestionBeforeUsed) {
                    ask(used.wrapping_add(1), used);
                }
                if f.has(D::ElementAfterIndex) {
                    publish();
                    enter();
                } else {
                    enter();
                    publish();
                }
                used = used.wrapping_add(1);
                if !f.batch && !f.has(D::InterruptQuestionBeforeUsed) {
                    ask(used, used.wrapping_sub(1));
                }
            }
            if f.batch && used != first && !f.has(D::InterruptQuestionBeforeUsed) {
                let old = match f.defect {
                    D::AsksForLastUsedOnly => used.wrapping_sub(1),
                    _ => first,
                };
                ask(used, old);
            }
            match f.defect {
                D::AvailEventAfterLastLook | D::NeverEnablesNotifications => {}
                D::AvailEventOfBatchBegin => enable(first_avail),
                _ => enable(avail),
            }
            f.fence_unless(D::NoFenceBeforeDeviceSleeps);
            let blind = [D::NoLastLookOfDevice, D::ServesOnePerKick].contains(&f.defect);
            let done = blind || f.load(f.avail_idx(), Relaxed) == avail;
            if f.has(D::AvailEventAfterLastLook) {
                enable(avail);
            }
            if done {
                break;
            }
        }
    }
}

/// The scenes of a defect: with and without an event index, at the beginning of the index and where it wraps, asking
/// after each buffer or after all buffers.
fn scenes(defect: Defect) -> Vec<Scene> {
    let mut scenes = Vec::new();
    for event_idx in [false, true] {
        for (start, batch) in [(0, false), (0, true), (65_534, true)] {
            let shape = Shape::split(2, event_idx).starting_at(start);
            let (event, batches) = (
                if event_idx { "event index" } else { "flags" },
                if batch { ", batch" } else { "" },
            );
            scenes.push(Scene {
                name: format!("{event}{batches}, from {start}"),
                explore: Box::new(move |explorer| {
                    let report = explorer.run(|scenario| {
                        let ring = scenario.ring(shape);
                        ring.preset();
                        let fields = Fields {
                            ring,
                            memory: ring.memory(),
                            size: shape.size,
                            event_idx,
                            start,
                            batch,
                            defect,
                        };
                        scenario.task("driver", move || drive(&fields));
                        scenario.background("device", move || serve(&fields));
                    });
                    report.expect("it can be explored")
                }),
            });
        }
    }
    scenes
}

#[test]
fn mutants_of_split_rings_are_killed() {
    hunt("Split rings", 36, Mutant::all(DEFECTS, scenes));
}

#[test]
fn split_rings_without_a_defect_lose_nothing() {
    control(scenes(Defect::None));
}
