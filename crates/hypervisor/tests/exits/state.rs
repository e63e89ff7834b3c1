//! An exit preserves every register, whatever its value.
#![allow(unsafe_code)]

use std::arch::x86_64::{__cpuid_count, _xgetbv};

use vm_memory::{Bytes, GuestAddress};
use vmbell::doorbell::{Datamatch, IoEventAddress, Sharing};
use vmbell_guest::Parameters;
use vmbell_hypervisor::{Hypervisor, PatchMode, SpinPolicy, VmConfig, VmEntry, VmExit};

use testbed::{
    AREA, HOLE, configured, count, event, has_doorbells_at, programs, run_to_done, start,
};

const PORT: u16 = 0x1230;
const STACK: u64 = AREA + 0x1_8000;
const LOADED: u64 = AREA + 0x1000;
const SAVED: u64 = AREA + 0x4000;
const STATE_SIZE: usize = 0x1000;
const RED_ZONE: u64 = 128;

const CARRY_TO_OVERFLOW: u64 = 0x8d5;
const DIRECTION: u64 = 1 << 10;
const NESTED_TASK: u64 = 1 << 14;
const ALIGNMENT_CHECK: u64 = 1 << 18;
const IDENTIFICATION: u64 = 1 << 21;

/// The ways in which `state.S` exits.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Way {
    Out,
    Store,
    Load,
    In,
    Call,
    Halt,
}

const WAYS: [Way; 6] = [
    Way::Out,
    Way::Store,
    Way::Load,
    Way::In,
    Way::Call,
    Way::Halt,
];

/// The components of the extended state that the host has enabled: x87, SSE, AVX, AVX-512.
#[target_feature(enable = "xsave")]
fn components() -> u64 {
    // SAFETY: the caller has checked that the CPU has the feature.
    unsafe { _xgetbv(0) & 0xe7 }
}

/// Makes a state in the standard format of XSAVE, with a different value in each register.
fn extended_state(mask: u64) -> Vec<u8> {
    let mut state: Vec<u8> = (0..STATE_SIZE)
        .map(|place| u8::try_from(place * 37 % 251).unwrap() | 1)
        .collect();
    // Round up and single precision, so that a reset would be noticed; no exception unmasked.
    state[0..2].copy_from_slice(&0x0a7f_u16.to_le_bytes());
    state[2..4].copy_from_slice(&0x2800_u16.to_le_bytes());
    // All registers are in use.
    state[4] = 0xff;
    state[5..24].fill(0);
    state[24..28].copy_from_slice(&0x7fa0_u32.to_le_bytes());
    for register in 0..8 {
        // The upper six bytes of the place of each x87 register are reserved.
        state[32 + 16 * register + 10..48 + 16 * register].fill(0);
    }
    state[416..576].fill(0);
    state[512..520].copy_from_slice(&mask.to_le_bytes());
    state
}

/// Returns the offsets and sizes of what XSAVE writes for these components.
fn parts(mask: u64) -> Vec<(usize, usize)> {
    // Without the mask of MXCSR at 28, which depends on the processor.
    let mut parts = vec![(0, 28), (32, 416)];
    for component in (2..64).filter(|component| mask >> component & 1 == 1) {
        let leaf = __cpuid_count(0xd, component);
        parts.push((leaf.ebx as usize, (leaf.ebx + leaf.eax) as usize));
    }
    parts
}

fn check<H: Hypervisor>(h: &H, config: &VmConfig, way: Way, light: bool, flags: u64, mask: u64) {
    let what = format!(
        "{way:?}, light {light}, flags {flags:#x}, {:?}, {:?}",
        config.patch, config.spin
    );
    let vm = configured(h, config.clone());
    let event = event();
    let _doorbell = light.then(|| {
        let (place, datamatch) = match way {
            Way::Store => (IoEventAddress::Mmio(HOLE), Datamatch::U32(None)),
            Way::Call => (IoEventAddress::Hypercall(HOLE), Datamatch::U64(None)),
            _ => (IoEventAddress::Pio(PORT), Datamatch::U32(None)),
        };
        vm.register_ioevent(&event, place, datamatch, Sharing::Exclusive)
            .unwrap()
    });
    let memory = vm.memory();
    let mut registers: [u64; 16] =
        std::array::from_fn(|index| 0x0101_0101_0101_0101 * (index as u64 + 0x81));
    registers[1] = HOLE;
    registers[2] = 0xffff_0000 | u64::from(PORT);
    registers[4] = STACK;
    registers[7] = HOLE;
    for (index, value) in registers.into_iter().enumerate() {
        memory
            .write_obj(value, GuestAddress(AREA + 8 * index as u64))
            .unwrap();
    }
    memory
        .write_obj(flags | 0x202, GuestAddress(AREA + 0x80))
        .unwrap();
    let state = extended_state(mask);
    memory.write_slice(&state, GuestAddress(LOADED)).unwrap();
    let red_zone: Vec<u8> = (0..128).map(|byte| byte ^ 0x5a).collect();
    let parameters = Parameters {
        count: way as u64,
        value: mask,
        ..Parameters::default()
    };
    let mut vcpu = start(&vm, programs::state(), parameters, 0);
    // Enough rounds that the instruction is patched.
    let rounds = if config.patch == PatchMode::Off {
        3
    } else {
        24
    };
    for round in 0..rounds {
        memory
            .write_slice(&red_zone, GuestAddress(STACK - RED_ZONE))
            .unwrap();
        memory
            .write_slice(&[0; STATE_SIZE], GuestAddress(SAVED))
            .unwrap();
        let exits = run_to_done(&mut vcpu, |_| VmEntry::Data(0x8765_43a1));
        let left = exits
            .iter()
            .filter(|exit| !matches!(exit, VmExit::Kicked))
            .count();
        assert_eq!(
            left,
            usize::from(!light),
            "{what}, round {round}: {exits:x?}"
        );
        let saved: Vec<u64> = (0..17)
            .map(|index| {
                memory
                    .read_obj(GuestAddress(AREA + 0x100 + 8 * index))
                    .unwrap()
            })
            .collect();
        let mut expected = registers.to_vec();
        match way {
            Way::Load => expected[3] = 0xffff_ffa1,
            Way::In => expected[0] = 0x8765_43a1,
            Way::Call => expected[0] = if light { 0 } else { 0x8765_43a1 },
            _ => {}
        }
        if way == Way::Call {
            // These registers are lost, as after any call.
            for lost in [1, 2, 6, 7, 8, 9, 10, 11] {
                expected[lost] = saved[lost];
            }
        } else {
            assert_eq!(
                saved[16] & !2,
                (flags | 0x202) & !2,
                "{what}, round {round}: flags"
            );
            let mut after = vec![0; 128];
            memory
                .read_slice(&mut after, GuestAddress(STACK - RED_ZONE))
                .unwrap();
            assert_eq!(after, red_zone, "{what}, round {round}: red zone");
        }
        for register in 0..16 {
            let (is, was) = (saved[register], expected[register]);
            assert_eq!(
                is, was,
                "{what}, round {round}: register {register} is {is:#x}, was {was:#x}"
            );
        }
        let mut after = vec![0; STATE_SIZE];
        memory.read_slice(&mut after, GuestAddress(SAVED)).unwrap();
        for (start, end) in parts(mask) {
            let changed = (start..end).find(|place| after[*place] != state[*place]);
            assert_eq!(
                changed, None,
                "{what}, round {round}: first byte of the extended state that changed"
            );
        }
    }
    assert_eq!(count(&event), if light { rounds } else { 0 }, "{what}");
}

