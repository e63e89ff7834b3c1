//! Port input and output.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};

use vm_memory::{Bytes, GuestAddress};
use vmbell::doorbell::{Datamatch, IoEventAddress, Sharing};
use vmbell_guest::{PARAMETERS, Parameters, offset};
use vmbell_hypervisor::{Hypervisor, Vm, VmEntry, VmExit};
use vmm_sys_util::eventfd::EventFd;

use testbed::{AREA, await_that, count, event, plain, programs, run, run_to_done, start};

fn word(vm: &Arc<dyn Vm>, address: u64) -> u64 {
    vm.memory().read_obj(GuestAddress(address)).unwrap()
}

fn every_form_of_output_and_input_leaves_with_its_data<H: Hypervisor>(h: &H) {
    let vm = plain(h);
    let mut vcpu = start(
        &vm,
        programs::ports(),
        Parameters {
            address: AREA,
            ..Parameters::default()
        },
        0,
    );
    let exits = run_to_done(&mut vcpu, |exit| match exit {
        VmExit::PioIn { .. } => VmEntry::Data(0xdead_beef_0123_4567),
        _ => VmEntry::Resume,
    });
    let (dx, imm) = (0x1234, 0x42);
    let out = |port, len, data| VmExit::PioOut { port, len, data };
    let input = |port, len| VmExit::PioIn { port, len };
    let (byte, word_, dword) = (0x88, 0x7788, 0x5566_7788);
    let expected = [
        out(dx, 1, byte),
        out(dx, 2, word_),
        out(dx, 4, dword),
        out(imm, 1, byte),
        out(imm, 2, word_),
        out(imm, 4, dword),
        out(dx, 4, dword),
        out(dx, 1, byte),
        out(dx, 4, dword),
        input(dx, 1),
        input(dx, 2),
        input(dx, 4),
        input(imm, 1),
        input(imm, 2),
        input(imm, 4),
    ];
    assert_eq!(exits, expected);
    let results = [
        u64::MAX - 0xff + 0x67,
        u64::MAX - 0xffff + 0x4567,
        0x0123_4567,
    ];
    for (index, expected) in results.into_iter().cycle().take(6).enumerate() {
        assert_eq!(
            word(&vm, AREA + 8 * index as u64),
            expected,
            "input {index}"
        );
    }
}

/// Returns the values of rcx and the pointer that `strings.S` left after a pass.
fn pass(vm: &Arc<dyn Vm>, index: u64) -> (u64, u64) {
    let base = PARAMETERS.0 + offset::WORD as u64 + 16 * index;
    (word(vm, base), word(vm, base + 8))
}

fn string_instructions_move_their_buffer<H: Hypervisor>(h: &H) {
    const PORT: u16 = 0x3f8;
    const COUNT: u64 = 5;
    let vm = plain(h);
    let buffer: Vec<u8> = (0..64).collect();
    let middle = AREA + 32;
    vm.memory()
        .write_slice(&buffer, GuestAddress(AREA))
        .unwrap();
    let parameters = Parameters {
        count: COUNT,
        address: PORT.into(),
        value: middle,
        pause: 0,
    };
    let mut vcpu = start(&vm, programs::strings(), parameters, 0);
    let mut next = 0x1111_1110_u64;
    let exits = run_to_done(&mut vcpu, |exit| match exit {
        VmExit::PioIn { .. } => {
            next += 1;
            VmEntry::Data(next)
        }
        _ => VmEntry::Resume,
    });
    let element = |start: usize, width: usize| {
        let bytes = &buffer[start..start + width];
        bytes
            .iter()
            .rev()
            .fold(0_u32, |value, byte| value << 8 | u32::from(*byte))
    };
    let mut expected = Vec::new();
    for backwards in [false, true] {
        for width in [1_usize, 2, 4] {
            for index in 0..5 {
                let start = if backwards {
                    32 - width * index
                } else {
                    32 + width * index
                };
                expected.push(VmExit::PioOut {
                    port: PORT,
                    len: u8::try_from(width).unwrap(),
                    data: element(start, width),
                });
            }
        }
    }
    expected.push(VmExit::PioOut {
        port: PORT,
        len: 1,
        data: 32,
    });
    for (len, times) in [(1, 5), (2, 5), (4, 5), (4, 5), (2, 1)] {
        expected.extend(std::iter::repeat_n(
            VmExit::PioIn { port: PORT, len },
            times,
        ));
    }
    assert_eq!(exits, expected, "and none for a count of 0");
    let forwards = |width| (0, middle + width * COUNT);
    let backwards = |width: u64| (0, middle - width * COUNT);
    let passes = [
        forwards(1),
        forwards(2),
        forwards(4),
        backwards(1),
        backwards(2),
        backwards(4),
        (COUNT, middle + 1),
        forwards(1),
        forwards(2),
        forwards(4),
        backwards(4),
        (COUNT, middle + 2),
    ];
    for (index, expected) in passes.into_iter().enumerate() {
        assert_eq!(pass(&vm, index as u64), expected, "pass {index}");
    }
    // Each place holds the last value that was written to it.
    assert_eq!(word(&vm, middle) & 0xffff_ffff, 0x1111_1125);
    assert_eq!(word(&vm, middle - 16) & 0xffff_ffff, 0x1111_1124);
    assert_eq!(word(&vm, middle + 16) & 0xffff_ffff, 0x1111_111f);
}

