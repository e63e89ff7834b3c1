//! Guest and host see the same bytes, and a store to read-only memory exits.

use std::os::unix::fs::FileExt;

use vmbell_hypervisor::{DeviceMemory, Hypervisor, VmEntry, VmExit};

use crate::device_memory::{OFFSET, SIZE, memory, with_memory};
use testbed::process::with_sandbox;
use testbed::script::{Op, Player};
use testbed::{HOLE, configured};

/// Writes a word into device memory, as a device model or the hardware does.
pub fn put(memory: &DeviceMemory, at: u64, word: u64) {
    let place = memory.offset + at;
    memory
        .file
        .write_all_at(&word.to_le_bytes(), place)
        .unwrap();
}

/// Reads a word of device memory.
pub fn get(memory: &DeviceMemory, at: u64) -> u64 {
    let mut word = [0; 8];
    memory
        .file
        .read_exact_at(&mut word, memory.offset + at)
        .unwrap();
    u64::from_le_bytes(word)
}

fn guest_and_host_see_the_same_bytes_without_an_exit<H: Hypervisor>(h: &H) {
    let memory = memory(true);
    let (first, last) = (HOLE, HOLE + SIZE - 8);
    put(&memory, 0, 0x1122_3344_5566_7788);
    let vm = configured(h, with_memory(&[(HOLE, &memory)]));
    let mut player = Player::new(&vm);
    let exits = player.play(&[
        Op::Load(8, first),
        Op::Store(4, first + 4, 0xcafe_f00d),
        Op::Store(8, last, u64::MAX - 1),
        Op::Store(16, first + 0x100, 0),
    ]);
    assert_eq!(exits, []);
    assert_eq!(player.result(0), 0x1122_3344_5566_7788);
    assert_eq!(get(&memory, 0), 0xcafe_f00d_5566_7788);
    assert_eq!(get(&memory, SIZE - 8), u64::MAX - 1);
    // A write while the guest exists is seen as well.
    put(&memory, SIZE - 8, 7);
    assert_eq!(player.play(&[Op::Load(8, last)]), []);
    assert_eq!(player.result(0), 7);
    // The guest cannot access the part of the file before the device memory.
    let mut head = vec![0; usize::try_from(OFFSET).unwrap()];
    memory.file.read_exact_at(&mut head, 0).unwrap();
    assert!(head.iter().all(|byte| *byte == 0));
}

fn device_memory_ends_where_it_is_said_to_end<H: Hypervisor>(h: &H) {
    let memory = memory(true);
    let vm = configured(h, with_memory(&[(HOLE, &memory)]));
    let around = [HOLE - 4, HOLE + SIZE];
    let exits = Player::new(&vm).play_with(&around.map(|at| Op::Load(4, at)), |_| VmEntry::Data(0));
    let expected = around.map(|address| VmExit::MmioRead { address, len: 4 });
    assert_eq!(exits, expected);
}

fn store_to_memory_that_may_only_be_read_is_an_exit<H: Hypervisor>(h: &H) {
    let memory = memory(false);
    put(&memory, 8, 42);
    let vm = configured(h, with_memory(&[(HOLE, &memory)]));
    let mut player = Player::new(&vm);
    let exits = player.play(&[
        Op::Load(8, HOLE + 8),
        Op::Store(4, HOLE + 8, 5),
        Op::Load(8, HOLE + 8),
    ]);
    let store = VmExit::MmioWrite {
        address: HOLE + 8,
        len: 4,
        data: 5,
    };
    assert_eq!(exits, [store]);
    assert_eq!((player.result(0), player.result(2)), (42, 42));
    assert_eq!(get(&memory, 8), 42);
}

fn several_places_show_their_own_files<H: Hypervisor>(h: &H) {
    // Twelve places fit on the backend with the lowest limit.
    let memories: Vec<_> = (0..12).map(|_| memory(true)).collect();
    let place = |index: u64| HOLE + 0x10_0000 * index;
    let places: Vec<_> = (0..).map(place).zip(&memories).collect();
    let vm = configured(h, with_memory(&places));
    let ops: Vec<_> = (0..12)
        .map(|index| Op::Store(8, place(index), 100 + index))
        .collect();
    assert_eq!(Player::new(&vm).play(&ops), []);
    let stored: Vec<_> = memories.iter().map(|memory| get(memory, 0)).collect();
    assert_eq!(stored, (100..112).collect::<Vec<_>>());
}

fn file_of_device_memory_is_not_open_in_the_sandbox<H: Hypervisor>(h: &H) {
    let (writable, readable) = (memory(true), memory(false));
    let config = with_memory(&[(HOLE, &writable), (HOLE + 0x10_0000, &readable)]);
    let (vm, sandbox) = with_sandbox(h, &config);
    assert_eq!(Player::new(&vm).play(&[Op::Load(4, HOLE)]), []);
    let files: Vec<_> = std::fs::read_dir(format!("/proc/{sandbox}/fd"))
        .unwrap()
        .map(|entry| entry.unwrap().path().read_link())
        .collect();
    assert!(files.is_empty(), "{files:?}");
}

testbed::on_both! {
    guest_and_host_see_the_same_bytes_without_an_exit;
    device_memory_ends_where_it_is_said_to_end;
    store_to_memory_that_may_only_be_read_is_an_exit;
    several_places_show_their_own_files;
}

mod of_one_backend {
    use super::file_of_device_memory_is_not_open_in_the_sandbox;

    testbed::on_usermode! {
        file_of_device_memory_is_not_open_in_the_sandbox;
    }
}
