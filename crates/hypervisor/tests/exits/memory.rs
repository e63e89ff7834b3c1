//! Loads and stores at addresses without memory.

use vm_memory::{Bytes, GuestAddress};
use vmbell_guest::{PARAMETERS, Parameters, offset};
use vmbell_hypervisor::{Hypervisor, VmEntry, VmExit};

use testbed::{AREA, HOLE, plain, programs, run, run_to_done, start};

fn every_form_of_store_leaves_with_its_address_and_data<H: Hypervisor>(h: &H) {
    let vm = plain(h);
    let mut vcpu = start(
        &vm,
        programs::stores(),
        Parameters {
            address: HOLE,
            ..Parameters::default()
        },
        0,
    );
    let exits = run(&mut vcpu);
    let label = |place: usize| {
        vm.memory()
            .read_obj::<u64>(GuestAddress(PARAMETERS.0 + place as u64))
            .unwrap()
    };
    let store = |address, len, data| VmExit::MmioWrite { address, len, data };
    let (byte, word, dword, qword) = (0x11, 0x2211, 0x4433_2211, 0x8877_6655_4433_2211);
    let expected = [
        store(HOLE, 1, byte),
        store(HOLE, 1, 0x22),
        store(HOLE, 1, byte),
        store(HOLE, 1, byte),
        store(HOLE, 2, word),
        store(HOLE, 2, word),
        store(HOLE, 4, dword),
        store(HOLE, 4, dword),
        store(HOLE, 8, qword),
        store(HOLE, 8, qword),
        store(HOLE, 1, 0x80),
        store(HOLE, 2, 0x8001),
        store(HOLE, 4, 0x8000_0002),
        store(HOLE, 8, u64::MAX - 2),
        store(HOLE + 0x10, 4, dword),
        store(HOLE - 0x80, 4, dword),
        store(HOLE + 0x12340, 4, dword),
        store(HOLE + 0x100, 4, dword),
        store(HOLE + 0x804, 4, dword),
        store(HOLE, 4, dword),
        store(HOLE, 4, dword),
        store(HOLE + 8, 4, dword),
        store(HOLE, 4, dword),
        store(0x7fff_0100, 4, dword),
        store(0x7fff_0400, 4, dword),
        store(HOLE, 4, dword),
        store(HOLE + 0x123, 1, byte),
        store(HOLE + 0x124, 2, word),
        store(HOLE + 0x128, 4, dword),
        store(HOLE + 0x130, 8, qword),
        store(label(offset::STAMP) + 0x5000_0000, 4, dword),
        store(label(offset::ANSWERED) + 0x5000_0000, 1, 0x77),
        store(HOLE, 4, dword),
        store(HOLE, 8, qword),
        store(HOLE, 4, dword),
        store(HOLE, 8, qword),
        store(HOLE, 4, dword),
        store(HOLE, 2, word),
        store(HOLE, 8, qword),
    ];
    for (index, (exit, expected)) in exits.iter().zip(&expected).enumerate() {
        assert_eq!(exit, expected, "store {index}");
    }
    assert_eq!(exits.len(), expected.len());
}

fn every_form_of_load_fills_its_register<H: Hypervisor>(h: &H) {
    const ANSWER: u64 = 0x8877_6655_a4b3_92f1;
    const ONES: u64 = u64::MAX;
    let vm = plain(h);
    let parameters = Parameters {
        address: HOLE,
        value: AREA,
        ..Parameters::default()
    };
    let mut vcpu = start(&vm, programs::loads(), parameters, 0);
    let exits = run_to_done(&mut vcpu, |_| VmEntry::Data(ANSWER));
    // The width of the read, and the values of rax and r11 after it.
    let expected = [
        (1, ONES << 8 | 0xf1, ONES),
        (1, ONES - 0xff00 + 0xf100, ONES),
        (2, ONES << 16 | 0x92f1, ONES),
        (4, 0xa4b3_92f1, ONES),
        (8, ANSWER, ONES),
        (1, ONES, ONES << 8 | 0xf1),
        (2, ONES, ONES << 16 | 0x92f1),
        (4, ONES, 0xa4b3_92f1),
        (8, ONES, ANSWER),
        (1, ONES << 16 | 0xf1, ONES),
        (1, 0xf1, ONES),
        (1, 0xf1, ONES),
        (2, 0x92f1, ONES),
        (2, ONES, 0x92f1),
        (1, ONES << 16 | 0xfff1, ONES),
        (1, 0xffff_fff1, ONES),
        (1, ONES << 8 | 0xf1, ONES),
        (2, 0xffff_92f1, ONES),
        (2, ONES, ONES << 16 | 0x92f1),
        (4, ONES << 32 | 0xa4b3_92f1, ONES),
        (4, ONES, ONES << 32 | 0xa4b3_92f1),
        (1, ONES << 8 | 0xf1, ONES),
        (2, ONES << 16 | 0x92f1, ONES),
        (4, 0xa4b3_92f1, ONES),
        (8, ANSWER, ONES),
    ];
    for (index, (width, rax, r11)) in expected.into_iter().enumerate() {
        let address = match index {
            20 => HOLE + 0x40,
            21 => HOLE + 0x123,
            22 => HOLE + 0x124,
            23 => HOLE + 0x128,
            24 => HOLE + 0x130,
            _ => HOLE,
        };
        assert_eq!(
            exits[index],
            VmExit::MmioRead {
                address,
                len: width
            },
            "load {index}"
        );
        let result = |place: u64| {
            vm.memory()
                .read_obj::<u64>(GuestAddress(AREA + 16 * index as u64 + place))
                .unwrap()
        };
        assert_eq!(
            (result(0), result(8)),
            (rax, r11),
            "load {index}: {:x} {:x}",
            result(0),
            result(8)
        );
    }
    let last: u64 = vm
        .memory()
        .read_obj(GuestAddress(AREA + 16 * expected.len() as u64))
        .unwrap();
    assert_eq!((last, exits.len()), (ANSWER, expected.len() + 1));
}

testbed::on_both! {
    every_form_of_store_leaves_with_its_address_and_data;
    every_form_of_load_fills_its_register;
}
