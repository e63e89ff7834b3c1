//! Doorbells on addresses. Ports have none.

use vmbell::doorbell::{Datamatch, IoEventAddress, Sharing};
use vmbell_hypervisor::{Capability, Error, Hypervisor, Support, VmExit};

use crate::arm64::accesses::{Op, Player};
use testbed::{HOLE, chain, count, event, plain};

const PLACE: IoEventAddress = IoEventAddress::Mmio(HOLE);

fn wildcard_takes_its_width_only<H: Hypervisor>(h: &H) {
    let (vm, event) = (plain(h), event());
    let _doorbell = vm
        .register_ioevent(&event, PLACE, Datamatch::U32(None), Sharing::Exclusive)
        .unwrap();
    let mut player = Player::new(&vm);
    let exits = player.play(&[
        Op::Store(4, HOLE, 1),
        Op::Store(4, HOLE, 2),
        Op::Store(8, HOLE, 3),
        Op::Store(4, HOLE + 4, 4),
    ]);
    assert_eq!(count(&event), 2);
    let heavy = [(HOLE, 8, 3), (HOLE + 4, 4, 4)];
    let write = |(address, len, data)| VmExit::MmioWrite { address, len, data };
    assert_eq!(exits, heavy.map(write));
}

fn value_takes_itself_only<H: Hypervisor>(h: &H) {
    let (vm, event) = (plain(h), event());
    let value = Datamatch::U32(Some(7));
    let doorbell = vm
        .register_ioevent(&event, PLACE, value, Sharing::Exclusive)
        .unwrap();
    let mut player = Player::new(&vm);
    let exits = player.play(&[Op::Store(4, HOLE, 7), Op::Store(4, HOLE, 8)]);
    assert_eq!((count(&event), exits.len()), (1, 1));
    drop(doorbell);
    assert_eq!(player.play(&[Op::Store(4, HOLE, 7)]).len(), 1);
    assert_eq!(count(&event), 0);
}

fn any_length_takes_every_width<H: Hypervisor>(h: &H) {
    let (vm, event) = (plain(h), event());
    let _doorbell = vm
        .register_ioevent(&event, PLACE, Datamatch::AnyLength, Sharing::Exclusive)
        .unwrap();
    let mut player = Player::new(&vm);
    let ops = [1, 2, 4, 8].map(|width| Op::Store(width, HOLE, 1));
    assert_eq!(player.play(&ops), []);
    assert_eq!(count(&event), 4);
}

fn port_is_refused_alone_and_in_a_group<H: Hypervisor>(h: &H) {
    assert!(matches!(
        h.support(Capability::PioDoorbell),
        Support::No(reason) if reason.contains("no ports")
    ));
    let (vm, event) = (plain(h), event());
    for sharing in [Sharing::Exclusive, Sharing::Group] {
        let place = IoEventAddress::Pio(0x500);
        let error = vm.register_ioevent(&event, place, Datamatch::U32(None), sharing);
        let error = error.unwrap_err();
        let capability = Capability::PioDoorbell;
        assert!(
            matches!(&error, Error::Unsupported { capability: c, .. } if *c == capability),
            "{}",
            chain(&error)
        );
    }
}

testbed::on_kvm! {
    wildcard_takes_its_width_only;
    value_takes_itself_only;
    any_length_takes_every_width;
    port_is_refused_alone_and_in_a_group;
}
