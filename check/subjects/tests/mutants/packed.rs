//! Both sides of a packed ring (virtio 1.3, 2.8), each with one defect. Without a defect they follow the specification.

use vmbell_check::Order::{Acquire, Relaxed, Release, SeqCst};
use vmbell_check::{Memory, Order, Ring, Shape, claim, fence};

use crate::table::{Fate, Mutant, Scene, control, defects, hunt};

defects! {
    NoFenceBeforeKickQuestion "driver: no fence between the descriptor and the kick question";
    NoFenceBeforeDriverSleeps "driver: no fence between enabling interrupts and the last look";
    NoFenceBeforeInterruptQuestion "device: no fence between the used descriptor and the interrupt question";
    NoFenceBeforeDeviceSleeps "device: no fence between enabling notifications and the last look";
    NoLastLookOfDriver "driver: sleeps without a last look";
    NoLastLookOfDevice "device: sleeps without a last look";
    NeverEnablesInterrupts "driver: never enables interrupts again";
    NeverEnablesNotifications "device: never enables notifications again";
    EventWithoutWrap "both: the wrap counter in the event is always 1";
    EventWrapInverted "both: the wrap counter in the event is inverted";
    EventLapIgnored "both: the question ignores the event's wrap counter";
    OldLapIgnored "both: the question ignores that the old position is of the lap before";
    EventOneAhead "both: the event is one descriptor ahead";
    EventOfBatchBegin "driver: the event is where the batch began";
    WrapNeverToggles "both: the wrap counter never changes";
    WrapTogglesLate "device: the wrap counter changes one descriptor late";
    DescriptorFlagsRelaxed "driver: stores the flags of a descriptor relaxed";
    DescriptorFlagsReadRelaxed "device: loads the flags of a descriptor relaxed";
    UsedFlagsRelaxed "device: stores the flags of a used descriptor relaxed";
    UsedFlagsReadRelaxed "driver: loads the flags of a used descriptor relaxed";
    FlagsBeforeLength "driver: stores the flags before the length";
    UsedFlagsBeforeId "device: stores the used flags before the id";
    KickQuestionBeforeFlags "driver: asks before it stores the flags";
    InterruptQuestionBeforeUsed "device: asks before it stores the used flags";
    AsksForLastOnly "driver: asks once for a batch, for the last descriptor only";
    TornEvent "both: the event's flags are stored before its position"
        equivalent "the last look comes after both stores";
    AvailableByOneBit "device: takes a descriptor as available by its AVAIL bit only"
        equivalent "the device knows which it has used";
    UsedByOneBit "driver: takes a descriptor as used by its USED bit only"
        equivalent "the driver knows which it has made available";
}

use Defect as D;

const AVAIL: u16 = 1 << 7;
const USED: u16 = 1 << 15;
const REQUESTS: u16 = 2;

/// A position in the ring, counted without wrapping at its end: the slot, and the wrap counter of its lap.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Position(u16);

#[derive(Clone, Copy)]
struct Fields {
    ring: Ring,
    memory: Memory,
    size: u16,
    event_idx: bool,
    batch: bool,
    start: Position,
    defect: Defect,
}

impl Fields {
    /// What the sides have written before the start: the first descriptor is used, and the device sleeps.
    fn preset(&self) {
        if self.start.0 != 0 {
            let flags = (AVAIL | USED).to_le_bytes();
            self.memory.preset(self.at(Position(0), 14), &flags);
        }
        if self.event_idx {
            let event = u32::from(self.start.0) | 1 << 15 | 2 << 16;
            let at = usize::from(self.ring.device);
            self.memory.preset(at, &event.to_le_bytes());
        }
    }

