//! Several doorbells on one address.

use std::sync::atomic::Ordering::Relaxed;

use vmbell::doorbell::{Datamatch, IoEventAddress, Sharing};
use vmbell_guest::Parameters;
use vmbell_hypervisor::{Error, Hypervisor, IoEvents, VmConfig};
use vmm_sys_util::eventfd::EventFd;

use crate::harness::script::{Op, Player};
use crate::harness::{HOLE, await_that, bells, configured, count, event, plain, run, start};

fn join(
    vm: &dyn IoEvents,
    event: &EventFd,
    place: IoEventAddress,
    datamatch: Datamatch,
) -> Result<(), Error> {
    vm.register_ioevent(event, place, datamatch, Sharing::Group)
}

fn all_that_match_are_signalled_once<H: Hypervisor>(h: &H) {
    let vm = plain(h);
    let events: Vec<EventFd> = (0..5).map(|_| event()).collect();
    let places = [
        IoEventAddress::Mmio(HOLE),
        bells::place(0x700),
        IoEventAddress::Hypercall(2),
    ];
    for place in places {
        let datamatch = |value: Option<u8>| match place {
            IoEventAddress::Hypercall(_) => Datamatch::U64(value.map(u64::from)),
            _ => Datamatch::U32(value.map(u32::from)),
        };
        for (event, value) in events.iter().zip([None, None, Some(7), Some(7), Some(8)]) {
            join(&*vm, event, place, datamatch(value)).unwrap();
        }
    }
    let mut player = Player::new(&vm);
    let ring = |value: u8| {
        [
            Op::Store(4, HOLE, value.into()),
            Op::Out(4, 0x700, value.into()),
            Op::Call(2, value.into()),
        ]
    };
    let counts = |events: &[EventFd]| events.iter().map(count).collect::<Vec<_>>();
    assert_eq!(player.play(&ring(7)), []);
    assert_eq!(counts(&events), [3, 3, 3, 3, 0]);
    assert_eq!(player.play(&ring(8)), []);
    assert_eq!(counts(&events), [3, 3, 0, 0, 3]);
    assert_eq!(player.play(&ring(9)), []);
    assert_eq!(counts(&events), [3, 3, 0, 0, 0]);
    for event in &events[..2] {
        vm.unregister_ioevent(event, IoEventAddress::Mmio(HOLE), Datamatch::U32(None))
            .unwrap();
    }
    assert_eq!(player.play(&[Op::Store(4, HOLE, 7)]), []);
    assert_eq!(
        player.play(&[Op::Store(4, HOLE, 9)]).len(),
        1,
        "nobody is left for it"
    );
    assert_eq!(counts(&events), [0, 0, 1, 1, 0]);
}

fn a_group_takes_max_items_and_says_so<H: Hypervisor>(h: &H) {
    let vm = configured(
        h,
        VmConfig {
            max_items: 3,
            ..VmConfig::default()
        },
    );
    let place = IoEventAddress::Mmio(HOLE);
    let events: Vec<EventFd> = (0..4).map(|_| event()).collect();
    for event in &events[..3] {
        join(&*vm, event, place, Datamatch::U32(None)).unwrap();
    }
    let error = join(&*vm, &events[3], place, Datamatch::U32(None)).expect_err("a fourth item");
    let text = error.to_string();
    assert!(text.contains("3 items already (max_items)"), "{text}");
    // The limit is of the group, which is an address and a width.
    join(&*vm, &events[3], place, Datamatch::U16(None)).unwrap();
    vm.unregister_ioevent(&events[0], place, Datamatch::U32(None))
        .unwrap();
    join(&*vm, &events[3], place, Datamatch::U32(None)).unwrap();
}

/// Signals may come by a thread of the backend's.
fn await_counts(events: &[EventFd], expected: &[u64]) {
    let mut counts = vec![0; events.len()];
    await_that(&format!("the counts {expected:?}"), || {
        for (sum, event) in counts.iter_mut().zip(events) {
            *sum += count(event);
        }
        // More than expected never goes away.
        assert!(
            counts.iter().zip(expected).all(|(sum, most)| sum <= most),
            "{counts:?} of {expected:?}"
        );
        counts == expected
    });
}

