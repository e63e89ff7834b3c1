//! Rows for virtio devices: a notification, and a request that ends by polling or by an interrupt.

use core::sync::atomic::Ordering::Relaxed;

use super::{HUNG, Probe, Reason};
use crate::elf::cpu::ticks;
use crate::elf::interrupt::{EOI_TICKS, count};
use crate::elf::time::{halt_until, wait_until};
use crate::elf::virtio::{Device, Kind, NO_ANSWER};

type Row = fn(&mut Probe<'_>, u32) -> Result<u64, Reason>;

/// The rows of the kind at this place in `Kind::ALL`.
pub struct Rows<const KIND: usize>;

impl<const KIND: usize> Rows<KIND> {
    pub const NOTIFY: Row = |probe, operations| {
        or_give_up(probe, KIND, |probe| {
            requests(probe, KIND, operations, notify)
        })
    };
    pub const ROUND_TRIP_POLLED: Row = |probe, operations| {
        or_give_up(probe, KIND, |probe| {
            requests(probe, KIND, operations, polled)
        })
    };
    pub const NOTIFY_IDLE: Row =
        |probe, operations| or_give_up(probe, KIND, |probe| idle(probe, KIND, operations));
    pub const ROUND_TRIP_INTERRUPT: Row = |probe, operations| {
        or_give_up(probe, KIND, |probe| {
            interrupts(probe, KIND, operations, round_trip)
        })
    };
    pub const EOI: Row = |probe, operations| {
        or_give_up(probe, KIND, |probe| {
            interrupts(probe, KIND, operations, end_of_interrupt)
        })
    };
}

/// Gives a device up if it does not answer: no further row uses it.
fn or_give_up(
    probe: &mut Probe<'_>,
    kind: usize,
    row: impl FnOnce(&Probe<'_>) -> Result<u64, Reason>,
) -> Result<u64, Reason> {
    let result = row(probe);
    if result == Err(HUNG) || result == Err(NO_ANSWER) {
        probe.devices.give_up(Kind::ALL[kind]);
    }
    result
}

/// Runs requests, adds up their ticks, and checks the data of one more request.
fn requests(
    probe: &Probe<'_>,
    kind: usize,
    operations: u32,
    request: fn(&Device) -> Result<u64, Reason>,
) -> Result<u64, Reason> {
    let device = probe.devices.get(Kind::ALL[kind])?;
    let ticks =
        probe.counted(|| (0..operations).try_fold(0, |sum, _| Ok(sum + request(&device)?)))?;
    device.check()?;
    Ok(ticks)
}

/// Measures only the notification; the wait for the answer is not counted.
fn notify(device: &Device) -> Result<u64, Reason> {
    device.submit();
    let from = ticks();
    device.kick();
    let ticks = ticks() - from;
    if wait_until(|| device.is_done()) {
        Ok(ticks)
    } else {
        Err(HUNG)
    }
}

/// Measures from the notification until a CPU that polls continuously sees the answer.
fn polled(device: &Device) -> Result<u64, Reason> {
    device.submit();
    let from = ticks();
    device.kick();
    if wait_until(|| device.is_done()) {
        Ok(ticks() - from)
    } else {
        Err(HUNG)
    }
}

/// Measures the notification of a queue without new buffers.
fn idle(probe: &Probe<'_>, kind: usize, operations: u32) -> Result<u64, Reason> {
    let device = probe.devices.get(Kind::ALL[kind])?;
    let ticks = probe.timed(|| {
        for _ in 0..operations {
            device.kick();
        }
    });
    // The answer shows that the device has handled the notifications. Handling them may keep a thread of the VMM busy
    // after the batch.
    device.check()?;
    Ok(ticks)
}

/// Runs requests that end by an interrupt.
fn interrupts(
    probe: &Probe<'_>,
    kind: usize,
    operations: u32,
    request: fn(&Device) -> Result<u64, Reason>,
) -> Result<u64, Reason> {
    let device = probe.devices.get(Kind::ALL[kind])?;
    if !probe.apic.has_timer {
        return Err("the local APIC's timer does not interrupt, and nothing else would end a halt");
    }
    device.listen(probe.apic.id())?;
    let ticks = probe.counted(|| (0..operations).try_fold(0, |sum, _| Ok(sum + request(&device)?)));
    device.ignore();
    let ticks = ticks?;
    device.check()?;
    Ok(ticks)
}

/// Measures from the notification until a halted CPU has taken the interrupt and continued.
fn round_trip(device: &Device) -> Result<u64, Reason> {
    let before = count();
    device.submit();
    let from = ticks();
    device.kick();
    if halt_until(|| device.is_done() && count() != before) {
        Ok(ticks() - from)
    } else {
        Err(HUNG)
    }
}

/// Measures only the EOI.
fn end_of_interrupt(device: &Device) -> Result<u64, Reason> {
    let before = EOI_TICKS.load(Relaxed);
    round_trip(device)?;
    Ok(EOI_TICKS.load(Relaxed) - before)
}
