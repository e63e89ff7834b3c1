//! What the stub's compiled code must not contain.

use std::collections::BTreeSet;

use iced_x86::{
    CpuidFeature, Decoder, FlowControl, Instruction, InstructionInfoFactory, OpKind, Register,
};
use stub::layout::{
    HYPERCALL_ENTRY, INTERRUPT_RETURN_ENTRY, PORT_ENTRY, STORE_ENTRY, STUB_BASE, STUB_SIZE,
};
use testbed::symbols::{code, segments, symbol, syscalls};

fn instructions() -> Vec<Instruction> {
    let (address, code) = code();
    Decoder::with_ip(64, code, address, 0).into_iter().collect()
}

/// Returns the code that runs on the guest's stack and with its vector registers.
fn direct() -> Vec<Instruction> {
    let (begin, end) = (
        symbol("stub_direct_section"),
        symbol("stub_direct_section_end"),
    );
    let inside: Vec<_> = instructions()
        .into_iter()
        .filter(|instruction| (begin..end).contains(&instruction.ip()))
        .collect();
    assert!(
        inside.len() > 50,
        "{} instructions of direct code",
        inside.len()
    );
    inside
}

#[test]
fn no_code_is_reached_through_a_segment() {
    for instruction in instructions() {
        let segment = instruction.memory_segment();
        assert!(
            !matches!(segment, Register::FS | Register::GS),
            "{:#x}: {instruction:?}",
            instruction.ip()
        );
    }
}

#[test]
fn direct_code_touches_no_vector_or_floating_point_register() {
    let mut factory = InstructionInfoFactory::new();
    for instruction in direct() {
        let vector = factory
            .info(&instruction)
            .used_registers()
            .iter()
            .any(|used| {
                let register = used.register();
                register.is_vector_register()
                    || register.is_st()
                    || register.is_mm()
                    || register.is_k()
            });
        assert!(!vector, "{:#x}: {instruction:?}", instruction.ip());
        for feature in instruction.cpuid_features() {
            assert!(
                !matches!(
                    feature,
                    CpuidFeature::FPU | CpuidFeature::SSE | CpuidFeature::AVX
                ),
                "{instruction:?}"
            );
        }
    }
}

#[test]
fn direct_code_goes_nowhere_but_back() {
    let (begin, end) = (
        symbol("stub_direct_section"),
        symbol("stub_direct_section_end"),
    );
    let mut calls = 0;
    for instruction in direct() {
        // The guest's direction flag may be set.
        assert!(!instruction.is_string_instruction(), "{instruction:?}");
        let what = format!("{:#x}: {instruction:?}", instruction.ip());
        match instruction.flow_control() {
            FlowControl::Next | FlowControl::Return | FlowControl::Interrupt => {}
            // The system call that writes to an eventfd.
            FlowControl::Call if instruction.code() == iced_x86::Code::Syscall => calls += 1,
            FlowControl::ConditionalBranch
            | FlowControl::UnconditionalBranch
            | FlowControl::Call => {
                assert!(
                    (begin..end).contains(&instruction.near_branch_target()),
                    "{what}"
                );
            }
            _ => panic!("{what}"),
        }
    }
    assert!(calls > 0, "direct code makes no system call");
}

#[test]
fn the_entries_are_where_the_layout_says() {
    assert_eq!(symbol("stub_direct_section"), STUB_BASE);
    assert_eq!(symbol("stub_hypercall"), HYPERCALL_ENTRY);
    assert_eq!(symbol("stub_port"), PORT_ENTRY);
    assert_eq!(symbol("stub_store"), STORE_ENTRY);
    assert_eq!(symbol("stub_interrupt_return"), INTERRUPT_RETURN_ENTRY);
}

/// Collects each number that the stub loads for a system call, from the instructions before it.
#[test]
fn the_stub_makes_these_system_calls_and_no_others() {
    let sites: BTreeSet<u64> = syscalls().into_iter().collect();
    let all = instructions();
    let mut numbers = BTreeSet::new();
    for (index, instruction) in all
        .iter()
        .enumerate()
        .filter(|(_, instruction)| sites.contains(&instruction.ip()))
    {
        let number = all[..index].iter().rev().take(40).find_map(|before| {
            let target = before.op0_kind() == OpKind::Register
                && before.op0_register().full_register() == Register::RAX;
            (target && before.op_count() == 2).then(|| match before.op1_kind() {
                // xor eax, eax
                OpKind::Register => 0,
                _ => before.immediate(1),
            })
        });
        numbers
            .insert(number.unwrap_or_else(|| panic!("which call is at {:#x}?", instruction.ip())));
    }
    let boot = [
        libc::SYS_close,
        libc::SYS_mmap,
        libc::SYS_munmap,
        libc::SYS_rt_sigaction,
        libc::SYS_rt_sigprocmask,
    ];
    let more = [
        libc::SYS_sendmsg,
        libc::SYS_clone,
        libc::SYS_getppid,
        libc::SYS_sigaltstack,
        libc::SYS_prctl,
    ];
    let last = [
        libc::SYS_gettid,
        libc::SYS_getpid,
        libc::SYS_seccomp,
        libc::SYS_pause,
    ];
    let run = [
        libc::SYS_write,
        libc::SYS_futex,
        libc::SYS_tgkill,
        libc::SYS_epoll_wait,
        libc::SYS_exit_group,
    ];
    let expected = boot
        .iter()
        .chain(&more)
        .chain(&last)
        .chain(&run)
        .map(|number| number.cast_unsigned())
        .collect();
    assert_eq!(numbers, expected);
    for instruction in all {
        assert_ne!(
            instruction.code(),
            iced_x86::Code::Sysenter,
            "{:#x}",
            instruction.ip()
        );
        let int = instruction.code() == iced_x86::Code::Int_imm8;
        assert!(!int, "{:#x}: {instruction:?}", instruction.ip());
    }
}

#[test]
fn the_stub_is_static_and_none_of_it_is_both_writable_and_executable() {
    const INTERPRETER: u64 = 3;
    const DYNAMIC: u64 = 2;
    const THREAD_LOCAL: u64 = 7;
    const LOAD: u64 = 1;
    const WRITE_EXECUTE: u64 = 3;
    for (kind, flags, _, address, size) in segments() {
        assert!(
            ![INTERPRETER, DYNAMIC, THREAD_LOCAL].contains(&kind),
            "segment of type {kind}"
        );
        if kind == LOAD {
            assert_ne!(flags & WRITE_EXECUTE, WRITE_EXECUTE, "{address:#x}");
            let inside = address >= STUB_BASE && address + size as u64 <= STUB_BASE + STUB_SIZE;
            assert!(inside, "{address:#x} is not in the stub's place");
        }
    }
}
