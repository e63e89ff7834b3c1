//! Doorbells with a payload: a backend that can store the written value provides it without an exit, and a backend that
//! cannot refuses the doorbell by name.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;

use testbed::done as is_done;
use vmbell::doorbell::{Datamatch, DoorbellError, IoEventAddress, Sharing};
use vmbell_guest::{Parameters, programs};
use vmbell_hypervisor::{Capability, Error, Hypervisor, PatchMode, VmConfig, VmEntry};

use testbed::script::{Op, Player};
use testbed::{HOLE, bells, configured, count, event, plain, start};

const PLACE: IoEventAddress = IoEventAddress::Mmio(HOLE);

fn has_payloads<H: Hypervisor>(h: &H) -> bool {
    h.support(Capability::PayloadDoorbell).is_yes()
}

fn the_value_that_rings_is_stored_or_the_doorbell_is_refused_by_name<H: Hypervisor>(h: &H) {
    let vm = plain(h);
    let event = event();
    if !has_payloads(h) {
        let error = vm.register_payload(&event, PLACE, 4).unwrap_err();
        let capability = Capability::PayloadDoorbell;
        assert!(
            matches!(&error, Error::Unsupported { capability: other, .. } if *other == capability),
            "{error}"
        );
        return;
    }
    let mut player = Player::new(&vm);
    for (len, low) in [(1, 0xff), (2, 0xffff), (4, 0xffff_ffff), (8, u64::MAX)] {
        let doorbell = vm.register_payload(&event, PLACE, len).unwrap();
        assert_eq!(doorbell.payload(), Some(0), "before the first write");
        for value in [0x8123_4567_89ab_cdef, 0x70f1_e2d3_c4b5_a697] {
            assert_eq!(player.play(&[Op::Store(len, HOLE, value)]), []);
            assert_eq!(doorbell.payload(), Some(value & low), "{len} bytes");
        }
        assert_eq!(count(&event), 2);
        let other = if len == 4 { 2 } else { 4 };
        assert_eq!(player.play(&[Op::Store(other, HOLE, 1)]).len(), 1);
        assert_eq!(count(&event), 0, "another width is an exit");
    }
}

fn a_payload_doorbell_rings_by_every_way_that_a_doorbell_does<H: Hypervisor>(h: &H) {
    if !has_payloads(h) {
        return;
    }
    let vm = plain(h);
    let event = event();
    let bell = vm.register_payload(&event, bells::place(0x700), 4).unwrap();
    let mut player = Player::new(&vm);
    assert_eq!(player.play(&[Op::Out(4, 0x700, 0x1234_5678)]), []);
    assert_eq!((bell.payload(), count(&event)), (Some(0x1234_5678), 1));
    if h.support(Capability::HypercallDoorbell).is_yes() {
        let call = IoEventAddress::Hypercall(3);
        let bell = vm.register_payload(&event, call, 8).unwrap();
        assert_eq!(player.play(&[Op::Call(3, u64::MAX - 1)]), []);
        assert_eq!((bell.payload(), count(&event)), (Some(u64::MAX - 1), 1));
    }
}

/// A patched instruction calls the stub directly; each value after the first trap comes that way.
fn a_patched_port_write_stores_its_value<H: Hypervisor>(h: &H) {
    let config = VmConfig {
        patch: PatchMode::Jmp,
        ..VmConfig::default()
    };
    let vm = configured(h, config);
    let event = event();
    let bell = vm.register_payload(&event, bells::place(0x700), 4).unwrap();
    let parameters = Parameters {
        count: 500,
        address: 0x700,
        value: 77,
        ..Parameters::default()
    };
    let mut vcpu = start(&vm, programs::portio(), parameters, 0);
    assert!(is_done(&vcpu.run(VmEntry::Resume).unwrap()).is_some());
    assert_eq!((bell.payload(), count(&event)), (Some(77), 500));
}