    fn has(&self, defect: Defect) -> bool {
        self.defect == defect
    }
    fn at(&self, position: Position, field: u16) -> usize {
        usize::from(self.ring.descriptors + 16 * (position.0 % self.size) + field)
    }
    fn wrap(&self, position: Position) -> bool {
        self.has(D::WrapNeverToggles) || (position.0 / self.size).is_multiple_of(2)
    }
    fn order(&self, defect: Defect, order: Order) -> Order {
        if self.has(defect) { Relaxed } else { order }
    }
    fn flags(&self, position: Position, order: Order) -> u16 {
        let flags = self.memory.load(self.at(position, 14), 2, order);
        u16::try_from(flags).expect("16 bits") & (AVAIL | USED)
    }
    fn is_available(&self, position: Position, order: Order) -> bool {
        let (flags, wrap) = (self.flags(position, order), self.wrap(position));
        match self.has(D::AvailableByOneBit) {
            true => (flags & AVAIL != 0) == wrap,
            false => flags == if wrap { AVAIL } else { USED },
        }
    }
    fn is_used(&self, position: Position, order: Order) -> bool {
        let (flags, wrap) = (self.flags(position, order), self.wrap(position));
        match self.has(D::UsedByOneBit) {
            true => (flags & USED != 0) == wrap,
            false => flags == if wrap { AVAIL | USED } else { 0 },
        }
    }
    fn fence_unless(&self, defect: Defect) {
        if !self.has(defect) {
            fence(SeqCst);
        }
    }

    /// Returns whether the other side wants to be notified of the descriptors from `old` to `new`.
    fn wants(&self, event: u16, old: Position, new: Position) -> bool {
        let word = self.memory.load(event.into(), 4, Relaxed);
        let position = |position: Position| i64::from(position.0 % self.size);
        match word >> 16 & 3 {
            1 => false,
            2 => {
                let size = i64::from(self.size);
                let (event_slot, wrap) = (i64::try_from(word & 0x7FFF), word >> 15 & 1 != 0);
                let mut event = event_slot.expect("15 bits");
                if wrap != self.wrap(new) && !self.has(D::EventLapIgnored) {
                    event -= size;
                }
                let mut old_at = position(old);
                if self.wrap(old) != self.wrap(new) && !self.has(D::OldLapIgnored) {
                    old_at -= size;
                }
                (old_at..position(new)).contains(&event)
            }
            _ => true,
        }
    }

    fn disable(&self, event: u16) {
        self.memory.store(event.into(), 4, 1 << 16, Relaxed);
    }

    fn enable(&self, event: u16, at: Position) {
        let flags = if self.event_idx { 2 } else { 0 };
        let at = match self.defect {
            D::EventOneAhead => Position(at.0 + 1),
            _ => at,
        };
        let wrap = match self.defect {
            D::EventWithoutWrap => true,
            D::EventWrapInverted => !self.wrap(at),
            _ => self.wrap(at),
        };
        let off_wrap = u64::from(at.0 % self.size) | u64::from(wrap) << 15;
        if self.has(D::TornEvent) {
            self.memory.store(usize::from(event) + 2, 2, flags, Relaxed);
            self.memory.store(event.into(), 2, off_wrap, Relaxed);
        } else {
            self.memory
                .store(event.into(), 4, flags << 16 | off_wrap, Relaxed);
        }
    }
}

fn drive(f: &Fields) {
    let (mut avail, mut used) = (f.start, f.start);
    let end = f.start.0 + REQUESTS;
    let kick = |old: Position, new: Position| {
        f.fence_unless(D::NoFenceBeforeKickQuestion);
        if f.wants(f.ring.device, old, new) {
            f.ring.kick();
        }
    };
    loop {
        let first = avail;
        while avail.0 < end && avail.0 - used.0 < f.size {
            let next = Position(avail.0 + 1);
            let describe = || {
                f.memory.store(f.at(avail, 12), 2, avail.0.into(), Relaxed);
                f.memory.store(f.at(avail, 8), 4, 8, Relaxed);
            };
            let publish = || {
                let flags = if f.wrap(avail) { AVAIL } else { USED };
                let order = f.order(D::DescriptorFlagsRelaxed, Release);
                f.memory.store(f.at(avail, 14), 2, flags.into(), order);
            };
            let ask = || kick(avail, next);
            match f.defect {
                D::FlagsBeforeLength => [&publish as &dyn Fn(), &describe, &|| ()],
                D::KickQuestionBeforeFlags => [&describe as &dyn Fn(), &ask, &publish],
                _ => [&describe as &dyn Fn(), &publish, &|| ()],
            }
            .iter()
            .for_each(|step| step());
            if !f.batch && !f.has(D::KickQuestionBeforeFlags) {
                kick(avail, next);
            }
            avail = next;
        }
        if f.batch && avail != first && !f.has(D::KickQuestionBeforeFlags) {
            let old = match f.defect {
                D::AsksForLastOnly => Position(avail.0 - 1),
                _ => first,
            };
            kick(old, avail);
        }
        loop {
            f.disable(f.ring.driver);
            let begin = used;
            while used.0 < avail.0 && f.is_used(used, f.order(D::UsedFlagsReadRelaxed, Acquire)) {
                // A device gives id + 1 back, so that an id that it has not written is detected.
                let id = f.memory.load(f.at(used, 12), 2, Relaxed);
                claim(id == u64::from(used.0) + 1, || {
                    format!("buffer {id} is used, which it is not")
                });
                used = Position(used.0 + 1);
            }
            match f.defect {
                D::NeverEnablesInterrupts => {}
                D::EventOfBatchBegin => f.enable(f.ring.driver, begin),
                _ => f.enable(f.ring.driver, used),
            }
            f.fence_unless(D::NoFenceBeforeDriverSleeps);
            let done = used == avail || !f.is_used(used, Relaxed);
            if f.has(D::NoLastLookOfDriver) || done {
                break;
            }
        }
        if used.0 == end {
            return;
        }
        if avail.0 == end || avail.0 - used.0 == f.size {
            f.ring.wait_for_interrupt();
        }
    }
}

