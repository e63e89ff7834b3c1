//! Which registrations stand beside each other.

use vmbell::doorbell::{Datamatch, IoEventAddress, Sharing};
use vmbell_hypervisor::{Error, Hypervisor, IoEvents};
use vmm_sys_util::eventfd::EventFd;

use crate::harness::script::{Op, Player};
use crate::harness::{HOLE, bells, chain, count, event, plain};

const PLACES: [IoEventAddress; 2] = [bells::place(0x500), IoEventAddress::Mmio(HOLE)];
const WIDTHS: [Datamatch; 4] = [
    Datamatch::U8(None),
    Datamatch::U16(None),
    Datamatch::U32(None),
    Datamatch::U64(None),
];

fn register(
    vm: &dyn IoEvents,
    event: &EventFd,
    place: IoEventAddress,
    datamatch: Datamatch,
) -> Result<(), Error> {
    vm.register_ioevent(event, place, datamatch, Sharing::Exclusive)
}

fn refused(result: Result<(), Error>, errno: i32) {
    match result.expect_err("a refusal") {
        Error::Doorbell(rule) => assert_eq!(rule.errno(), errno, "{rule}"),
        error => panic!("no rule of the doorbells: {}", chain(&error)),
    }
}

fn all_widths_stand_beside_each_other<H: Hypervisor>(h: &H) {
    let vm = plain(h);
    for place in PLACES {
        let events: Vec<EventFd> = WIDTHS.iter().map(|_| event()).collect();
        for (event, datamatch) in events.iter().zip(WIDTHS) {
            register(&*vm, event, place, datamatch).unwrap();
        }
        for (event, datamatch) in events.iter().zip(WIDTHS) {
            refused(register(&*vm, event, place, datamatch), libc::EEXIST);
        }
    }
    let events: Vec<EventFd> = WIDTHS.iter().map(|_| event()).collect();
    for (event, datamatch) in events.iter().zip(WIDTHS) {
        register(&*vm, event, IoEventAddress::Mmio(HOLE + 0x1000), datamatch).unwrap();
    }
    let mut player = Player::new(&vm);
    for (index, width) in [1, 2, 4, 8].into_iter().enumerate() {
        assert_eq!(player.play(&[Op::Store(width, HOLE + 0x1000, 7)]), []);
        let counts: Vec<u64> = events.iter().map(count).collect();
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
            register(&*vm, &first, place, Datamatch::AnyLength).unwrap();
            refused(register(&*vm, &second, place, width), libc::EEXIST);
            vm.unregister_ioevent(&first, place, Datamatch::AnyLength)
                .unwrap();
            register(&*vm, &second, place, width).unwrap();
            refused(
                register(&*vm, &first, place, Datamatch::AnyLength),
                libc::EEXIST,
            );
            vm.unregister_ioevent(&second, place, width).unwrap();
        }
    }
}

fn a_value_is_taken_once_and_never_beside_a_wildcard<H: Hypervisor>(h: &H) {
    let vm = plain(h);
    let (first, second) = (event(), event());
    for place in PLACES {
        register(&*vm, &first, place, Datamatch::U16(Some(1))).unwrap();
        refused(
            register(&*vm, &second, place, Datamatch::U16(Some(1))),
            libc::EEXIST,
        );
        register(&*vm, &second, place, Datamatch::U16(Some(2))).unwrap();
        refused(
            register(&*vm, &second, place, Datamatch::U16(None)),
            libc::EEXIST,
        );
        register(&*vm, &second, place, Datamatch::U32(None)).unwrap();
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
    register(
        &*vm,
        &port,
        IoEventAddress::Pio(0x3000),
        Datamatch::U32(None),
    )
    .unwrap();
    register(
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

fn removal_names_the_eventfd_not_the_descriptor<H: Hypervisor>(h: &H) {
    let vm = plain(h);
    let (event, other) = (event(), event());
    let place = bells::place(0x600);
    register(&*vm, &event, place, Datamatch::U16(Some(5))).unwrap();
    refused(
        vm.unregister_ioevent(&other, place, Datamatch::U16(Some(5))),
        libc::ENOENT,
    );
    refused(
        vm.unregister_ioevent(&event, place, Datamatch::U16(Some(6))),
        libc::ENOENT,
    );
    refused(
        vm.unregister_ioevent(&event, place, Datamatch::U16(None)),
        libc::ENOENT,
    );
    refused(
        vm.unregister_ioevent(&event, place, Datamatch::U32(Some(5))),
        libc::ENOENT,
    );
    refused(
        vm.unregister_ioevent(&event, IoEventAddress::Mmio(0x600), Datamatch::U16(Some(5))),
        libc::ENOENT,
    );
    let copy = event.try_clone().unwrap();
    vm.unregister_ioevent(&copy, place, Datamatch::U16(Some(5)))
        .unwrap();
    refused(
        vm.unregister_ioevent(&event, place, Datamatch::U16(Some(5))),
        libc::ENOENT,
    );
}

fn a_range_that_wraps_is_refused<H: Hypervisor>(h: &H) {
    let vm = plain(h);
    let event = event();
    let last = IoEventAddress::Mmio(u64::MAX);
    refused(
        register(&*vm, &event, last, Datamatch::U8(None)),
        libc::EINVAL,
    );
    register(&*vm, &event, last, Datamatch::AnyLength).unwrap();
}

crate::on_both! {
    all_widths_stand_beside_each_other;
    any_length_shares_its_address_with_nothing;
    a_value_is_taken_once_and_never_beside_a_wildcard;
    #[cfg(target_arch = "x86_64")] ports_and_memory_are_separate_spaces;
    removal_names_the_eventfd_not_the_descriptor;
    a_range_that_wraps_is_refused;
}
