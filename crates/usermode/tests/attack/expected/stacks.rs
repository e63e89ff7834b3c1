//! Guests whose stack pointer is anything at all.

use stub::layout::{SHARED_BASE, SLOT_BASE, SLOT_SIZE};
use vm_memory::{Bytes, GuestAddress};
use vmbell::doorbell::{Datamatch, IoEventAddress, Sharing};
use vmbell_guest::DONE_PORT;
use vmbell_hypervisor::{Hypervisor, PatchMode, VmConfig, VmEntry, VmExit};

use testbed::jumps::{self, Jump};
use testbed::programs::OUTPUTS;
use testbed::{AREA, HOLE, configured, count, event, programs, step};

const CODE: u64 = AREA + 0x1_0000;

fn a_trap_needs_no_stack<H: Hypervisor>(h: &H) {
    let slot = SLOT_BASE;
    let stacks = [
        0,
        8,
        1 << 63,
        u64::MAX,
        HOLE,
        0x10_0000,
        SHARED_BASE,
        slot,
        slot + 0x800,
        slot + SLOT_SIZE - 0x1000,
        slot + SLOT_SIZE - 0x4000,
        slot + SLOT_SIZE,
        slot + SLOT_SIZE + 0x8000,
    ];
    for (patch, rsp) in [PatchMode::Off, PatchMode::Int3]
        .into_iter()
        .flat_map(|patch| stacks.map(|rsp| (patch, rsp)))
    {
        let vm = configured(
            h,
            VmConfig {
                patch,
                ..VmConfig::default()
            },
        );
        let mut registers = [0x55_u64; 16];
        registers[4] = rsp;
        vm.memory()
            .write_slice(programs::trapper().code, GuestAddress(CODE))
            .unwrap();
        let jump = Jump {
            registers,
            target: CODE,
        };
        let mut vcpu = jumps::take(&vm, 0, &[jump], 0);
        let mut next = || {
            step(&mut vcpu, VmEntry::Data(0x66)).unwrap_or_else(|error| panic!("{rsp:#x}: {error}"))
        };
        assert_eq!(
            next(),
            VmExit::PioOut {
                port: 0x77,
                len: 1,
                data: 0x55
            },
            "{rsp:#x}"
        );
        assert_eq!(next(), VmExit::PioIn { port: 0x77, len: 1 }, "{rsp:#x}");
        assert_eq!(
            next(),
            VmExit::PioOut {
                port: DONE_PORT,
                len: 4,
                data: 0x66
            },
            "{rsp:#x}"
        );
        match next() {
            VmExit::Fault(fault) => assert_eq!(fault.bytes[0], 0x50, "{rsp:#x}: {fault}"),
            // It was memory after all: the engine's own.
            VmExit::Halt => assert!(rsp > SHARED_BASE, "{rsp:#x}"),
            exit => panic!("{rsp:#x}: {exit:x?}"),
        }
    }
}

/// Says its stack pointer on [`DONE_PORT`], and halts.
const END: [u8; 9] = [
    0x89,
    0xe0, // mov eax, esp
    0xba,
    (DONE_PORT & 0xff) as u8,
    (DONE_PORT >> 8) as u8,
    0,
    0,    // mov edx, the port
    0xef, // out dx, eax
    0xf4, // hlt
];

fn a_jump_needs_no_stack<H: Hypervisor>(h: &H) {
    const RAM: u64 = 0x10_0000;
    // The last ones have room for a part of the frames of direct code.
    let bounds = [
        128, 136, 144, 176, 184, 200, 208, 264, 464, 465, 472, 0x1000,
    ];
    let stacks = [0, 8, 1 << 63, u64::MAX, HOLE, HOLE + 0x2000];
    let stacks = stacks.into_iter().chain(bounds.map(|bytes| RAM + bytes));
    // The same by `mov [rbx], al` in the place of the `out`.
    let mut stores = OUTPUTS;
    stores[5..7].copy_from_slice(&[0x88, 0x03]);
    let ways = [
        (OUTPUTS, IoEventAddress::Pio(0x42)),
        (stores, IoEventAddress::Mmio(HOLE)),
    ];
    let ways = ways.into_iter().flat_map(|way| [(1, way), (2, way)]);
    for ((vcpus, (rings, address)), rsp) in
        ways.flat_map(|way| stacks.clone().map(move |rsp| (way, rsp)))
    {
        let vm = configured(
            h,
            VmConfig {
                patch: PatchMode::Jmp,
                vcpus,
                ..VmConfig::default()
            },
        );
        let event = event();
        let _doorbell = vm
            .register_ioevent(&event, address, Datamatch::AnyLength, Sharing::Exclusive)
            .unwrap();
        let mut registers = [0x55_u64; 16];
        registers[3] = HOLE;
        registers[4] = rsp;
        let code = [&rings[..], &END].concat();
        vm.memory().write_slice(&code, GuestAddress(CODE)).unwrap();
        let jump = Jump {
            registers,
            target: CODE,
        };
        let mut vcpu = jumps::take(&vm, 0, &[jump], 0);
        let exit =
            step(&mut vcpu, VmEntry::Resume).unwrap_or_else(|error| panic!("{rsp:#x}: {error}"));
        let done = VmExit::PioOut {
            port: DONE_PORT,
            len: 4,
            data: (rsp & 0xffff_ffff) as u32,
        };
        assert_eq!(
            (exit, count(&event)),
            (done, 40),
            "{address}, {vcpus} vcpus, {rsp:#x}"
        );
    }
}

testbed::on_usermode! {
    a_trap_needs_no_stack;
    a_jump_needs_no_stack;
}
