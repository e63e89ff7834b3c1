//! Guests whose stack pointer is anything at all.

use stub::layout::{SHARED_BASE, SLOT_BASE, SLOT_SIZE};
use vm_memory::{Bytes, GuestAddress};
use vmbell_guest::DONE_PORT;
use vmbell_hypervisor::{Hypervisor, PatchMode, VmConfig, VmEntry, VmExit};

use crate::harness::jumps::{self, Jump};
use crate::harness::{AREA, HOLE, configured, programs, step};

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

crate::on_usermode! {
    a_trap_needs_no_stack;
}
