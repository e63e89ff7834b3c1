//! vCPUs that wait until another vCPU switches them on, by PSCI (Arm DEN 0022, 5.6).

use std::sync::Arc;
use std::time::Duration;

use vm_memory::{Bytes, GuestAddress};
use vmbell_hypervisor::{EntryPoint, Error, Hypervisor, Vm, VmConfig, VmEntry, VmExit};

use crate::arm64::accesses::{Op, Player};
use testbed::{AREA, HOLE, chain, configured, plain};

/// Where the second vCPU begins: `str w0, [x0]; 1: wfi; b 1b`.
const PLACE: u64 = AREA + 0x1000;
const CODE: [u32; 3] = [0xb900_0000, 0xd503_207f, 0x17ff_ffff];

/// What CPU_ON returns.
const SUCCESS: u64 = 0;
const INVALID_PARAMETERS: u64 = (-2_i64).cast_unsigned();
const ALREADY_ON: u64 = (-4_i64).cast_unsigned();

fn two<H: Hypervisor>(h: &H) -> Arc<dyn Vm> {
    let vm = configured(
        h,
        VmConfig {
            vcpus: 2,
            ..VmConfig::default()
        },
    );
    let code: Vec<u8> = CODE.iter().flat_map(|word| word.to_le_bytes()).collect();
    vm.memory().write_slice(&code, GuestAddress(PLACE)).unwrap();
    vm
}

fn vcpu_waits_until_another_switches_it_on<H: Hypervisor>(h: &H) {
    let vm = two(h);
    let mut second = vm.create_vcpu(1).unwrap();
    let kick = second.kick_handle();
    // The vCPU is still switched off, but a kick makes `run` return. The next `run` waits again.
    for _ in 0..2 {
        second.set_entry_point(EntryPoint::Secondary).unwrap();
        kick.kick();
        assert_eq!(second.run(VmEntry::Resume).unwrap(), VmExit::Kicked);
    }
    std::thread::scope(|scope| {
        let second = scope.spawn(move || {
            let begun = second.run(VmEntry::Resume).unwrap();
            kick.kick();
            (begun, second.run(VmEntry::Resume).unwrap())
        });
        std::thread::sleep(Duration::from_millis(50));
        assert!(!second.is_finished());
        let mut player = Player::new(&vm);
        player.play(&[
            Op::CpuOn(1, PLACE, HOLE),
            Op::CpuOn(1, PLACE, HOLE),
            Op::CpuOn(2, PLACE, HOLE),
        ]);
        let results = [0, 1, 2].map(|index| player.result(index));
        assert_eq!(results, [SUCCESS, ALREADY_ON, INVALID_PARAMETERS]);
        let (begun, kicked) = second.join().unwrap();
        let is_its_store = matches!(begun, VmExit::MmioWrite { address: HOLE, .. });
        assert!(is_its_store, "{begun:?}");
        assert_eq!(kicked, VmExit::Kicked);
    });
}

fn first_vcpu_cannot_wait_for_another<H: Hypervisor>(h: &H) {
    let vm = plain(h);
    let mut vcpu = vm.create_vcpu(0).unwrap();
    let error = vcpu.set_entry_point(EntryPoint::Secondary).unwrap_err();
    assert!(matches!(error, Error::Entry { .. }), "{}", chain(&error));
}

testbed::on_kvm! {
    vcpu_waits_until_another_switches_it_on;
    first_vcpu_cannot_wait_for_another;
}
