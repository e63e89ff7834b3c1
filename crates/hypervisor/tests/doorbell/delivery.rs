//! Which writes of a guest ring a doorbell, and which leave the guest.

use std::sync::Arc;

use vmbell::doorbell::{Datamatch, IoEventAddress};
use vmbell_hypervisor::{Hypervisor, PatchMode, VmConfig, VmEntry, VmExit};
use vmm_sys_util::eventfd::{EFD_NONBLOCK, EFD_SEMAPHORE, EventFd};

use crate::doorbell::places::{at_address, at_port, load, out, register, store};
use testbed::script::{Op, Player};
use testbed::{HOLE, bells, configured, count, event, has_doorbells_at, plain};

const PORT: u16 = 0x500;

fn another_width_leaves_the_guest<H: Hypervisor>(h: &H) {
    let vm = plain(h);
    let event = event();
    let _port = at_port(&*vm, &event, PORT, Datamatch::U16(None));
    let _address = at_address(&*vm, &event, HOLE, Datamatch::U32(None));
    let mut player = Player::new(&vm);
    let exits = player.play(&[
        Op::Out(1, PORT, 0x1234_5678),
        Op::Out(2, PORT, 0x1234_5678),
        Op::Out(4, PORT, 0x1234_5678),
        Op::Store(1, HOLE, 0x1122_3344_5566_7788),
        Op::Store(2, HOLE, 0x1122_3344_5566_7788),
        Op::Store(4, HOLE, 0x1122_3344_5566_7788),
        Op::Store(8, HOLE, 0x1122_3344_5566_7788),
    ]);
    let expected = [
        out(1, PORT, 0x78),
        out(4, PORT, 0x1234_5678),
        store(1, HOLE, 0x88),
        store(2, HOLE, 0x7788),
        store(8, HOLE, 0x1122_3344_5566_7788),
    ];
    assert_eq!(exits, expected);
    assert_eq!(count(&event), 2);
}

fn any_length_takes_every_width<H: Hypervisor>(h: &H) {
    let vm = plain(h);
    let event = event();
    let _port = at_port(&*vm, &event, PORT, Datamatch::AnyLength);
    let _address = at_address(&*vm, &event, HOLE, Datamatch::AnyLength);
    let stores = [1, 2, 4, 8].map(|width| Op::Store(width, HOLE, 1));
    let outs = [1, 2, 4].map(|width| Op::Out(width, PORT, 1));
    let mut player = Player::new(&vm);
    assert_eq!(player.play(&stores), []);
    assert_eq!(player.play(&outs), []);
    assert_eq!(count(&event), 7);
}

fn datamatch_ignores_other_values<H: Hypervisor>(h: &H) {
    let vm = plain(h);
    let (first, second) = (event(), event());
    let wide = 0x1122_3344_0000_0007;
    let _first = at_address(&*vm, &first, HOLE, Datamatch::U32(Some(7)));
    let _second = at_address(&*vm, &second, HOLE, Datamatch::U64(Some(wide)));
    let mut player = Player::new(&vm);
    let exits = player.play(&[
        Op::Store(4, HOLE, wide),
        Op::Store(4, HOLE, 0x8000_0007),
        Op::Store(8, HOLE, wide),
        Op::Store(8, HOLE, 7),
    ]);
    let expected = [store(4, HOLE, 0x8000_0007), store(8, HOLE, 7)];
    assert_eq!(exits, expected);
    assert_eq!((count(&first), count(&second)), (1, 1));
}

fn datamatch_of_a_hypercall_ignores_other_arguments<H: Hypervisor>(h: &H) {
    let vm = plain(h);
    let event = event();
    let place = IoEventAddress::Hypercall(5);
    let _doorbell = register(&*vm, &event, place, Datamatch::U64(Some(9)));
    let mut player = Player::new(&vm);
    let exits = player.play(&[Op::Call(5, 9), Op::Call(5, 1 << 32 | 9)]);
    let expected = [VmExit::Hypercall {
        number: 5,
        argument: 1 << 32 | 9,
    }];
    assert_eq!(exits, expected);
    assert_eq!(count(&event), 1);
}

/// A [`Datamatch`] cannot have a value wider than its width. The largest value of a width matches.
fn the_largest_value_of_a_width_is_hit<H: Hypervisor>(h: &H) {
    let vm = plain(h);
    let event = event();
    let largest = [
        Datamatch::U8(Some(0xff)),
        Datamatch::U16(Some(0xffff)),
        Datamatch::U64(Some(u64::MAX)),
    ];
    let _doorbells = largest.map(|value| at_address(&*vm, &event, HOLE, value));
    let mut player = Player::new(&vm);
    assert_eq!(
        player.play(&[1, 2, 8].map(|width| Op::Store(width, HOLE, u64::MAX))),
        []
    );
    assert_eq!(count(&event), 3);
}

