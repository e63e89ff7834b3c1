//! Several doorbells on one address.

use vmbell::doorbell::{Datamatch, IoEventAddress, Sharing};
use vmbell::hypervisor::{Hypervisor, Vm, VmConfig};
use vmm_sys_util::eventfd::EventFd;

use crate::harness::script::{Op, Player};
use crate::harness::{HOLE, configured, count, event, plain};

fn join<V: Vm>(
    vm: &V,
    event: &EventFd,
    place: IoEventAddress,
    datamatch: Datamatch,
) -> Result<(), V::Error> {
    vm.register_ioevent(event, place, datamatch, Sharing::Group)
}

fn all_that_match_are_signalled_once<H: Hypervisor>(h: &H) {
    let vm = plain(h);
    let events: Vec<EventFd> = (0..5).map(|_| event()).collect();
    let places = [
        IoEventAddress::Mmio(HOLE),
        IoEventAddress::Pio(0x700),
        IoEventAddress::Hypercall(2),
    ];
    for place in places {
        let datamatch = |value: Option<u8>| match place {
            IoEventAddress::Hypercall(_) => Datamatch::U64(value.map(u64::from)),
            _ => Datamatch::U32(value.map(u32::from)),
        };
        for (event, value) in events.iter().zip([None, None, Some(7), Some(7), Some(8)]) {
            join(&vm, event, place, datamatch(value)).unwrap();
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
        join(&vm, event, place, Datamatch::U32(None)).unwrap();
    }
    let error = join(&vm, &events[3], place, Datamatch::U32(Some(1))).expect_err("a fourth item");
    let text = error.to_string();
    assert!(text.contains("3 items already (max_items)"), "{text}");
    // The limit is of the group, which is an address and a width.
    join(&vm, &events[3], place, Datamatch::U16(None)).unwrap();
    vm.unregister_ioevent(&events[0], place, Datamatch::U32(None))
        .unwrap();
    join(&vm, &events[3], place, Datamatch::U32(Some(1))).unwrap();
}

crate::on_both! {
    all_that_match_are_signalled_once;
    a_group_takes_max_items_and_says_so;
}
