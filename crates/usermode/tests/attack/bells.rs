//! Doorbells, irqfds and interrupts that come and go while a guest does whatever it wants.
#![allow(unsafe_code)]

use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use vmbell::doorbell::{Datamatch, IoEventAddress, Sharing};
use vmbell::irq::{Gsi, Msi};
use vmbell_hypervisor::{Doorbell, Irqfd, Vm};
use vmm_sys_util::eventfd::EventFd;

use crate::attack::random::Random;
use crate::attack::vcpus::{note, pause_until};
use crate::attack::watch::Watch;
use testbed::{HOLE, count, event};

/// The addresses that the guests ring.
pub const PLACES: [(IoEventAddress, Datamatch); 3] = [
    (IoEventAddress::Pio(0x500), Datamatch::U32(None)),
    (IoEventAddress::Mmio(HOLE), Datamatch::U32(None)),
    (IoEventAddress::Hypercall(7), Datamatch::U64(None)),
];

/// A count so high that a guest may add more than there is room for: a write to a blocking eventfd then sleeps.
pub const NEARLY_FULL: u64 = u64::MAX - 4;

/// Reads the count of an eventfd, whether it blocks or not.
pub fn drain(event: &EventFd) {
    let mut count = 0_u64;
    let buffer = libc::iovec {
        iov_base: (&raw mut count).cast(),
        iov_len: size_of_val(&count),
    };
    let nowait = libc::RWF_NOWAIT;
    // SAFETY: one buffer, `count`, which outlives the call; `event` is open.
    unsafe { libc::preadv2(event.as_raw_fd(), &raw const buffer, 1, -1, nowait) };
}

/// Eventfds that are no longer doorbells.
#[derive(Debug, Default)]
pub struct Removed(Vec<Arc<EventFd>>);

impl Removed {
    /// Adds an eventfd whose removal has returned.
    pub fn add(&mut self, event: Arc<EventFd>) {
        // A thread that already sleeps in a write to the eventfd continues to sleep.
        // SAFETY: no pointers; `event` is open.
        let result = unsafe { libc::fcntl(event.as_raw_fd(), libc::F_SETFL, libc::O_NONBLOCK) };
        assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
        count(&event);
        self.0.push(event);
    }

    /// Checks that no eventfd has been signalled since its removal.
    pub fn check(&self) {
        for event in &self.0 {
            let count = count(event);
            assert_eq!(count, 0, "signalled after its removal had returned");
        }
    }
}

/// Registers and removes doorbells and irqfds until `end`; `pauses` is the longest time between two calls.
pub fn come_and_go(
    watch: &Watch,
    vm: &Arc<dyn Vm>,
    random: &mut Random,
    pauses: Duration,
    end: Instant,
) -> Removed {
    let mut removed = Removed::default();
    while Instant::now() < end {
        if random.once_in(3) {
            irqfd(watch, vm, random, pauses, end);
        } else {
            doorbell(watch, vm, random, pauses, end, &mut removed);
        }
        removed.check();
    }
    removed
}

fn doorbell(
    watch: &Watch,
    vm: &Arc<dyn Vm>,
    random: &mut Random,
    pauses: Duration,
    end: Instant,
    removed: &mut Removed,
) {
    let (place, datamatch) = random.pick(&PLACES);
    let event = if random.once_in(3) {
        let event = EventFd::new(0).unwrap();
        event.write(NEARLY_FULL).unwrap();
        Arc::new(event)
    } else {
        event()
    };
    let result = watch.call("register_ioevent", || {
        vm.register_ioevent(&event, place, datamatch, Sharing::Exclusive)
    });
    note(watch, "register_ioevent", &result);
    pause_until(random.time(pauses), end);
    let Ok(doorbell) = result else {
        return;
    };
    if remove(watch, doorbell) {
        removed.add(event);
    }
    pause_until(random.time(pauses), end);
}

/// Removes a doorbell and drops it; returns whether it is removed.
pub fn remove(watch: &Watch, mut doorbell: Doorbell) -> bool {
    let result = watch.call("Doorbell::remove", || doorbell.remove());
    note(watch, "Doorbell::remove", &result);
    watch.call("drop", || drop(doorbell));
    result.is_ok()
}

fn irqfd(watch: &Watch, vm: &Arc<dyn Vm>, random: &mut Random, pauses: Duration, end: Instant) {
    let (irqfd, resample) = (event(), event());
    let resample = random.once_in(2).then_some(&*resample);
    let gsi = gsi(random);
    let result = watch.call("register_irqfd", || {
        vm.register_irqfd(&irqfd, gsi, resample)
    });
    note(watch, "register_irqfd", &result);
    for _ in 0..random.below(4) {
        irqfd.write(1).unwrap();
        pause_until(random.time(pauses), end);
    }
    if let Ok(registered) = result {
        remove_irqfd(watch, registered);
    }
    pause_until(random.time(pauses), end);
}

/// Removes an irqfd and drops it.
pub fn remove_irqfd(watch: &Watch, mut irqfd: Irqfd) {
    let result = watch.call("Irqfd::remove", || irqfd.remove());
    note(watch, "Irqfd::remove", &result);
    watch.call("drop", || drop(irqfd));
}

/// Returns a pin that guests of these tests route, or one that they do not.
fn gsi(random: &mut Random) -> Gsi {
    Gsi::new(random.pick(&[4, 5, 9])).unwrap()
}

/// Raises interrupts until `end`.
pub fn raise(watch: &Watch, vm: &Arc<dyn Vm>, random: &mut Random, pauses: Duration, end: Instant) {
    while Instant::now() < end {
        if random.once_in(3) {
            let (gsi, level) = (gsi(random), random.once_in(2));
            let result = watch.call("set_line", || vm.set_line(gsi, level));
            note(watch, "set_line", &result);
        } else {
            let (vcpu, vector) = (random.below(2), 0x20 + random.below(0xd0));
            let msi = Msi::fixed(vcpu.try_into().unwrap(), vector.try_into().unwrap());
            let result = watch.call("signal_msi", || vm.signal_msi(msi));
            note(watch, "signal_msi", &result);
        }
        pause_until(random.time(pauses), end);
    }
}
