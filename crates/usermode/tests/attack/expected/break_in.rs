//! Guests that jump into the stub.

use std::time::{Duration, Instant};

use stub::layout::{SLOT_BASE, SLOT_SIZE};
use testbed::Deadline;
use vmbell_hypervisor::{Hypervisor, VmConfig, VmEntry, VmExit};

use testbed::jumps::{self, Jump};
use testbed::process::{await_gone, with_sandbox};
use testbed::symbols::{code, symbol, syscalls};
use testbed::{AREA, HANG, chain};

/// Lets a guest make this jump, and kicks it if it has not ended after some time; gives how it ended.
fn make<H: Hypervisor>(h: &H, jump: Jump, kicked_after: Duration) -> Result<VmExit, String> {
    let (vm, sandbox) = with_sandbox(h, &VmConfig::default());
    let mut vcpu = jumps::take(&vm, 0, &[jump], 0);
    let deadline = Deadline::new(Instant::now() + kicked_after, vcpu.kick_handle()).unwrap();
    let result = vcpu.run(VmEntry::Resume).map_err(|error| chain(&error));
    drop(deadline);
    drop(vcpu);
    drop(vm);
    await_gone(sandbox);
    result
}

fn the_stubs_own_system_calls_are_no_way_out<H: Hypervisor>(h: &H) {
    let calls = [
        ("openat", (257, [100_u64.wrapping_neg(), AREA, 0, 0])),
        ("write to standard output", (1, [1, AREA, 8, 0])),
        ("write of 9 bytes", (1, [16, AREA, 9, 0])),
        ("write beyond the limit", (1, [0xffff_ffff, AREA, 8, 0])),
        ("mmap", (9, [0, 4096, 7, 0x22])),
        ("futex elsewhere", (202, [AREA, 1, 1, 0])),
        ("futex requeue", (202, [stub::layout::SHARED_BASE, 3, 1, 0])),
        ("kill", (62, [1, 9, 0, 0])),
        ("rt_sigreturn", (15, [0; 4])),
        ("openat of x32", (257 | 1 << 30, [0; 4])),
    ];
    let gadgets = syscalls();
    assert!(gadgets.len() > 3, "{gadgets:x?}");
    // Every gadget for one call, every call for one gadget.
    let all_gadgets = gadgets.iter().map(|gadget| (calls[0], *gadget));
    for ((name, (number, arguments)), gadget) in
        all_gadgets.chain(calls.into_iter().map(|call| (call, gadgets[0])))
    {
        let end = make(h, Jump::call(gadget, number, arguments), HANG).expect_err(name);
        assert!(end.contains("SIGSYS"), "{name} at {gadget:#x}: {end}");
    }
}

fn a_jump_to_the_stubs_exit_is_an_end_with_its_code<H: Hypervisor>(h: &H) {
    let end = make(h, Jump::call(syscalls()[0], 231, [42, 0, 0, 0]), HANG).expect_err("an end");
    assert!(end.contains("exit code 42"), "{end}");
    // As if a step of the start had failed, long after the start.
    let end = make(h, Jump::call(syscalls()[0], 231, [86, 0, 0, 0]), HANG).expect_err("an end");
    assert!(end.contains("exit code 86; the guest jumped"), "{end}");
}

/// From the middle of the exit sequence a guest may come back to itself, fault or take the sandbox
/// down; what it must not do is hold or harm the monitor.
fn a_jump_into_the_exit_sequence_ends_somehow<H: Hypervisor>(h: &H) {
    let (begin, end) = (symbol("stub_entry"), symbol("stub_restorer"));
    let (base, bytes) = code();
    let skip = usize::try_from(begin - base).unwrap();
    let instructions: Vec<u64> = iced_x86::Decoder::with_ip(64, &bytes[skip..], begin, 0)
        .into_iter()
        .map(|instruction| instruction.ip())
        .take_while(|ip| *ip < end)
        .collect();
    assert!(instructions.len() > 50, "{instructions:x?}");
    for (index, target) in instructions.into_iter().enumerate() {
        let stack = [
            AREA + 0x8000,
            SLOT_BASE + SLOT_SIZE - 0x2000,
            0,
            SLOT_BASE + 0x1100,
        ][index % 4];
        let mut registers = [AREA + 0x4000; 16];
        registers[1] = SLOT_BASE;
        registers[4] = stack;
        // What ends it, if anything, depends on what the registers happen to mean there.
        let _ = make(h, Jump { registers, target }, Duration::from_millis(100));
    }
}

testbed::on_usermode! {
    the_stubs_own_system_calls_are_no_way_out;
    a_jump_to_the_stubs_exit_is_an_end_with_its_code;
    a_jump_into_the_exit_sequence_ends_somehow;
}
