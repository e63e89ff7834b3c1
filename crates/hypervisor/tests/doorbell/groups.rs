//! Several doorbells on one address.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use vmbell::doorbell::{Datamatch, IoEventAddress, Sharing};
use vmbell_guest::Parameters;
use vmbell_hypervisor::{Capability, Doorbell, Error, Hypervisor, IoEvents, VmConfig};
use vmm_sys_util::eventfd::EventFd;

use testbed::script::{Op, Player};
use testbed::{HOLE, await_that, bells, configured, count, event, plain, run, start};

fn join(
    vm: &dyn IoEvents,
    event: &Arc<EventFd>,
    place: IoEventAddress,
    datamatch: Datamatch,
) -> Result<Doorbell, Error> {
    vm.register_ioevent(event, place, datamatch, Sharing::Group)
}

/// Whether the backend mixes wildcards and values depends on its capability, which on KVM depends on a module.
fn wildcards_and_values_share_an_address_or_are_refused_by_name<H: Hypervisor>(h: &H) {
    if h.support(Capability::MixedGroups).is_yes() {
        all_that_match_are_signalled_once(h);
    } else {
        a_wildcard_beside_a_value_is_refused(h);
    }
}

fn all_that_match_are_signalled_once<H: Hypervisor>(h: &H) {
    let vm = plain(h);
    let events: Vec<Arc<EventFd>> = (0..5).map(|_| event()).collect();
    let mut places = vec![IoEventAddress::Mmio(HOLE), bells::place(0x700)];
    let calls = h.support(Capability::HypercallDoorbell).is_yes();
    if calls {
        places.push(IoEventAddress::Hypercall(2));
    }
    let rings = places.len() as u64;
    let doorbells = places.into_iter().map(|place| {
        let datamatch = |value: Option<u8>| match place {
            IoEventAddress::Hypercall(_) => Datamatch::U64(value.map(u64::from)),
            _ => Datamatch::U32(value.map(u32::from)),
        };
        let items = events
            .iter()
            .zip([None, None, Some(7), Some(7), Some(8)])
            .map(|(event, value)| join(&*vm, event, place, datamatch(value)).unwrap());
        items.collect::<Vec<_>>()
    });
    let mut doorbells: Vec<_> = doorbells.collect();
    let mut player = Player::new(&vm);
    let ring = |value: u8| {
        let mut ops = vec![
            Op::Store(4, HOLE, value.into()),
            Op::Out(4, 0x700, value.into()),
        ];
        ops.extend(calls.then(|| Op::Call(2, value.into())));
        ops
    };
    let counts =
        |events: &[Arc<EventFd>]| events.iter().map(|event| count(event)).collect::<Vec<_>>();
    assert_eq!(player.play(&ring(7)), []);
    assert_eq!(counts(&events), [rings, rings, rings, rings, 0]);
    assert_eq!(player.play(&ring(8)), []);
    assert_eq!(counts(&events), [rings, rings, 0, 0, rings]);
    assert_eq!(player.play(&ring(9)), []);
    assert_eq!(counts(&events), [rings, rings, 0, 0, 0]);
    for doorbell in &mut doorbells[0][..2] {
        doorbell.remove().unwrap();
    }
    assert_eq!(player.play(&[Op::Store(4, HOLE, 7)]), []);
    assert_eq!(
        player.play(&[Op::Store(4, HOLE, 9)]).len(),
        1,
        "no item is left for it"
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
    let events: Vec<Arc<EventFd>> = (0..4).map(|_| event()).collect();
    let mut doorbells: Vec<_> = events[..3]
        .iter()
        .map(|event| join(&*vm, event, place, Datamatch::U32(None)).unwrap())
        .collect();
    let error = join(&*vm, &events[3], place, Datamatch::U32(None)).expect_err("a fourth item");
    let text = error.to_string();
    assert!(text.contains("3 items already (max_items)"), "{text}");
    // The limit applies to a group, which is an address and a width.
    let _other = join(&*vm, &events[3], place, Datamatch::U16(None)).unwrap();
    doorbells[0].remove().unwrap();
    doorbells.push(join(&*vm, &events[3], place, Datamatch::U32(None)).unwrap());
}

/// A thread of the backend may deliver the signals.
fn await_counts(events: &[Arc<EventFd>], expected: &[u64]) {
    let mut counts = vec![0; events.len()];
    await_that(&format!("the counts {expected:?}"), || {
        for (sum, event) in counts.iter_mut().zip(events) {
            *sum += count(event);
        }
        // A count that is too high never goes down again.
        assert!(
            counts.iter().zip(expected).all(|(sum, most)| sum <= most),
            "{counts:?} of {expected:?}"
        );
        counts == expected
    });
}

fn items_with_one_match_all_hear_it<H: Hypervisor>(h: &H) {
    let vm = plain(h);
    let events: Vec<Arc<EventFd>> = (0..5).map(|_| event()).collect();
    let places = [IoEventAddress::Mmio(HOLE), bells::place(0x700)];
    let [mut at_address, _at_bell] = places.map(|place| {
        let items = events
            .iter()
            .zip([7, 7, 8, 7, 9])
            .map(|(event, value)| join(&*vm, event, place, Datamatch::U32(Some(value))).unwrap());
        let items: Vec<_> = items.collect();
        assert!(join(&*vm, &events[1], place, Datamatch::U32(Some(7))).is_err());
        items
    });
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
    assert_eq!(player.play(&ring(1)).len(), 2, "no doorbell has this value");
    for index in [0, 3] {
        at_address[index].remove().unwrap();
    }
    assert_eq!(player.play(&ring(7)), []);
    await_counts(&events, &[1, 2, 0, 1, 0]);
    at_address[1].remove().unwrap();
    let exits = player.play(&ring(7));
    assert_eq!(
        exits.len(),
        1,
        "no item is left at that address: {exits:x?}"
    );
    await_counts(&events, &[1, 1, 0, 1, 0]);
}

/// When a second doorbell joins, the kernel's registration may have to move.
fn nothing_leaves_the_guest_while_a_group_grows<H: Hypervisor>(h: &H) {
    const RINGS: u64 = 2_000;
    let vm = plain(h);
    let place = bells::place(0x700);
    let datamatch = Datamatch::U32(None);
    let first = event();
    let _first = join(&*vm, &first, place, datamatch).unwrap();
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
        // The first doorbell stays; the others are added and removed repeatedly.
        for _ in 0..100 {
            let mut second = join(&*vm, &event(), place, datamatch).unwrap();
            second.remove().unwrap();
            if guest.is_finished() {
                break;
            }
        }
        done.store(true, Relaxed);
        guest.join().unwrap();
    });
    await_counts(&[first], &[RINGS * rounds.load(Relaxed)]);
}

fn a_wildcard_beside_a_value_is_refused<H: Hypervisor>(h: &H) {
    let vm = plain(h);
    let place = IoEventAddress::Mmio(HOLE);
    let (first, second) = (event(), event());
    for (one, other) in [(None, Some(3)), (Some(3), None)] {
        let _first = join(&*vm, &first, place, Datamatch::U32(one)).unwrap();
        let error = join(&*vm, &second, place, Datamatch::U32(other)).expect_err("a mixed group");
        let text = error.to_string();
        assert!(text.contains("one eventfd a write"), "{text}");
        // A different width is a different group.
        let _second = join(&*vm, &second, place, Datamatch::U16(None)).unwrap();
    }
}

testbed::on_both! {
    wildcards_and_values_share_an_address_or_are_refused_by_name;
    items_with_one_match_all_hear_it;
    nothing_leaves_the_guest_while_a_group_grows;
    a_group_takes_max_items_and_says_so;
}
