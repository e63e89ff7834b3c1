use std::{
    sync::{
        atomic::{AtomicBool, Ordering},
        mpsc::channel,
    },
    thread,
    time::Duration,
};

use vmm_sys_util::eventfd::{EFD_NONBLOCK, EFD_SEMAPHORE};

use super::*;
use crate::doorbell::Datamatch;
use crate::eventfd::drain;

/// A timeout that only a hang reaches.
const HANG: Duration = Duration::from_secs(120);

const PORT: IoEventAddress = IoEventAddress::Pio(0x510);
/// The largest value that an eventfd's counter can reach by writes.
const LIMIT: u64 = u64::MAX - 1;

fn eventfd() -> EventFd {
    EventFd::new(EFD_NONBLOCK).unwrap()
}

#[test]
fn ring_is_counted_and_a_miss_is_not() {
    let (set, event) = (DoorbellSet::new(), eventfd());
    set.register(&event, PORT, Datamatch::U16(None), Sharing::Exclusive)
        .unwrap();
    let mut bell = set.bell();
    assert!(bell.ring(PORT, &[1, 2]));
    assert!(bell.ring(PORT, &[1, 2]));
    for data in [&[][..], &[1], &[0; 4], &[0; 16]] {
        assert!(!bell.ring(PORT, data));
    }
    assert_eq!(event.read().unwrap(), 2);
}

#[test]
fn group_rings_all_its_eventfds() {
    let set = DoorbellSet::new();
    let events: Vec<EventFd> = (0..DEFAULT_MAX_ITEMS).map(|_| eventfd()).collect();
    for event in &events {
        set.register(event, PORT, Datamatch::U8(None), Sharing::Group)
            .unwrap();
    }
    assert!(set.bell().ring(PORT, &[7]));
    assert!(events.iter().all(|event| event.read().unwrap() == 1));
    let error = set
        .register(&eventfd(), PORT, Datamatch::U8(None), Sharing::Group)
        .unwrap_err();
    assert!(error.to_string().contains("32 items"), "{error}");
}

#[test]
fn semaphore_eventfd_counts_rings_one_by_one() {
    let set = DoorbellSet::new();
    let event = EventFd::new(EFD_NONBLOCK | EFD_SEMAPHORE).unwrap();
    set.register(&event, PORT, Datamatch::AnyLength, Sharing::Exclusive)
        .unwrap();
    let mut bell = set.bell();
    assert!(bell.ring(PORT, &[0]) && bell.ring(PORT, &[0; 4]));
    assert_eq!((event.read().unwrap(), event.read().unwrap()), (1, 1));
    assert!(event.read().is_err());
}

#[test]
fn full_counter_takes_the_ring_and_does_not_hold_the_caller() {
    let (set, event) = (DoorbellSet::new(), eventfd());
    set.register(&event, PORT, Datamatch::U8(None), Sharing::Exclusive)
        .unwrap();
    event.write(LIMIT).unwrap();
    let mut bell = set.bell();
    assert!(bell.ring(PORT, &[0]) && bell.ring(PORT, &[0]));
    assert_eq!(event.read().unwrap(), LIMIT);
}

#[test]
fn closed_eventfd_goes_on_swallowing_rings() {
    let (set, event) = (DoorbellSet::new(), eventfd());
    set.register(&event, PORT, Datamatch::U8(None), Sharing::Exclusive)
        .unwrap();
    drop(event);
    assert!(set.bell().ring(PORT, &[0]));
}

#[test]
fn bell_outlives_its_set() {
    let (set, event) = (DoorbellSet::new(), eventfd());
    set.register(&event, PORT, Datamatch::U8(None), Sharing::Exclusive)
        .unwrap();
    let mut bell = set.bell();
    drop(set);
    assert!(bell.ring(PORT, &[0]));
    assert_eq!(event.read().unwrap(), 1);
}

#[test]
fn removal_waits_for_a_ring_that_is_under_way() {
    let (set, event) = (DoorbellSet::new(), eventfd());
    set.register(&event, PORT, Datamatch::U8(None), Sharing::Exclusive)
        .unwrap();
    let over = AtomicBool::new(false);
    let mut bell = set.bell();
    let section = bell.reader.enter();
    thread::scope(|scope| {
        scope.spawn(|| {
            set.unregister(&event, PORT, Datamatch::U8(None)).unwrap();
            assert!(over.load(Ordering::Relaxed));
        });
        thread::sleep(std::time::Duration::from_millis(20));
        over.store(true, Ordering::Relaxed);
        drop(section);
    });
}

