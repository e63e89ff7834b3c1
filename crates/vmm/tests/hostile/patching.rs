//! Guests that do not leave patched code alone.

use vmbell::doorbell::{Datamatch, IoEventAddress, Sharing};
use vmbell_guest::{PARAMETERS, Parameters, Results};
use vmbell_hypervisor::{Hypervisor, PatchMode, VmConfig};

use crate::harness::{configured, count, event, programs, run, start};

fn a_branch_into_a_patched_jump_lands_where_it_meant_to<H: Hypervisor>(h: &H) {
    for patch in [PatchMode::Jmp, PatchMode::Int3, PatchMode::Off] {
        for (rounds, light) in [(17, true), (40, true), (400, true), (400, false)] {
            let vm = configured(
                h,
                VmConfig {
                    patch,
                    ..VmConfig::default()
                },
            );
            let event = event();
            let _doorbell = light.then(|| {
                vm.register_ioevent(
                    &event,
                    IoEventAddress::Pio(0x500),
                    Datamatch::U32(None),
                    Sharing::Exclusive,
                )
                .unwrap()
            });
            let parameters = Parameters {
                count: rounds,
                address: 0x500,
                value: 3,
                pause: 0,
            };
            let mut vcpu = start(&vm, programs::interior(), parameters, 0);
            let exits = run(&mut vcpu);
            let expected = if light { (0, rounds) } else { (rounds, 0) };
            assert_eq!(
                (exits.len() as u64, count(&event)),
                expected,
                "{patch:?}, {rounds} rounds"
            );
            assert_eq!(
                Results::read(vm.memory(), PARAMETERS).unwrap().rings,
                2 * rounds,
                "{patch:?}, {rounds} rounds"
            );
        }
    }
}

fn a_guest_may_write_over_a_patched_site<H: Hypervisor>(h: &H) {
    for patch in [PatchMode::Off, PatchMode::Int3, PatchMode::Jmp] {
        let vm = configured(
            h,
            VmConfig {
                patch,
                ..VmConfig::default()
            },
        );
        let event = event();
        let _doorbell = vm
            .register_ioevent(
                &event,
                IoEventAddress::Pio(0x42),
                Datamatch::AnyLength,
                Sharing::Exclusive,
            )
            .unwrap();
        let mut vcpu = start(&vm, programs::rewrite(), Parameters::default(), 0);
        assert_eq!(run(&mut vcpu), [], "{patch:?}");
        assert_eq!(count(&event), 40, "{patch:?}");
    }
}

crate::on_usermode! {
    a_branch_into_a_patched_jump_lands_where_it_meant_to;
    a_guest_may_write_over_a_patched_site;
}
