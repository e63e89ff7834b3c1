//! What the owner of a doorbell may do with it after its guest is gone, and which threads may remove it.

use std::sync::Arc;

use vmbell::doorbell::{Datamatch, IoEventAddress, Sharing};
use vmbell_hypervisor::{Doorbell, Hypervisor, Vm};

use testbed::script::{Op, Player};
use testbed::{HOLE, count, event, plain};

const ALONE: IoEventAddress = IoEventAddress::Mmio(HOLE);
const SHARED: IoEventAddress = IoEventAddress::Mmio(HOLE + 0x1000);
const ANY: Datamatch = Datamatch::U32(None);
const RINGS: [Op; 2] = [Op::Store(4, HOLE, 1), Op::Store(4, HOLE + 0x1000, 1)];

/// Registers an exclusive doorbell and one of a group.
fn both(vm: &Arc<dyn Vm>) -> [Doorbell; 2] {
    [(ALONE, Sharing::Exclusive), (SHARED, Sharing::Group)]
        .map(|(place, sharing)| vm.register_ioevent(&event(), place, ANY, sharing).unwrap())
}

fn a_doorbell_may_be_removed_and_dropped_after_its_guest<H: Hypervisor>(h: &H) {
    let vm = plain(h);
    let mut doorbells = both(&vm);
    let mut player = Player::new(&vm);
    assert_eq!(player.play(&RINGS), []);
    drop(player);
    drop(vm);
    for doorbell in &mut doorbells {
        assert_eq!(count(doorbell.event()), 1);
        doorbell.remove().unwrap();
    }
    // The doorbells of the next guest are different.
    let vm = plain(h);
    let next = both(&vm);
    drop(doorbells);
    assert_eq!(Player::new(&vm).play(&RINGS), []);
    assert_eq!(
        next.each_ref().map(|doorbell| count(doorbell.event())),
        [1, 1]
    );
    drop(vm);
    drop(next);
}

fn a_doorbell_is_dropped_by_any_thread<H: Hypervisor>(h: &H) {
    let vm = plain(h);
    let mut player = Player::new(&vm);
    for _ in 0..20 {
        let doorbells = both(&vm);
        let events = doorbells
            .each_ref()
            .map(|doorbell| Arc::clone(doorbell.event()));
        assert_eq!(player.play(&RINGS), []);
        std::thread::spawn(move || drop(doorbells)).join().unwrap();
        assert_eq!(player.play(&RINGS).len(), 2);
        assert_eq!(events.map(|event| count(&event)), [1, 1]);
    }
}

testbed::on_both! {
    a_doorbell_may_be_removed_and_dropped_after_its_guest;
    a_doorbell_is_dropped_by_any_thread;
}
