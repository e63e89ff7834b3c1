//! The traffic of `vmbell sweep`: requests without end. The image has its own time limit. If an answer or its interrupt
//! does not come within that limit, it prints its ring and then tries three remedies, one at a time: it looks again,
//! notifies the device, and asks for the interrupt. All of this runs on one CPU, and the VM may be paused, saved and
//! restored at any instruction.

mod packed;
mod ring;
mod split;

use core::cell::Cell;
use core::sync::atomic::AtomicU8;
use core::sync::atomic::Ordering::Relaxed;

use self::packed::PackedRing;
use self::ring::{Ring, RingQueue, SEEN};
use self::split::SplitRing;
use super::apic::LocalApic;
use super::cpu::{halt, ticks};
use super::interrupt::count;
use super::serial::say;
use super::virtio::{Device, Devices, FRAME_LEN, Kind, Part, SIZE};
use crate::cmdline::{SweepDevice, SweepOptions, SweepWait};
use crate::number::Digits;

/// What the device writes for one request.
struct Answer {
    data: [AtomicU8; 512],
    status: AtomicU8,
}

static ANSWERS: [Answer; SIZE as usize] = [const {
    Answer {
        data: [const { AtomicU8::new(0) }; 512],
        status: AtomicU8::new(0),
    }
}; SIZE as usize];

const RANDOM_LEN: usize = 16;
/// A value that no answer leaves in the first bytes of its data or in its status.
const POISON: u8 = 0xa5;
/// At most 1/`LOOKS` of the bound is counted as waiting time between two looks, because the time stamp counter keeps
/// running while the VM is paused.
const LOOKS: u64 = 16;

/// The traffic of one device.
struct Traffic<'a> {
    device: &'a Device,
    ring: &'a mut dyn Ring,
    slots: u16,
    options: SweepOptions,
    cpu: u32,
    /// How long the image waits for an answer, in ticks of the time stamp counter.
    bound: u64,
    /// A bit for each request in flight.
    in_flight: u8,
    /// The answers taken before each request was submitted, and in all.
    submitted: [u64; SIZE as usize],
    operations: u64,
    /// Whether the device was notified of the last request.
    kicked: bool,
    /// The first sector, which is the same each time.
    sum: Option<u64>,
}

/// Runs the traffic; returns only if there is none, or if it cannot go on.
pub fn run(options: SweepOptions, devices: &Devices, apic: &LocalApic, hz: Option<u64>) {
    let kind = match options.device {
        SweepDevice::Blk => Kind::Blk,
        SweepDevice::Rng => Kind::Rng,
        SweepDevice::Net => Kind::Net,
    };
    // Without a known frequency, a tick is taken for a nanosecond.
    let ticks_of = |us: u32| u64::from(us) * (hz.unwrap_or(1_000_000_000) / 1_000_000).max(1);
    let bound = ticks_of(options.bound_us);
    let device = match devices.get(kind) {
        Ok(device) => device,
        // Unlike a device that there is not, one that does not work is the VMM's failure.
        Err(reason) => {
            let what = if devices.has(kind) {
                "failed "
            } else {
                "none "
            };
            say!("\nsweep ", what, reason);
            return;
        }
    };
    let prepare = || {
        if options.event_idx && !device.event_idx {
            return Err("the device does not offer EVENT_IDX");
        }
        if options.packed && !device.packed {
            return Err("the device does not offer packed rings");
        }
        if options.wait == SweepWait::Poll {
            return Ok(());
        }
        if !apic.has_timer {
            return Err("the local APIC's timer does not interrupt");
        }
        let tick = match options.wait {
            SweepWait::Interrupt => bound / (2 * LOOKS),
            _ => ticks_of(options.tick_us),
        };
        let counts = apic.counts(tick);
        apic.start_periodic(counts.ok_or("the local APIC's timer does not count")?);
        if options.wait == SweepWait::Interrupt {
            device.listen(apic.id())?;
        }
        Ok(())
    };
    if let Err(reason) = prepare() {
        say!("\nsweep none ", reason);
        return;
    }
    let of = RingQueue {
        queue: device.queue(),
        chain: if kind == Kind::Blk { 3 } else { 1 },
        event_idx: device.event_idx,
    };
    let (mut split, mut packed);
    let ring: &mut dyn Ring = if device.packed {
        packed = PackedRing::new(of);
        &mut packed
    } else {
        split = SplitRing::new(of);
        &mut split
    };
    let mut traffic = Traffic {
        device: &device,
        ring,
        slots: u16::try_from(options.in_flight).unwrap_or(1).min(of.room()),
        options,
        cpu: apic.id(),
        bound,
        in_flight: 0,
        submitted: [0; SIZE as usize],
        operations: 0,
        kicked: true,
        sum: None,
    };
    traffic.introduce(of);
    traffic.run();
}

