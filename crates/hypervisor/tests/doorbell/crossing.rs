//! Accesses that cross a page: KVM makes one access per page, and the usermode backend must do the same.

use vmbell::doorbell::Datamatch;
use vmbell_hypervisor::{Hypervisor, VmEntry, VmExit};

use crate::doorbell::places::{at_address, load, store};
use testbed::script::{Op, Player};
use testbed::{HOLE, count, event, fault, plain};

fn a_store_across_pages_is_two_writes<H: Hypervisor>(h: &H) {
    let vm = plain(h);
    let (first, tail) = (event(), event());
    let next = HOLE + 0x1000;
    let _doorbells = [
        at_address(&*vm, &tail, next, Datamatch::U32(Some(0x1122_3344))),
        at_address(&*vm, &tail, next, Datamatch::U16(None)),
        at_address(&*vm, &tail, next, Datamatch::U8(Some(0x11))),
        at_address(&*vm, &first, next - 4, Datamatch::U64(None)),
        at_address(&*vm, &first, next - 2, Datamatch::U16(None)),
    ];
    let value = 0x1122_3344_5566_7788;
    let mut player = Player::new(&vm);
    let exits = player.play(&[
        Op::Store(8, next - 4, value),
        Op::Store(4, next - 2, value),
        Op::Store(2, next - 1, 0x1122),
        Op::Store(8, next - 3, value),
    ]);
    let expected = [
        store(4, next - 4, 0x5566_7788),
        store(1, next - 1, 0x22),
        store(3, next - 3, 0x0066_7788),
        store(5, next, 0x11_2233_4455),
    ];
    assert_eq!(exits, expected);
    assert_eq!((count(&first), count(&tail)), (1, 3));
}

fn any_length_takes_the_tail_of_a_store_across_pages<H: Hypervisor>(h: &H) {
    let vm = plain(h);
    let event = event();
    let _address = at_address(&*vm, &event, HOLE, Datamatch::AnyLength);
    let mut player = Player::new(&vm);
    let exits = player.play(&[Op::Store(8, HOLE - 3, 0x1122_3344_5566_7788)]);
    assert_eq!(exits, [store(3, HOLE - 3, 0x66_7788)]);
    assert_eq!(count(&event), 1);
}

fn a_load_across_pages_is_two_reads<H: Hypervisor>(h: &H) {
    let vm = plain(h);
    let mut player = Player::new(&vm);
    let mut answers = [0xaaaa_aaaa_aa33_2211, 0xbbbb_bb88_7766_5544].into_iter();
    let exits = player.play_with(&[Op::Load(8, HOLE - 3)], |_| {
        VmEntry::Data(answers.next().unwrap())
    });
    assert_eq!(exits, [load(3, HOLE - 3), load(5, HOLE)]);
    assert_eq!(player.result(0), 0x8877_6655_4433_2211);
}

/// The case that once crashed hosts: the tail of a 16-byte store at a doorbell that matches a value.
fn a_store_of_16_bytes_across_pages_is_a_clear_error<H: Hypervisor>(h: &H) {
    let vm = plain(h);
    let event = event();
    let zero = Datamatch::U64(Some(0));
    let _doorbells = [HOLE, HOLE + 0x1000].map(|place| at_address(&*vm, &event, place, zero));
    let mut player = Player::new(&vm);
    player.write(&[Op::Store(16, HOLE + 0xffc, 0)]);
    let fault = fault(&mut player.vcpu);
    // movups [rdx], xmm0
    assert_eq!(
        (fault.address, &fault.bytes[..3]),
        (Some(HOLE + 0xffc), &[0x0f, 0x11, 0x02][..]),
        "{fault}"
    );
    assert_eq!(count(&event), 0);
}

/// The same store where the kernel decodes it: it is split at the page and into stores of at most eight bytes, of which
/// the one at the 8-byte doorbell rings it.
fn a_store_of_16_bytes_across_pages_rings_for_its_halves<H: Hypervisor>(h: &H) {
    let vm = plain(h);
    let (head, tail) = (event(), event());
    let next = HOLE + 0x1000;
    let _head = at_address(&*vm, &head, next - 8, Datamatch::U64(None));
    let _tail = at_address(&*vm, &tail, next, Datamatch::U64(Some(0)));
    let mut player = Player::new(&vm);
    assert_eq!(player.play(&[Op::Store(16, next - 8, 0)]), []);
    assert_eq!((count(&head), count(&tail)), (1, 1));
    let exits = player.play(&[Op::Store(16, next - 4, 0)]);
    let stores: Vec<(u64, u8)> = exits
        .iter()
        .map(|exit| match *exit {
            VmExit::MmioWrite { address, len, .. } => (address, len),
            ref other => panic!("{other:x?}"),
        })
        .collect();
    assert_eq!(stores, [(next - 4, 4), (next + 8, 4)]);
    assert_eq!((count(&head), count(&tail)), (0, 1));
}

testbed::on_both! {
    a_store_across_pages_is_two_writes;
    any_length_takes_the_tail_of_a_store_across_pages;
    a_load_across_pages_is_two_reads;
}

/// The usermode backend decodes one store at a time.
mod engine {
    use super::a_store_of_16_bytes_across_pages_is_a_clear_error;

    testbed::on_usermode! { a_store_of_16_bytes_across_pages_is_a_clear_error; }
}

/// The kernel's emulator splits what it stores.
mod kernel {
    use super::a_store_of_16_bytes_across_pages_rings_for_its_halves;

    testbed::on_kvm! { a_store_of_16_bytes_across_pages_rings_for_its_halves; }
}
