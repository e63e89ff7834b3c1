//! A page of doorbells, as NVMe has. The device reads the tails of its queues on its own thread.

use std::thread;

use vmbell::bus::BusDevice;
use vmbell_devices::DoorbellPage;
use vmbell_hypervisor::{Capability, Hypervisor, VmEntry, VmExit};

use testbed::script::{Op, Player};
use testbed::{HOLE, count, plain};

/// The doorbells: four queues with a tail and a head each.
const DOORBELLS: u32 = 8;
const STRIDE: u32 = 4;

/// The guest writes 1, 2, 3 ... to each doorbell in turn. A thread sleeps until a doorbell is rung and reads its value:
/// no value comes twice with a signal, no value decreases, and the last is the last that the guest wrote.
fn tails_of_all_queues_reach_the_device<H: Hypervisor>(h: &H) {
    const TAILS: u32 = 50;
    let vm = plain(h);
    let page = DoorbellPage::new(&*vm, HOLE, DOORBELLS, STRIDE).unwrap();
    let by_backend = h.support(Capability::PayloadDoorbell).is_yes();
    assert_eq!(page.is_without_exits(), by_backend);
    let mut player = Player::new(&vm);
    thread::scope(|scope| {
        let page = &page;
        let device = scope.spawn(move || {
            let mut tails = [0; DOORBELLS as usize];
            let mut signals = 0;
            while tails != [TAILS; DOORBELLS as usize] {
                for (number, tail) in tails.iter_mut().enumerate() {
                    let rings = count(page.event(number).unwrap());
                    let value = page.value(number).unwrap();
                    assert!(value >= *tail, "doorbell {number}: {value} after {tail}");
                    assert!(rings == 0 || value > 0);
                    *tail = value;
                    signals += rings;
                }
                thread::yield_now();
            }
            signals
        });
        let mut exits = 0;
        for tail in 1..=TAILS {
            let place = |doorbell| HOLE + u64::from(doorbell * STRIDE);
            let store = |doorbell| Op::Store(4, place(doorbell), tail.into());
            let ops: Vec<Op> = (0..DOORBELLS).map(store).collect();
            player.play_with(&ops, |exit| {
                if let VmExit::MmioWrite { address, len, data } = exit {
                    exits += 1;
                    let bytes = data.to_le_bytes();
                    page.write(address - HOLE, &bytes[..usize::from(*len)]);
                }
                VmEntry::Resume
            });
        }
        let seen = device.join().unwrap();
        let left = (0..DOORBELLS).map(|doorbell| {
            let event = page.event(doorbell as usize).unwrap();
            count(event)
        });
        let rings = u64::from(TAILS * DOORBELLS);
        assert_eq!(seen + left.sum::<u64>(), rings);
        assert_eq!(exits, if by_backend { 0 } else { rings });
    });
}

testbed::on_both! {
    tails_of_all_queues_reach_the_device;
}
