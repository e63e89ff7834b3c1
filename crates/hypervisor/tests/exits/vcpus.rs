//! Several vCPUs at once.

use vm_memory::{Bytes, GuestAddress};
use vmbell::doorbell::{Datamatch, IoEventAddress, Sharing};
use vmbell_guest::{CODE, Parameters, Program, programs};
use vmbell_hypervisor::{Hypervisor, PatchMode, SpinPolicy, VmConfig, VmExit};

use testbed::programs::interior;
use testbed::{
    AREA, HOLE, begin_at, bells, configured, count, event, has_doorbells_at, rounds, run,
};

fn together<H: Hypervisor>(
    h: &H,
    config: VmConfig,
    program: Program,
    place: IoEventAddress,
    light: bool,
) {
    let rings = rounds(1_500);
    let vcpus = config.vcpus;
    let what = format!("{} {config:?}", program.name);
    let vm = configured(h, config);
    let event = event();
    let datamatch = match place {
        IoEventAddress::Hypercall(_) => Datamatch::U64(None),
        _ => Datamatch::U32(None),
    };
    let _doorbell = light.then(|| {
        vm.register_ioevent(&event, place, datamatch, Sharing::Exclusive)
            .unwrap()
    });
    vm.memory().write_slice(program.code, CODE).unwrap();
    let mut runners: Vec<_> = (0..vcpus)
        .map(|index| {
            let page = GuestAddress(AREA + 0x1000 * u64::from(index));
            let parameters = Parameters {
                count: rings,
                address: place.value(),
                value: 100 + u64::from(index),
                pause: 0,
            };
            parameters.write(vm.memory(), page).unwrap();
            begin_at(&vm, index, page)
        })
        .collect();
    let exits: Vec<Vec<VmExit>> = std::thread::scope(|scope| {
        let threads: Vec<_> = runners
            .iter_mut()
            .map(|vcpu| scope.spawn(|| run(vcpu)))
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .collect()
    });
    for (index, exits) in exits.iter().enumerate() {
        assert_eq!(
            exits.len() as u64,
            if light { 0 } else { rings },
            "{what}, vcpu {index}"
        );
        let value = 100 + index as u64;
        let own = |exit: &VmExit| match *exit {
            VmExit::PioOut { data, .. } => u64::from(data) == value,
            VmExit::MmioWrite { data, .. } => data == value,
            VmExit::Hypercall { argument, .. } => argument == value,
            _ => false,
        };
        assert!(
            exits.iter().all(own),
            "{what}: vcpu {index} had another's exit"
        );
    }
    assert_eq!(
        count(&event),
        if light { rings * u64::from(vcpus) } else { 0 },
        "{what}"
    );
}

/// Tests the two ways that every backend has.
fn together_by_port_and_memory<H: Hypervisor>(h: &H, config: &VmConfig, light: bool) {
    let ways = [
        (bells::program(), bells::place(0x500)),
        (programs::mmio(), IoEventAddress::Mmio(HOLE)),
    ];
    for (program, place) in ways {
        together(h, config.clone(), program, place, light);
    }
}

fn vcpus_ring_together<H: Hypervisor>(h: &H) {
    for vcpus in [2, 4] {
        let config = VmConfig {
            vcpus,
            ..VmConfig::default()
        };
        together_by_port_and_memory(h, &config, true);
        let call = IoEventAddress::Hypercall(5);
        if has_doorbells_at(h, call) {
            together(h, config, programs::hypercall(), call, true);
        }
    }
}

fn vcpus_leave_together<H: Hypervisor>(h: &H) {
    for spin in [SpinPolicy::Sleep, SpinPolicy::OneCpu, SpinPolicy::Adaptive] {
        let config = VmConfig {
            vcpus: 3,
            spin,
            ..VmConfig::default()
        };
        together_by_port_and_memory(h, &config, false);
        together(
            h,
            config,
            programs::hypercall(),
            IoEventAddress::Hypercall(5),
            false,
        );
    }
}

/// All vCPUs run the same code, so all execute the instruction while one of them has it patched.
fn a_site_is_patched_under_other_vcpus<H: Hypervisor>(h: &H) {
    for patch in [PatchMode::Int3, PatchMode::Jmp] {
        for _ in 0..25 {
            let config = VmConfig {
                vcpus: 4,
                patch,
                ..VmConfig::default()
            };
            together_by_port_and_memory(h, &config, true);
        }
    }
}

/// All vCPUs branch into the jump that one of them has caused to be written, until it is removed while they run.
fn a_jump_is_branched_into_by_other_vcpus<H: Hypervisor>(h: &H) {
    for light in [true, false] {
        for _ in 0..10 {
            let config = VmConfig {
                vcpus: 4,
                patch: PatchMode::Jmp,
                ..VmConfig::default()
            };
            let place = IoEventAddress::Pio(0x500);
            together(h, config, interior(), place, light);
        }
    }
}

testbed::on_both! {
    vcpus_ring_together;
    vcpus_leave_together;
}

mod engine {
    use super::{a_jump_is_branched_into_by_other_vcpus, a_site_is_patched_under_other_vcpus};

    testbed::on_usermode! {
        a_site_is_patched_under_other_vcpus;
        a_jump_is_branched_into_by_other_vcpus;
    }
}
