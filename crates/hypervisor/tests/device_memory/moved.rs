//! Device memory that is mapped and unmapped while the guest exists.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use vmbell_hypervisor::{
    Capability, DeviceMemoryRule as Rule, Error, Hypervisor, VmConfig, VmEntry, VmExit,
};

use crate::device_memory::reached::{get, put};
use crate::device_memory::{SIZE, memory, with_memory};
use testbed::script::{Op, Player};
use testbed::{HOLE, chain, configured, plain, step};

fn memory_is_there_from_its_mapping_to_its_unmapping<H: Hypervisor>(h: &H) {
    let memories = [memory(true), memory(false)];
    let vm = plain(h);
    let mut player = Player::new(&vm);
    let load = VmExit::MmioRead {
        address: HOLE,
        len: 8,
    };
    for round in 0..100 {
        let memory = &memories[usize::from(round % 2 == 1)];
        put(memory, 0, round);
        vm.map_device_memory(HOLE, memory).unwrap();
        assert_eq!(player.play(&[Op::Load(8, HOLE)]), [], "round {round}");
        assert_eq!(player.result(0), round);
        vm.unmap_device_memory(HOLE).unwrap();
        let exits = player.play_with(&[Op::Load(8, HOLE)], |_| VmEntry::Data(1000));
        assert_eq!(exits, std::slice::from_ref(&load), "round {round}");
        assert_eq!(player.result(0), 1000);
    }
}

/// KVM has a limited number of slots, so the slots of unmapped memory have to be used again.
fn slots_are_used_again<H: Hypervisor>(h: &H) {
    let memory = memory(true);
    let vm = plain(h);
    let mut player = Player::new(&vm);
    for round in 0..100 {
        for place in 0..8 {
            vm.map_device_memory(HOLE + 0x10_0000 * place, &memory)
                .unwrap();
        }
        // The order differs from that of mapping.
        for place in [3, 7, 0, 1, 6, 2, 5, 4] {
            vm.unmap_device_memory(HOLE + 0x10_0000 * place).unwrap();
        }
        if round % 25 == 0 {
            vm.map_device_memory(HOLE, &memory).unwrap();
            assert_eq!(player.play(&[Op::Store(8, HOLE + 8, round)]), []);
            assert_eq!(get(&memory, 8), round);
            vm.unmap_device_memory(HOLE).unwrap();
        }
    }
    // Unmapping is not an error if nothing is mapped there.
    vm.unmap_device_memory(HOLE).unwrap();
}

fn nothing_of_it_stays_in_this_process<H: Hypervisor>(h: &H) {
    let named = || {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        maps.matches("memfd:unmapped").count()
    };
    let file = rustix::fs::memfd_create("unmapped", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
    let mut memory = memory(true);
    memory.file = std::sync::Arc::new(file.into());
    memory.file.set_len(memory.offset + SIZE).unwrap();
    let vm = plain(h);
    for _ in 0..20 {
        vm.map_device_memory(HOLE, &memory).unwrap();
        assert_eq!(named(), 1);
        vm.unmap_device_memory(HOLE).unwrap();
        assert_eq!(named(), 0);
    }
    vm.map_device_memory(HOLE, &memory).unwrap();
    drop(vm);
    assert_eq!(named(), 0, "after the guest's end");
}

fn what_is_there_already_stays_there<H: Hypervisor>(h: &H) {
    let (first, other) = (memory(true), memory(true));
    put(&first, 0, 1);
    put(&other, 0, 2);
    let vm = configured(h, with_memory(&[(HOLE, &first)]));
    let ram = VmConfig::default().ram_base;
    for address in [HOLE, HOLE + 0x1000, HOLE - 0x1000, ram] {
        match vm.map_device_memory(address, &other) {
            Err(Error::DeviceMemory {
                rule: Rule::Overlap { .. },
                ..
            }) => {}
            result => panic!("{address:#x}: {result:?}"),
        }
    }
    let mut player = Player::new(&vm);
    assert_eq!(player.play(&[Op::Load(8, HOLE)]), []);
    assert_eq!(player.result(0), 1);
    // Memory that the guest was created with can also be unmapped.
    vm.unmap_device_memory(HOLE).unwrap();
    vm.map_device_memory(HOLE, &other).unwrap();
    assert_eq!(player.play(&[Op::Load(8, HOLE)]), []);
    assert_eq!(player.result(0), 2);
}

fn a_vcpu_that_stores_meanwhile_stores_or_leaves<H: Hypervisor>(h: &H) {
    let memory = memory(true);
    let vm = plain(h);
    let mut player = Player::new(&vm);
    let ops: Vec<_> = (0..50).map(|value| Op::Store(8, HOLE, value)).collect();
    let end = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..200 {
                vm.map_device_memory(HOLE, &memory).unwrap();
                vm.unmap_device_memory(HOLE).unwrap();
            }
            end.store(true, Relaxed);
        });
        while !end.load(Relaxed) {
            for exit in player.play(&ops) {
                assert!(
                    matches!(exit, VmExit::MmioWrite { address: HOLE, .. }),
                    "{exit:?}"
                );
            }
        }
    });
    // Once it is unmapped, no store reaches it.
    put(&memory, 0, 99);
    assert_eq!(player.play(&ops).len(), ops.len());
    assert_eq!(get(&memory, 0), 99);
}

fn backend_that_cannot_move_it_says_so<H: Hypervisor>(h: &H) {
    let capability = Capability::MovableDeviceMemory;
    let reason = chain(&h.require(capability).unwrap_err());
    let vm = plain(h);
    for result in [
        vm.map_device_memory(HOLE, &memory(true)),
        vm.unmap_device_memory(HOLE),
    ] {
        let error = result.unwrap_err();
        assert!(
            matches!(error, Error::Unsupported { capability: which, .. } if which == capability),
            "{error:?}"
        );
        assert_eq!(chain(&error), reason);
    }
    // The guest continues without the device memory.
    let mut player = Player::new(&vm);
    player.write(&[Op::Load(4, HOLE)]);
    assert!(step(&mut player.vcpu, VmEntry::Resume).is_ok());
    assert!(!player.vcpu.is_kicked());
}

testbed::on_kvm! {
    memory_is_there_from_its_mapping_to_its_unmapping;
    slots_are_used_again;
    nothing_of_it_stays_in_this_process;
    what_is_there_already_stays_there;
    a_vcpu_that_stores_meanwhile_stores_or_leaves;
}

testbed::on_usermode! {
    backend_that_cannot_move_it_says_so;
}