fn string_output_rings_for_each_element<H: Hypervisor>(h: &H) {
    let vm = plain(h);
    let event = event();
    let place = IoEventAddress::Pio(0x3f8);
    let _doorbells = [Datamatch::U16(None), Datamatch::U8(Some(3))].map(|datamatch| {
        vm.register_ioevent(&event, place, datamatch, Sharing::Exclusive)
            .unwrap()
    });
    let bytes: Vec<u8> = (0..=255).collect();
    vm.memory().write_slice(&bytes, GuestAddress(AREA)).unwrap();
    let parameters = Parameters {
        count: 8,
        address: 0x3f8,
        value: AREA,
        pause: 0,
    };
    let mut vcpu = start(&vm, programs::strings(), parameters, 0);
    let exits = run(&mut vcpu);
    let bytes_out = exits
        .iter()
        .filter(|exit| matches!(exit, VmExit::PioOut { len: 1, .. }))
        .count();
    let words_out = exits
        .iter()
        .filter(|exit| matches!(exit, VmExit::PioOut { len: 2, .. }))
        .count();
    // Eight bytes forwards, one of which is 3 and rings; eight backwards from 0, into other memory; and one single
    // write.
    assert_eq!((bytes_out, words_out), (7 + 8 + 1, 0));
    assert_eq!(count(&event), 8 + 8 + 1);
}

/// When a second doorbell joins the group, the backend may have to replace the kernel's registration.
fn no_element_of_a_string_leaves_the_guest_while_a_group_grows<H: Hypervisor>(h: &H) {
    const COUNT: u64 = 200;
    let vm = plain(h);
    let place = IoEventAddress::Pio(0x3f8);
    let widths = [
        Datamatch::U8(None),
        Datamatch::U16(None),
        Datamatch::U32(None),
    ];
    let join = |event: &Arc<EventFd>, datamatch| {
        vm.register_ioevent(event, place, datamatch, Sharing::Group)
            .unwrap()
    };
    let first = event();
    let _first = widths.map(|datamatch| join(&first, datamatch));
    let parameters = Parameters {
        count: COUNT,
        address: 0x3f8,
        value: AREA + 4 * COUNT,
        pause: 0,
    };
    let mut vcpu = start(&vm, programs::strings(), parameters, 0);
    let (rounds, done) = (AtomicU64::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let guest = scope.spawn(|| {
            while !done.load(Relaxed) {
                let exits = run(&mut vcpu);
                let is_output = |exit: &&VmExit| matches!(exit, VmExit::PioOut { .. });
                assert_eq!(exits.iter().find(is_output), None);
                rounds.fetch_add(1, Relaxed);
            }
        });
        await_that("the first round", || rounds.load(Relaxed) > 0);
        for datamatch in widths.into_iter().cycle().take(100) {
            join(&event(), datamatch).remove().unwrap();
            if guest.is_finished() {
                break;
            }
        }
        done.store(true, Relaxed);
        guest.join().unwrap();
    });
    // Three widths in each direction, and one single element.
    let expected = (6 * COUNT + 1) * rounds.load(Relaxed);
    let mut rung = 0;
    await_that("a ring for each element", || {
        rung += count(&first);
        assert!(rung <= expected, "{rung} of {expected}");
        rung == expected
    });
}

testbed::on_both! {
    no_element_of_a_string_leaves_the_guest_while_a_group_grows;
    every_form_of_output_and_input_leaves_with_its_data;
    string_instructions_move_their_buffer;
    string_output_rings_for_each_element;
}
