//! The light exit: looks a write up in the doorbell table and writes to the eventfds of the doorbells that match.

use crate::elf::percpu::{PerCpu, control, shared};
use crate::elf::syscall::ring_eventfd;
use crate::layout::Control;
use crate::section::Sections;
use crate::sync::Ordering::Relaxed;
use crate::table::{Kind, Signals};

/// Rings from a trap handler. False if no doorbell matches.
pub fn ring(cpu: &PerCpu, kind: Kind, address: u64, len: u8, value: u64) -> bool {
    let hit = ring_in(
        &shared().trap_sections,
        control(),
        kind,
        address,
        u32::from(len),
        value,
        ring_all,
    );
    if hit {
        cpu.run().counters.light.fetch_add(1, Relaxed);
    }
    hit
}

/// Rings inside a read-side section of `sections`: the removal of a doorbell waits for the section's end, so
/// the write arrives either as a signal before the removal returns or as an exit. `otherwise` is called if the
/// lookup found no signal or a list of them. False if no doorbell matches.
#[inline(always)]
pub fn ring_in(
    sections: &Sections,
    control: &'static Control,
    kind: Kind,
    address: u64,
    len: u32,
    value: u64,
    otherwise: impl FnOnce(Signals<'static>, *const u64),
) -> bool {
    let section = sections.enter(&control.phase);
    let one = control.one.as_ptr();
    let signals = control.doorbells.lookup(kind, address, len, value);
    match signals.single() {
        Some(fd) => ring_eventfd(fd, one),
        None => otherwise(signals, one),
    }
    sections.leave(section);
    !signals.is_empty()
}

/// Rings all eventfds of a list.
#[inline(always)]
pub fn ring_all(signals: Signals<'_>, one: *const u64) {
    signals.iter().for_each(|fd| ring_eventfd(fd, one));
}
