//! Which registrations can coexist.

use std::sync::Arc;

use vmbell::doorbell::{Datamatch, IoEventAddress, Sharing};
use vmbell_hypervisor::{Doorbell, Error, Hypervisor, IoEvents};
use vmm_sys_util::eventfd::EventFd;

use testbed::script::{Op, Player};
use testbed::{HOLE, bells, chain, count, event, plain};

const PLACES: [IoEventAddress; 2] = [bells::place(0x500), IoEventAddress::Mmio(HOLE)];
const WIDTHS: [Datamatch; 4] = [
    Datamatch::U8(None),
    Datamatch::U16(None),
    Datamatch::U32(None),
    Datamatch::U64(None),
];

fn register(
    vm: &dyn IoEvents,
    event: &Arc<EventFd>,
    place: IoEventAddress,
    datamatch: Datamatch,
) -> Result<Doorbell, Error> {
    vm.register_ioevent(event, place, datamatch, Sharing::Exclusive)
}

fn refused(result: Result<Doorbell, Error>, errno: i32) {
    match result.expect_err("a refusal") {
        Error::Doorbell(rule) => assert_eq!(rule.errno(), errno, "{rule}"),
        error => panic!("no rule of the doorbells: {}", chain(&error)),
    }
}

/// Registers a doorbell of each width.
fn at_each_width(
    vm: &dyn IoEvents,
    events: &[Arc<EventFd>; 4],
    place: IoEventAddress,
) -> Vec<Doorbell> {
    let each = events.iter().zip(WIDTHS);
    each.map(|(event, width)| register(vm, event, place, width).unwrap())
        .collect()
}

fn all_widths_stand_beside_each_other<H: Hypervisor>(h: &H) {
    let vm = plain(h);
    for place in PLACES {
        let events = WIDTHS.map(|_| event());
        let _doorbells = at_each_width(&*vm, &events, place);
        for (event, datamatch) in events.iter().zip(WIDTHS) {
            refused(register(&*vm, event, place, datamatch), libc::EEXIST);
        }
    }
    let events = WIDTHS.map(|_| event());
    let _doorbells = at_each_width(&*vm, &events, IoEventAddress::Mmio(HOLE + 0x1000));
    let mut player = Player::new(&vm);
    for (index, width) in [1, 2, 4, 8].into_iter().enumerate() {
        assert_eq!(player.play(&[Op::Store(width, HOLE + 0x1000, 7)]), []);
        let counts = events.each_ref().map(|event| count(event));
        let only = |place| u64::from(place == index);
        assert_eq!(
            counts,
            [only(0), only(1), only(2), only(3)],
            "width {width}"
        );
    }
}

fn any_length_shares_its_address_with_nothing<H: Hypervisor>(h: &H) {
    let vm = plain(h);
    let (first, second) = (event(), event());
    for place in PLACES {
        for width in WIDTHS
            .into_iter()
            .chain([Datamatch::U16(Some(3)), Datamatch::AnyLength])
        {
            let any = register(&*vm, &first, place, Datamatch::AnyLength).unwrap();
            refused(register(&*vm, &second, place, width), libc::EEXIST);
            drop(any);
            let _one = register(&*vm, &second, place, width).unwrap();
            refused(
                register(&*vm, &first, place, Datamatch::AnyLength),
                libc::EEXIST,
            );
        }
    }
}

fn a_value_is_taken_once_and_never_beside_a_wildcard<H: Hypervisor>(h: &H) {
    let vm = plain(h);
    let (first, second) = (event(), event());
    for place in PLACES {
        let _one = register(&*vm, &first, place, Datamatch::U16(Some(1))).unwrap();
        refused(
            register(&*vm, &second, place, Datamatch::U16(Some(1))),
            libc::EEXIST,
        );
        let _two = register(&*vm, &second, place, Datamatch::U16(Some(2))).unwrap();
        refused(
            register(&*vm, &second, place, Datamatch::U16(None)),
            libc::EEXIST,
        );
        let _any = register(&*vm, &second, place, Datamatch::U32(None)).unwrap();
        refused(
            register(&*vm, &first, place, Datamatch::U32(Some(1))),
            libc::EEXIST,
        );
    }
}

#[cfg(target_arch = "x86_64")]
fn ports_and_memory_are_separate_spaces<H: Hypervisor>(h: &H) {
    let vm = plain(h);
    let (port, memory) = (event(), event());
    let _port = register(
        &*vm,
        &port,
        IoEventAddress::Pio(0x3000),
        Datamatch::U32(None),
    )
    .unwrap();
    let _memory = register(
        &*vm,
        &memory,
        IoEventAddress::Mmio(0x3000),
        Datamatch::U32(None),
    )
    .unwrap();
    let mut player = Player::new(&vm);
    assert_eq!(
        player.play(&[
            Op::Out(4, 0x3000, 1),
            Op::Out(4, 0x3000, 1),
            Op::Store(4, 0x3000, 1)
        ]),
        []
    );
    assert_eq!((count(&port), count(&memory)), (2, 1));
}

fn removal_takes_one_of_several_doorbells_of_an_eventfd<H: Hypervisor>(h: &H) {
    let vm = plain(h);
    let event = event();
    let (bell, address) = (bells::place(0x600), IoEventAddress::Mmio(HOLE));
    let each = [
        (bell, Datamatch::U16(Some(5)), Op::Out(2, 0x600, 5)),
        (bell, Datamatch::U16(Some(6)), Op::Out(2, 0x600, 6)),
        (bell, Datamatch::U32(Some(5)), Op::Out(4, 0x600, 5)),
        (address, Datamatch::U16(Some(5)), Op::Store(2, HOLE, 5)),
    ];
    let mut player = Player::new(&vm);
    for removed in 0..each.len() {
        let mut doorbells =
            each.map(|(place, datamatch, _)| register(&*vm, &event, place, datamatch).unwrap());
        doorbells[removed].remove().unwrap();
        for (index, (.., ring)) in each.into_iter().enumerate() {
            let exits = usize::from(index == removed);
            assert_eq!(player.play(&[ring]).len(), exits, "{index}, not {removed}");
            assert_eq!(count(&event), 1 - exits as u64, "{index}, not {removed}");
        }
    }
}

fn a_range_that_wraps_is_refused<H: Hypervisor>(h: &H) {
    let vm = plain(h);
    let event = event();
    let last = IoEventAddress::Mmio(u64::MAX);
    refused(
        register(&*vm, &event, last, Datamatch::U8(None)),
        libc::EINVAL,
    );
    let _last = register(&*vm, &event, last, Datamatch::AnyLength).unwrap();
}

testbed::on_both! {
    all_widths_stand_beside_each_other;
    any_length_shares_its_address_with_nothing;
    a_value_is_taken_once_and_never_beside_a_wildcard;
    #[cfg(target_arch = "x86_64")] ports_and_memory_are_separate_spaces;
    removal_takes_one_of_several_doorbells_of_an_eventfd;
    a_range_that_wraps_is_refused;
}