fn every_register_survives_every_exit<H: Hypervisor>(h: &H) {
    // SAFETY: called only if the processor and the host have the feature.
    let mask = unsafe { components() };
    println!(
        "x87, SSE; AVX: {}; AVX-512: {}",
        mask & 4 != 0,
        mask & 0xe0 == 0xe0
    );
    for way in WAYS {
        let all = CARRY_TO_OVERFLOW | DIRECTION | NESTED_TASK | IDENTIFICATION;
        for flags in [0, all, ALIGNMENT_CHECK | CARRY_TO_OVERFLOW] {
            let config = VmConfig::default();
            check(h, &config, way, false, flags, mask);
            let call = has_doorbells_at(h, IoEventAddress::Hypercall(HOLE));
            if matches!(way, Way::Out | Way::Store) || matches!(way, Way::Call) && call {
                check(h, &config, way, true, flags, mask);
            }
        }
    }
}

fn every_register_survives_a_patched_instruction<H: Hypervisor>(h: &H) {
    // SAFETY: as above.
    let mask = unsafe { components() };
    for patch in [PatchMode::Int3, PatchMode::Jmp] {
        for flags in [
            0,
            CARRY_TO_OVERFLOW | DIRECTION | NESTED_TASK,
            ALIGNMENT_CHECK,
        ] {
            let config = VmConfig {
                patch,
                ..VmConfig::default()
            };
            check(h, &config, Way::Out, false, flags, mask);
            check(h, &config, Way::Out, true, flags, mask);
            check(h, &config, Way::Store, true, flags, mask);
        }
    }
}

fn every_register_survives_every_spin_policy<H: Hypervisor>(h: &H) {
    // SAFETY: as above.
    let mask = unsafe { components() };
    for spin in [SpinPolicy::OneCpu, SpinPolicy::Spin, SpinPolicy::Adaptive] {
        check(
            h,
            &VmConfig {
                spin,
                ..VmConfig::default()
            },
            Way::In,
            false,
            CARRY_TO_OVERFLOW,
            mask,
        );
    }
}

fn segment_bases_are_the_guests_own<H: Hypervisor>(h: &H) {
    const FSGSBASE: u64 = 1 << 1;
    // SAFETY: takes no pointers.
    let features = unsafe { libc::getauxval(libc::AT_HWCAP2) };
    if features & FSGSBASE == 0 {
        println!("skipped: this host lets no program change its segment bases");
        return;
    }
    for base in [0, 0x5ead_0000_beef, 0xffff_8000_0000_0000, AREA] {
        let vm = configured(h, VmConfig::default());
        let event = event();
        let _doorbell = vm
            .register_ioevent(
                &event,
                IoEventAddress::Pio(0x77),
                Datamatch::U8(None),
                Sharing::Exclusive,
            )
            .unwrap();
        let parameters = Parameters {
            address: AREA,
            value: base,
            ..Parameters::default()
        };
        let mut vcpu = start(&vm, programs::bases(), parameters, 0);
        let exits = run_to_done(&mut vcpu, |_| VmEntry::Data(5));
        assert_eq!(
            (exits.len(), count(&event)),
            (3, 4),
            "base {base:#x}: {exits:x?}"
        );
        let word = |address| vm.memory().read_obj::<u64>(GuestAddress(address)).unwrap();
        assert_eq!((word(AREA), word(AREA + 8)), (base, base));
    }
}

testbed::on_both! {
    segment_bases_are_the_guests_own;
    every_register_survives_every_exit;
}

/// Ways that only the usermode backend has.
mod engine {
    use super::{
        every_register_survives_a_patched_instruction, every_register_survives_every_spin_policy,
    };

    testbed::on_usermode! {
        every_register_survives_a_patched_instruction;
        every_register_survives_every_spin_policy;
    }
}