fn serve(f: &Fields) {
    let mut next = f.start;
    let late = |at: Position| match f.defect {
        D::WrapTogglesLate if at.0 == f.size => Position(0),
        _ => at,
    };
    loop {
        f.ring.wait_for_kick();
        loop {
            f.disable(f.ring.device);
            let order = f.order(D::DescriptorFlagsReadRelaxed, Acquire);
            while f.is_available(late(next), order) {
                let id = f.memory.load(f.at(next, 12), 2, Relaxed);
                let len = f.memory.load(f.at(next, 8), 4, Relaxed);
                claim(len != 0, || {
                    format!("descriptor {} is read before it is written", next.0)
                });
                f.memory.store(f.at(next, 8), 4, 0, Relaxed);
                let after = Position(next.0 + 1);
                let ask = || {
                    f.fence_unless(D::NoFenceBeforeInterruptQuestion);
                    if f.wants(f.ring.driver, next, after) {
                        f.ring.interrupt();
                    }
                };
                let answer = || f.memory.store(f.at(next, 12), 2, id + 1, Relaxed);
                let publish = || {
                    let flags = if f.wrap(late(next)) { AVAIL | USED } else { 0 };
                    let order = f.order(D::UsedFlagsRelaxed, Release);
                    f.memory.store(f.at(next, 14), 2, flags.into(), order);
                };
                match f.defect {
                    D::UsedFlagsBeforeId => [&publish as &dyn Fn(), &answer, &ask],
                    D::InterruptQuestionBeforeUsed => [&ask as &dyn Fn(), &answer, &publish],
                    _ => [&answer as &dyn Fn(), &publish, &ask],
                }
                .iter()
                .for_each(|step| step());
                next = after;
            }
            if !f.has(D::NeverEnablesNotifications) {
                f.enable(f.ring.device, next);
            }
            f.fence_unless(D::NoFenceBeforeDeviceSleeps);
            if f.has(D::NoLastLookOfDevice) || !f.is_available(late(next), Relaxed) {
                break;
            }
        }
    }
}

/// The scenes of a defect: two requests in two descriptors, from the beginning and with the second in the next lap.
fn scenes(defect: Defect) -> Vec<Scene> {
    let mut scenes = Vec::new();
    for event_idx in [false, true] {
        for (start, batch) in [(0, false), (0, true), (1, false), (1, true)] {
            let event = if event_idx { "event index" } else { "flags" };
            let batches = if batch { ", batch" } else { "" };
            scenes.push(Scene {
                name: format!("{event}{batches}, from {start}"),
                explore: Box::new(move |explorer| {
                    let report = explorer.run(|scenario| {
                        let ring = scenario.ring(Shape::packed(2, event_idx));
                        let fields = Fields {
                            ring,
                            memory: ring.memory(),
                            size: 2,
                            event_idx,
                            batch,
                            start: Position(start),
                            defect,
                        };
                        fields.preset();
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
fn mutants_of_packed_rings_are_killed() {
    hunt("Packed rings", 28, Mutant::all(DEFECTS, scenes));
}

#[test]
fn packed_rings_without_a_defect_lose_nothing() {
    control(scenes(Defect::None));
}