fn a_read_always_leaves_the_guest<H: Hypervisor>(h: &H) {
    let vm = plain(h);
    let event = event();
    let _port = at_port(&*vm, &event, PORT, Datamatch::AnyLength);
    let _address = at_address(&*vm, &event, HOLE, Datamatch::AnyLength);
    let mut player = Player::new(&vm);
    let ops = [
        Op::Store(4, HOLE, 1),
        Op::Load(4, HOLE),
        Op::In(1, PORT),
        Op::Load(8, HOLE),
    ];
    let exits = player.play_with(&ops, |_| VmEntry::Data(0x66));
    let expected = [load(4, HOLE), bells::read(1, PORT), load(8, HOLE)];
    assert_eq!(exits, expected);
    assert_eq!([1, 2, 3].map(|index| player.result(index)), [0x66; 3]);
    assert_eq!(count(&event), 1);
}

/// These accesses are not aligned, which arm64 allows only in memory.
#[cfg(target_arch = "x86_64")]
fn the_byte_beside_a_doorbell_is_not_it<H: Hypervisor>(h: &H) {
    let vm = plain(h);
    let event = event();
    let _address = at_address(&*vm, &event, HOLE + 8, Datamatch::AnyLength);
    let _port = at_port(&*vm, &event, 0x501, Datamatch::AnyLength);
    let mut player = Player::new(&vm);
    let exits = player.play(&[
        Op::Store(4, HOLE + 9, 1),
        Op::Store(8, HOLE + 7, 1),
        Op::Store(8, HOLE + 4, 1),
        Op::Out(4, 0x500, 1),
        Op::Out(1, 0x502, 1),
        Op::Out(2, 0x501, 1),
    ]);
    assert_eq!(exits.len(), 5, "{exits:x?}");
    assert_eq!(count(&event), 1);
}

fn a_semaphore_counts_too<H: Hypervisor>(h: &H) {
    let vm = plain(h);
    let event = Arc::new(EventFd::new(EFD_NONBLOCK | EFD_SEMAPHORE).unwrap());
    let _port = at_port(&*vm, &event, PORT, Datamatch::U8(None));
    let mut player = Player::new(&vm);
    assert_eq!(player.play(&[Op::Out(1, PORT, 1); 3]), []);
    assert_eq!(
        [count(&event), count(&event), count(&event), count(&event)],
        [1, 1, 1, 0]
    );
}

fn a_doorbell_keeps_its_eventfd<H: Hypervisor>(h: &H) {
    let vm = plain(h);
    let event = event();
    let doorbell = at_port(&*vm, &event, PORT, Datamatch::U8(None));
    let mut player = Player::new(&vm);
    drop(event);
    assert_eq!(player.play(&[Op::Out(1, PORT, 1); 3]), []);
    assert_eq!(count(doorbell.event()), 3);
}

fn a_doorbell_that_comes_back_rings_again<H: Hypervisor>(h: &H) {
    for patch in [PatchMode::Off, PatchMode::Int3, PatchMode::Jmp] {
        let vm = configured(
            h,
            VmConfig {
                patch,
                ..VmConfig::default()
            },
        );
        let event = event();
        let mut player = Player::new(&vm);
        let rings = [
            (
                bells::place(PORT),
                Datamatch::U32(None),
                Op::Out(4, PORT, 1),
            ),
            (
                IoEventAddress::Hypercall(3),
                Datamatch::U64(None),
                Op::Call(3, 0),
            ),
            (
                IoEventAddress::Mmio(HOLE),
                Datamatch::U32(None),
                Op::Store(4, HOLE, 0),
            ),
        ];
        let rings: Vec<_> = rings
            .into_iter()
            .filter(|(place, ..)| has_doorbells_at(h, *place))
            .collect();
        let ops: Vec<Op> = rings.iter().map(|(.., op)| *op).collect();
        // Enough rounds that the instructions are patched on the way.
        for round in 0..30 {
            let mut doorbells: Vec<_> = rings
                .iter()
                .map(|(place, datamatch, _)| register(&*vm, &event, *place, *datamatch))
                .collect();
            assert_eq!(player.play(&ops), [], "{patch:?}, round {round}");
            assert_eq!(count(&event), ops.len() as u64, "{patch:?}, round {round}");
            if round % 2 == 0 {
                for doorbell in &mut doorbells {
                    doorbell.remove().unwrap();
                }
            } else {
                doorbells.clear();
            }
            let exits = player.play(&ops);
            assert_eq!(exits.len(), ops.len(), "{patch:?}, round {round}");
            assert_eq!(count(&event), 0, "{patch:?}, round {round}");
        }
    }
}

testbed::on_both! {
    another_width_leaves_the_guest;
    any_length_takes_every_width;
    datamatch_ignores_other_values;
    the_largest_value_of_a_width_is_hit;
    a_read_always_leaves_the_guest;
    #[cfg(target_arch = "x86_64")] the_byte_beside_a_doorbell_is_not_it;
    a_semaphore_counts_too;
    a_doorbell_keeps_its_eventfd;
    a_doorbell_that_comes_back_rings_again;
}

mod engine {
    use super::datamatch_of_a_hypercall_ignores_other_arguments;

    testbed::on_usermode! { datamatch_of_a_hypercall_ignores_other_arguments; }
}