fn a_payload_stays_after_its_doorbell_was_removed<H: Hypervisor>(h: &H) {
    if !has_payloads(h) {
        return;
    }
    let vm = plain(h);
    let (event, place) = (event(), bells::place(0x700));
    let mut player = Player::new(&vm);
    let mut first = vm.register_payload(&event, place, 4).unwrap();
    assert_eq!(player.play(&[Op::Out(4, 0x700, 1)]), []);
    first.remove().unwrap();
    assert_eq!(player.play(&[Op::Out(4, 0x700, 2)]).len(), 1);
    let second = vm.register_payload(&event, place, 4).unwrap();
    assert_eq!(player.play(&[Op::Out(4, 0x700, 3)]), []);
    assert_eq!((first.payload(), second.payload()), (Some(1), Some(3)));
    drop(first);
    let third = vm.register_payload(&event, PLACE, 4).unwrap();
    assert_eq!(player.play(&[Op::Out(4, 0x700, 4)]), []);
    assert_eq!((second.payload(), third.payload()), (Some(4), Some(0)));
}

fn a_payload_doorbell_is_alone_at_its_address<H: Hypervisor>(h: &H) {
    if !has_payloads(h) {
        return;
    }
    let vm = plain(h);
    let (first, second) = (event(), event());
    let exists = |error: Error| matches!(error, Error::Doorbell(DoorbellError::Exists { .. }));
    let _bell = vm.register_payload(&first, PLACE, 4).unwrap();
    assert!(exists(vm.register_payload(&second, PLACE, 4).unwrap_err()));
    for sharing in [Sharing::Exclusive, Sharing::Group] {
        let value = Datamatch::U32(Some(1));
        let error = vm.register_ioevent(&second, PLACE, value, sharing);
        assert!(exists(error.unwrap_err()), "{sharing:?}");
    }
    for len in [0, 3, 16] {
        let error = vm.register_payload(&second, PLACE, len).unwrap_err();
        assert!(error.to_string().contains(&format!("not {len}")), "{error}");
    }
}

/// Each vCPU writes its own number over and over: no reader may see anything else, nor a number without a signal.
fn a_reader_sees_values_that_were_written_and_none_after_the_removal<H: Hypervisor>(h: &H) {
    if !has_payloads(h) {
        return;
    }
    let config = VmConfig {
        vcpus: 2,
        ..VmConfig::default()
    };
    let vm = configured(h, config);
    let (event, place) = (event(), bells::place(0x700));
    let stop = AtomicBool::new(false);
    let mut players = [Player::new(&vm), Player::another(&vm, 1)];
    thread::scope(|scope| {
        for (player, number) in players.iter_mut().zip([0x1111_1111, 0x2222_2222]) {
            let stop = &stop;
            scope.spawn(move || {
                while !stop.load(Relaxed) {
                    player.play(&[Op::Out(4, 0x700, number); 8]);
                }
            });
        }
        for _ in 0..20 {
            let mut bell = vm.register_payload(&event, place, 4).unwrap();
            while count(&event) == 0 {
                thread::yield_now();
            }
            let value = bell.payload();
            assert!(
                [Some(0x1111_1111), Some(0x2222_2222)].contains(&value),
                "{value:x?}"
            );
            bell.remove().unwrap();
            let last = bell.payload();
            count(&event);
            thread::yield_now();
            assert_eq!((bell.payload(), count(&event)), (last, 0));
        }
        stop.store(true, Relaxed);
    });
}

testbed::on_both! {
    the_value_that_rings_is_stored_or_the_doorbell_is_refused_by_name;
    a_payload_doorbell_rings_by_every_way_that_a_doorbell_does;
    a_payload_stays_after_its_doorbell_was_removed;
    a_payload_doorbell_is_alone_at_its_address;
    a_reader_sees_values_that_were_written_and_none_after_the_removal;
}

/// A path that only the usermode backend has.
mod engine {
    use super::a_patched_port_write_stores_its_value;

    testbed::on_usermode! {
        a_patched_port_write_stores_its_value;
    }
}
