//! Guests that modify patched code.

use vm_memory::Bytes;
use vmbell::doorbell::{Datamatch, IoEventAddress, Sharing};
use vmbell_guest::{CODE, PARAMETERS, Parameters, Results};
use vmbell_hypervisor::{Hypervisor, PatchMode, VmConfig, VmEntry, VmExit};

use testbed::programs::OUTPUTS;
use testbed::{begin_at, configured, count, event, programs, run, start, step};

pub fn a_branch_into_a_patched_jump_lands_where_it_meant_to<H: Hypervisor>(h: &H) {
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

pub fn a_guest_may_write_over_a_patched_site<H: Hypervisor>(h: &H) {
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

/// The addresses of `out` and `dec`; a jump that replaces the `out` covers both.
const OUT: u64 = CODE.0 + 5;
const DEC: u64 = CODE.0 + 7;
/// Writes `lgdt` over the `out`, and executes it.
const LGDT: [u8; 12] = [
    0xc7, 0x05, 0xf0, 0xff, 0xff, 0xff, 0x0f, 0x01, 0x10, 0x90, // mov dword ptr [out], ...
    0xeb, 0xee, // jmp
];
/// Writes `ud2` over the `dec`, and executes it.
const UD2: [u8; 11] = [
    0x66, 0xc7, 0x05, 0xf3, 0xff, 0xff, 0xff, 0x0f, 0x0b, // mov word ptr [dec], ...
    0xeb, 0xf1, // jmp
];

pub fn code_over_a_patched_site_is_the_guests_own<H: Hypervisor>(h: &H) {
    let replaced: [(&[u8], u64, &[u8]); 2] = [(&LGDT, OUT, &LGDT[6..9]), (&UD2, DEC, &UD2[7..9])];
    for patch in [PatchMode::Off, PatchMode::Int3, PatchMode::Jmp] {
        for (replace, place, bytes) in replaced {
            let vm = configured(
                h,
                VmConfig {
                    patch,
                    ..VmConfig::default()
                },
            );
            let event = event();
            let (address, any) = (IoEventAddress::Pio(0x42), Datamatch::AnyLength);
            let _doorbell = vm
                .register_ioevent(&event, address, any, Sharing::Exclusive)
                .unwrap();
            let code = [&OUTPUTS, replace].concat();
            vm.memory().write_slice(&code, CODE).unwrap();
            let mut vcpu = begin_at(&vm, 0, PARAMETERS);
            match step(&mut vcpu, VmEntry::Resume) {
                Ok(VmExit::Fault(fault)) => {
                    assert_eq!(fault.pc, Some(place), "{patch:?}: {fault}");
                    assert!(fault.bytes.starts_with(bytes), "{patch:?}: {fault}");
                }
                other => panic!("{patch:?}: {other:?}"),
            }
            assert_eq!(count(&event), 40, "{patch:?}");
        }
    }
}