#[test]
fn registration_goes_on_while_a_bell_blocks_on_a_full_eventfd_and_a_removal_waits_for_it() {
    let [at_full, at_other, at_new] = [0x510, 0x520, 0x530].map(IoEventAddress::Pio);
    let set = DoorbellSet::new();
    let (full, other) = (EventFd::new(0).unwrap(), eventfd());
    for (event, address) in [(&full, at_full), (&other, at_other)] {
        set.register(event, address, Datamatch::U8(None), Sharing::Exclusive)
            .unwrap();
    }
    full.write(LIMIT).unwrap();
    let (mut blocked, mut bell) = (set.bell(), set.bell());
    let (registered, wait) = channel();
    thread::scope(|scope| {
        let ringer = scope.spawn(move || blocked.ring(at_full, &[0]));
        let domain = &set.shared.domain;
        domain.retire(());
        while domain.reclaim() == 0 {
            domain.retire(());
            thread::yield_now();
        }
        let remover = scope.spawn(|| set.unregister(&other, at_other, Datamatch::U8(None)));
        while bell.ring(at_other, &[0]) {
            thread::yield_now();
        }
        scope.spawn(|| {
            let new = set.register(&other, at_new, Datamatch::U8(None), Sharing::Exclusive);
            registered.send(new).unwrap();
        });
        let result = wait.recv_timeout(HANG);
        let rings = bell.ring(at_new, &[0]);
        let waits = !remover.is_finished();
        while !ringer.is_finished() {
            drain(&full);
            thread::yield_now();
        }
        result.expect("registration waits").unwrap();
        assert!(rings && waits);
        remover.join().unwrap().unwrap();
    });
}

#[test]
fn every_ring_that_races_with_removal_is_counted_or_missed_and_never_both() {
    let (set, event) = (DoorbellSet::new(), eventfd());
    let done = AtomicBool::new(false);
    let ring = || {
        let (mut bell, mut rung, mut missed) = (set.bell(), 0_u64, 0_u64);
        while !done.load(Ordering::Relaxed) {
            match bell.ring(PORT, &[0]) {
                true => rung += 1,
                false => missed += 1,
            }
        }
        (rung, missed)
    };
    let (counted, rung) = thread::scope(|scope| {
        let ringers = [(); 2].map(|()| scope.spawn(ring));
        let mut counted = 0;
        for _ in 0..500 {
            set.register(&event, PORT, Datamatch::U8(None), Sharing::Exclusive)
                .unwrap();
            thread::yield_now();
            set.unregister(&event, PORT, Datamatch::U8(None)).unwrap();
            counted += event.read().unwrap_or(0);
            assert!(event.read().is_err(), "signalled after removal");
        }
        done.store(true, Ordering::Relaxed);
        let rung: u64 = ringers.into_iter().map(|r| r.join().unwrap().0).sum();
        (counted, rung)
    });
    assert_eq!(counted, rung);
}

#[test]
fn last_address_takes_any_length_and_its_neighbours_miss() {
    let (set, event) = (DoorbellSet::new(), eventfd());
    for address in [0x510, u64::MAX] {
        let address = IoEventAddress::Mmio(address);
        set.register(&event, address, Datamatch::AnyLength, Sharing::Exclusive)
            .unwrap();
    }
    let mut bell = set.bell();
    assert!(bell.ring(IoEventAddress::Mmio(u64::MAX), &[0]));
    assert!(!bell.ring(IoEventAddress::Mmio(0x511), &[0]));
    assert!(!bell.ring(IoEventAddress::Mmio(0x50f), &[0; 2]));
}

#[test]
fn ports_and_addresses_are_apart() {
    let (set, port, address) = (DoorbellSet::new(), eventfd(), eventfd());
    let [at_port, at_address] = [IoEventAddress::Pio(0x510), IoEventAddress::Mmio(0x510)];
    for (event, place) in [(&port, at_port), (&address, at_address)] {
        set.register(event, place, Datamatch::U32(None), Sharing::Exclusive)
            .unwrap();
    }
    set.unregister(&address, at_address, Datamatch::U32(None))
        .unwrap();
    let mut bell = set.bell();
    assert!(bell.ring(at_port, &[0; 4]));
    assert!(!bell.ring(at_address, &[0; 4]));
}

#[test]
fn value_wider_than_its_width_is_accepted_and_never_rings() {
    let (set, event) = (DoorbellSet::new(), eventfd());
    let wide = Pattern {
        len: 2,
        value: Some(0x1_0005),
    };
    set.register(&event, PORT, wide, Sharing::Exclusive)
        .unwrap();
    assert!(!set.bell().ring(PORT, &5_u16.to_le_bytes()));
    set.unregister(&event, PORT, wide).unwrap();
}

#[test]
fn removal_names_exactly_the_registration() {
    let (set, event, other) = (DoorbellSet::new(), eventfd(), eventfd());
    let one = Datamatch::U32(Some(1));
    set.register(&event, PORT, one, Sharing::Exclusive).unwrap();
    for (event, address, pattern) in [
        (&other, PORT, one),
        (&event, PORT, Datamatch::U32(Some(2))),
        (&event, PORT, Datamatch::U16(Some(1))),
        (&event, PORT, Datamatch::U32(None)),
        (&event, IoEventAddress::Pio(0x514), one),
        (&event, IoEventAddress::Mmio(0x510), one),
    ] {
        let error = set.unregister(event, address, pattern).unwrap_err();
        assert!(matches!(error, DoorbellError::NotFound { .. }), "{error}");
    }
    assert!(set.bell().ring(PORT, &1_u32.to_le_bytes()));
    // The registration belongs to the kernel's eventfd, not to the descriptor.
    set.unregister(&event.try_clone().unwrap(), PORT, one)
        .unwrap();
    assert!(!set.bell().ring(PORT, &1_u32.to_le_bytes()));
}