impl Traffic<'_> {
    /// Prints where the ring is, and is idle for a while: a VM that is paused now has no notification on its way.
    fn introduce(&self, of: RingQueue) {
        let hex = Digits::hexadecimal;
        let [descriptors, driver, device] = of.queue.addresses();
        say!(
            "\nsweep ready ring=",
            if self.device.packed {
                "packed"
            } else {
                "split"
            },
            " event_idx=",
            Digits::decimal(of.event_idx.into()),
            " in_flight=",
            Digits::decimal(self.slots.into()),
            " size=",
            Digits::decimal(SIZE.into()),
            " chain=",
            Digits::decimal(of.chain.into()),
            " descriptors=0x",
            hex(descriptors),
            " driver=0x",
            hex(driver),
            " device=0x",
            hex(device),
            " seen=0x",
            hex(core::ptr::from_ref(&SEEN) as u64)
        );
        self.look_until(|| false);
    }

    fn run(&mut self) {
        loop {
            self.submit();
            let before = count();
            if !self.wait() && !self.help(before) {
                return;
            }
            while let Some(request) = self.ring.answer() {
                if let Err(what) = self.take(request) {
                    say!("\nsweep ", what, " op=", Digits::decimal(self.operations));
                    return;
                }
                self.operations += 1;
                let step = u64::from(self.options.step);
                if self.operations.is_multiple_of(step) {
                    // The VMM may log to the same stream, so each step has its own numbered line.
                    say!("\nsweep step ", Digits::decimal(self.operations / step));
                }
            }
        }
    }

    /// Makes a slot's request available.
    fn offer(&mut self, slot: u16) {
        let (queue, answer) = (self.device.queue(), &ANSWERS[usize::from(slot)]);
        match self.options.device {
            SweepDevice::Rng => {
                self.ring
                    .offer(slot, &[Part::from_device(&answer.data[..RANDOM_LEN])]);
            }
            // A read of sector 0: the header is all zeroes.
            SweepDevice::Blk => self.ring.offer(
                slot,
                &[
                    Part::to_device(&queue.header[..16]),
                    Part::from_device(&answer.data),
                    Part::from_device(core::slice::from_ref(&answer.status)),
                ],
            ),
            // All frames are the same.
            SweepDevice::Net => self
                .ring
                .offer(slot, &[Part::to_device(&queue.header[..FRAME_LEN])]),
        }
    }

    /// Submits all requests that are not in flight, and notifies the device if it wants that.
    fn submit(&mut self) {
        let slots = self.slots;
        // A device may answer out of order, but a request that many later ones overtake is missing. The others then
        // end, and nothing comes.
        let most = 2 * u64::from(slots);
        let is_overtaken = (0..slots).any(|slot| {
            let answers = self.operations - self.submitted[usize::from(slot)];
            self.in_flight & 1 << slot != 0 && answers >= most
        });
        if is_overtaken {
            return;
        }
        for slot in 0..slots {
            if self.in_flight & 1 << slot != 0 {
                continue;
            }
            self.in_flight |= 1 << slot;
            self.submitted[usize::from(slot)] = self.operations;
            let answer = &ANSWERS[usize::from(slot)];
            answer.status.store(POISON, Relaxed);
            for byte in &answer.data[..RANDOM_LEN] {
                byte.store(POISON, Relaxed);
            }
            self.offer(slot);
        }
        let Some(wants_notification) = self.ring.wants_notification() else {
            return;
        };
        self.kicked = wants_notification;
        if self.kicked {
            self.device.kick();
        }
    }

    fn is_answered(&self) -> bool {
        self.ring.answer().is_some()
    }

    /// Waits for an answer, and for its interrupt if the image waits for interrupts. False if the bound is over.
    fn wait(&self) -> bool {
        if self.options.wait != SweepWait::Interrupt {
            self.ring.want_interrupt(false);
            return self.look_until(|| self.is_answered());
        }
        let before = Cell::new(count());
        self.ring.want_interrupt(true);
        // An answer from before owes no interrupt.
        self.is_answered()
            || self.look_until(|| {
                let is_answered = self.is_answered();
                if !is_answered {
                    // An interrupt until now was that of an earlier answer.
                    before.set(count());
                }
                is_answered && count() != before.get()
            })
    }

    /// Looks until a condition is true; false if it is not within the bound.
    fn look_until(&self, condition: impl Fn() -> bool) -> bool {
        let (mut last, mut waited) = (ticks(), 0_u64);
        while waited <= self.bound {
            if condition() {
                return true;
            }
            if self.options.wait == SweepWait::Poll {
                core::hint::spin_loop();
            } else {
                halt();
            }
            let now = ticks();
            waited += now.wrapping_sub(last).min(self.bound / LOOKS);
            last = now;
        }
        condition()
    }

    /// Reports that nothing came, and tries the remedies. Returns false if none of them helped.
    fn help(&mut self, before: u64) -> bool {
        self.print("lost op=", self.operations, before);
        if self.is_answered() {
            let interrupts = count();
            self.device.ask_again(self.cpu);
            let by_interrupt = self.options.wait == SweepWait::Interrupt
                && self.look_until(|| count() != interrupts);
            say!(
                "sweep revived by=",
                if by_interrupt { "interrupt" } else { "look" }
            );
            return true;
        }
        self.device.kick();
        let is_revived = self.look_until(|| self.is_answered());
        say!(if is_revived {
            "sweep revived by=kick"
        } else {
            "sweep dead"
        });
        is_revived
    }

    fn print(&self, what: &str, operations: u64, before: u64) {
        let words = self.ring.words();
        let short = |word: u16| Digits::decimal(word.into());
        say!(
            "\nsweep ",
            what,
            Digits::decimal(operations),
            " kicked=",
            Digits::decimal(self.kicked.into()),
            " interrupts=",
            Digits::decimal(count() - before),
            " available=",
            short(words.available),
            " used=",
            short(words.used),
            " seen=",
            short(SEEN.load(Relaxed)),
            " avail_event=",
            short(words.avail_event),
            " used_event=",
            short(words.used_event)
        );
    }

    /// Takes one answer, and checks that it is one answer to an open request, with its data.
    fn take(&mut self, slot: u16) -> Result<(), &'static str> {
        if slot >= SIZE || self.in_flight & 1 << slot == 0 {
            return Err("twice");
        }
        self.in_flight &= !(1 << slot);
        let answer = &ANSWERS[usize::from(slot)];
        // Nothing was written for this request, so the answer is that of an earlier one. Only one in 2^128 random
        // answers leaves all sixteen bytes unchanged.
        let is_poison = |byte: &AtomicU8| byte.load(Relaxed) == POISON;
        let is_of_earlier = match self.options.device {
            SweepDevice::Rng => answer.data[..RANDOM_LEN].iter().all(is_poison),
            SweepDevice::Blk => is_poison(&answer.status),
            SweepDevice::Net => false,
        };
        if is_of_earlier {
            return Err("twice");
        }
        let is_right = match self.options.device {
            SweepDevice::Rng | SweepDevice::Net => true,
            SweepDevice::Blk => {
                let add =
                    |sum: u64, byte: &AtomicU8| sum.rotate_left(5) ^ u64::from(byte.load(Relaxed));
                let sum = answer.data.iter().fold(0_u64, add);
                answer.status.load(Relaxed) == 0 && *self.sum.get_or_insert(sum) == sum
            }
        };
        self.ring.take();
        if is_right { Ok(()) } else { Err("wrong") }
    }
}