fn items_with_one_match_all_hear_it<H: Hypervisor>(h: &H) {
    let vm = plain(h);
    let events: Vec<EventFd> = (0..5).map(|_| event()).collect();
    let places = [IoEventAddress::Mmio(HOLE), bells::place(0x700)];
    for place in places {
        for (event, value) in events.iter().zip([7, 7, 8, 7, 9]) {
            join(&*vm, event, place, Datamatch::U32(Some(value))).unwrap();
        }
        assert!(join(&*vm, &events[1], place, Datamatch::U32(Some(7))).is_err());
    }
    let mut player = Player::new(&vm);
    let ring = |value: u8| {
        [
            Op::Store(4, HOLE, value.into()),
            Op::Out(4, 0x700, value.into()),
        ]
    };
    assert_eq!(player.play(&ring(7)), []);
    await_counts(&events, &[2, 2, 0, 2, 0]);
    assert_eq!(player.play(&ring(8)), []);
    await_counts(&events, &[0, 0, 2, 0, 0]);
    assert_eq!(player.play(&ring(1)).len(), 2, "nobody waits for that");
    for event in [&events[0], &events[3]] {
        vm.unregister_ioevent(event, places[0], Datamatch::U32(Some(7)))
            .unwrap();
    }
    assert_eq!(player.play(&ring(7)), []);
    await_counts(&events, &[1, 2, 0, 1, 0]);
    vm.unregister_ioevent(&events[1], places[0], Datamatch::U32(Some(7)))
        .unwrap();
    let exits = player.play(&ring(7));
    assert_eq!(exits.len(), 1, "nobody is left at that address: {exits:x?}");
    await_counts(&events, &[1, 1, 0, 1, 0]);
    assert!(
        vm.unregister_ioevent(&events[1], places[0], Datamatch::U32(Some(7)))
            .is_err()
    );
}

/// When the second of two joins, the kernel's registration may have to move.
fn nothing_leaves_the_guest_while_a_group_grows<H: Hypervisor>(h: &H) {
    const RINGS: u64 = 2_000;
    let vm = plain(h);
    let place = bells::place(0x700);
    let datamatch = Datamatch::U32(None);
    let first = event();
    join(&*vm, &first, place, datamatch).unwrap();
    let parameters = Parameters {
        count: RINGS,
        address: place.value(),
        value: 1,
        pause: 0,
    };
    let mut vcpu = start(&vm, bells::program(), parameters, 0);
    let rounds = std::sync::atomic::AtomicU64::new(0);
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let guest = scope.spawn(|| {
            while !done.load(Relaxed) {
                assert_eq!(run(&mut vcpu), []);
                rounds.fetch_add(1, Relaxed);
            }
        });
        // The first stays, others come and go.
        for _ in 0..100 {
            let second = event();
            join(&*vm, &second, place, datamatch).unwrap();
            vm.unregister_ioevent(&second, place, datamatch).unwrap();
            if guest.is_finished() {
                break;
            }
        }
        done.store(true, Relaxed);
        guest.join().unwrap();
    });
    await_counts(&[first], &[RINGS * rounds.load(Relaxed)]);
}

fn a_wildcard_beside_a_value_is_refused_by_name<H: Hypervisor>(h: &H) {
    let vm = plain(h);
    let place = IoEventAddress::Mmio(HOLE);
    let (first, second) = (event(), event());
    for (one, other) in [(None, Some(3)), (Some(3), None)] {
        join(&*vm, &first, place, Datamatch::U32(one)).unwrap();
        let error = join(&*vm, &second, place, Datamatch::U32(other)).expect_err("a mixed group");
        let text = error.to_string();
        assert!(text.contains("one eventfd a write"), "{text}");
        // Another width is another group.
        join(&*vm, &second, place, Datamatch::U16(None)).unwrap();
        vm.unregister_ioevent(&second, place, Datamatch::U16(None))
            .unwrap();
        vm.unregister_ioevent(&first, place, Datamatch::U32(one))
            .unwrap();
    }
}

crate::on_both! {
    items_with_one_match_all_hear_it;
    nothing_leaves_the_guest_while_a_group_grows;
    a_group_takes_max_items_and_says_so;
}

/// The kernel signals one eventfd a write.
mod kernel {
    use super::a_wildcard_beside_a_value_is_refused_by_name;

    crate::on_kvm! { a_wildcard_beside_a_value_is_refused_by_name; }
}

mod engine {
    use super::all_that_match_are_signalled_once;

    crate::on_usermode! { all_that_match_are_signalled_once; }
}
