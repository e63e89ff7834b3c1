//! Many doorbells.

use vmbell::doorbell::{Datamatch, IoEventAddress, Sharing};
use vmbell_hypervisor::Hypervisor;

use testbed::script::{Op, Player};
use testbed::{HOLE, count, event, plain};

/// More than the kernel's limit for devices on a bus, which does not count doorbells.
const MANY: u64 = 1_200;

fn more_than_a_thousand_doorbells_ring<H: Hypervisor>(h: &H) {
    let vm = plain(h);
    let (all, one) = (event(), event());
    let register = |index| {
        let event = if index == MANY - 1 { &one } else { &all };
        let (place, datamatch) = (IoEventAddress::Mmio(HOLE + 4 * index), Datamatch::U32(None));
        vm.register_ioevent(event, place, datamatch, Sharing::Exclusive)
            .unwrap()
    };
    let mut doorbells: Vec<_> = (0..MANY).map(register).collect();
    let mut player = Player::new(&vm);
    let ops: Vec<Op> = (0..MANY)
        .map(|index| Op::Store(4, HOLE + 4 * index, index))
        .collect();
    assert_eq!(player.play(&ops), []);
    assert_eq!((count(&all), count(&one)), (MANY - 1, 1));
    let _last = doorbells.pop();
    drop(doorbells);
    assert_eq!(player.play(&ops).len() as u64, MANY - 1);
    assert_eq!((count(&all), count(&one)), (0, 1));
}

testbed::on_both! {
    more_than_a_thousand_doorbells_ring;
}
