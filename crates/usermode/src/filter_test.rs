use seccompiler::sock_filter;
use stub::layout::{
    FD_BASE, FILTER_MAX, GUEST_END, PARK_SYSCALL, SHARED_BASE, STUB_BASE, STUB_SIZE, SharedState,
};

use super::{
    AUDIT_ARCH_X86_64, OWN_PID_PLACEHOLDER, pack, park_program, user_notif_program, vcpu_program,
};

const AUDIT_ARCH_I386: u32 = 0x4000_0003;
const FD_LIMIT: u32 = 1024;

/// `struct seccomp_data`.
#[derive(Clone, Copy)]
struct Call {
    number: i64,
    architecture: u32,
    instruction_pointer: u64,
    arguments: [u64; 6],
}

impl Call {
    fn stub(number: i64, arguments: [u64; 6]) -> Self {
        Self {
            number,
            architecture: AUDIT_ARCH_X86_64,
            instruction_pointer: STUB_BASE + 0x100,
            arguments,
        }
    }

    fn word(self, offset: u32) -> u32 {
        let mut bytes = self.number.to_le_bytes()[..4].to_vec();
        bytes.extend(self.architecture.to_le_bytes());
        bytes.extend(self.instruction_pointer.to_le_bytes());
        bytes.extend(
            self.arguments
                .iter()
                .flat_map(|argument| argument.to_le_bytes()),
        );
        let offset = offset as usize;
        u32::from_le_bytes(bytes[offset..offset + 4].try_into().unwrap())
    }
}

/// Runs a seccomp program as the kernel would (Linux `Documentation/networking/filter.rst`).
fn verdict(program: &[sock_filter], call: Call) -> u32 {
    let (mut accumulator, mut place) = (0, 0);
    loop {
        let sock_filter { code, jt, jf, k } = program[place];
        place += 1;
        let holds = match code {
            0x20 => {
                accumulator = call.word(k);
                continue;
            }
            0x54 => {
                accumulator &= k;
                continue;
            }
            0x05 => {
                place += k as usize;
                continue;
            }
            0x06 => return k,
            0x15 => accumulator == k,
            0x25 => accumulator > k,
            0x35 => accumulator >= k,
            0x45 => accumulator & k != 0,
            code => panic!("instruction {code:#x}"),
        };
        place += usize::from(if holds { jt } else { jf });
    }
}

/// Returns the verdict of a vCPU's program on a call. The programs with and without interrupts must agree, because no
/// call here is the interrupt signal.
fn of_vcpu(call: Call) -> u32 {
    let plain = verdict(&vcpu_program(FD_LIMIT, false).unwrap(), call);
    assert_eq!(verdict(&with_interrupts(), call), plain);
    plain
}

const OWN: u64 = 4321;

/// Returns the program of a vCPU with interrupts, as the stub of process [`OWN`] installs it.
fn with_interrupts() -> Vec<sock_filter> {
    let program = vcpu_program(FD_LIMIT, true).unwrap();
    let packed = pack("a test", &program).unwrap();
    let mut program = program.to_vec();
    for (place, op) in program.iter_mut().enumerate() {
        if packed.own_pid_operands >> place & 1 != 0 {
            op.k = u32::try_from(OWN).unwrap();
        }
    }
    program
}

const ALLOW: u32 = libc::SECCOMP_RET_ALLOW;
const KILL: u32 = libc::SECCOMP_RET_KILL_PROCESS;
const TRAP: u32 = libc::SECCOMP_RET_TRAP;

#[test]
fn every_call_from_guest_addresses_traps() {
    for architecture in [AUDIT_ARCH_X86_64, AUDIT_ARCH_I386, 0xdead] {
        for number in [
            0,
            1,
            9,
            15,
            202,
            231,
            257,
            1 << 30 | 1,
            -1,
            i64::from(u32::MAX),
        ] {
            for instruction_pointer in [0, 2, 0x10_0000, GUEST_END - 1] {
                let call = Call {
                    number,
                    architecture,
                    instruction_pointer,
                    arguments: [16, SHARED_BASE, 8, 0, 0, 0],
                };
                assert_eq!(of_vcpu(call), TRAP, "{number} at {instruction_pointer:#x}");
            }
        }
    }
}

#[test]
fn a_doorbells_ring_is_allowed_and_no_other_write() {
    let write = |fd: u64, len| of_vcpu(Call::stub(libc::SYS_write, [fd, 0x5000, len, 0, 0, 0]));
    let (first, limit) = (u64::from(FD_BASE), u64::from(FD_LIMIT));
    assert_eq!((write(first, 8), write(limit - 1, 8)), (ALLOW, ALLOW));
    for (fd, len) in [
        (0, 8),
        (1, 8),
        (2, 8),
        (first - 1, 8),
        (limit, 8),
        (u64::from(u32::MAX), 8),
    ] {
        assert_eq!(write(fd, len), KILL, "fd {fd}");
    }
    for len in [0, 7, 9, 16, 8 | 1 << 32, u64::MAX] {
        assert_eq!(write(first, len), KILL, "{len:#x} bytes");
    }
    // The kernel uses only the low half of the argument as the descriptor, and the rule must do the same.
    assert_eq!(write(1 << 32 | 1, 8), KILL);
}

#[test]
fn a_futex_is_allowed_in_shared_memory_only() {
    let futex = |address, operation, timeout| {
        of_vcpu(Call::stub(
            libc::SYS_futex,
            [address, operation, 1, timeout, 0, 0],
        ))
    };
    let end = SHARED_BASE + size_of::<SharedState>() as u64;
    assert_eq!(
        (futex(SHARED_BASE, 0, 0), futex(end - 4, 1, 0)),
        (ALLOW, ALLOW)
    );
    for address in [0, SHARED_BASE - 1, end, u64::MAX] {
        assert_eq!(futex(address, 0, 0), KILL, "{address:#x}");
    }
    for operation in [2, 3, 4, 9, 128, 129] {
        assert_eq!(
            futex(SHARED_BASE, operation, 0),
            KILL,
            "operation {operation}"
        );
    }
    for timeout in [1, 1 << 32, 0x5000] {
        assert_eq!(
            futex(SHARED_BASE, 0, timeout),
            KILL,
            "time-out {timeout:#x}"
        );
    }
}

#[test]
fn only_the_interrupt_signal_goes_to_the_sandbox_itself_and_only_with_interrupts() {
    let interrupt = u64::from(libc::SIGUSR2.cast_unsigned());
    let kill =
        |process: u64, signal: u64| Call::stub(libc::SYS_tgkill, [process, 4322, signal, 0, 0, 0]);
    assert_eq!(verdict(&with_interrupts(), kill(OWN, interrupt)), ALLOW);
    let plain = vcpu_program(FD_LIMIT, false).unwrap();
    assert_eq!(verdict(&plain, kill(OWN, interrupt)), KILL);
    for process in [
        0,
        1,
        OWN + 1,
        OWN | 1 << 32,
        u64::MAX,
        OWN_PID_PLACEHOLDER.into(),
    ] {
        let call = kill(process, interrupt);
        assert_eq!(verdict(&with_interrupts(), call), KILL, "process {process}");
    }
    for signal in (0..65).filter(|signal| *signal != interrupt) {
        let call = kill(OWN, signal);
        assert_eq!(verdict(&with_interrupts(), call), KILL, "signal {signal}");
    }
    // The id of the descriptor thread.
    for thread in [OWN, OWN | 1 << 32, OWN | 0xffff_ffff << 32] {
        let call = Call::stub(libc::SYS_tgkill, [OWN, thread, interrupt, 0, 0, 0]);
        let verdict = verdict(&with_interrupts(), call);
        assert_eq!(verdict, KILL, "thread {thread:#x}");
    }
    for number in [libc::SYS_kill, libc::SYS_tkill, libc::SYS_rt_sigqueueinfo] {
        let call = Call::stub(number, [OWN, interrupt, interrupt, 0, 0, 0]);
        assert_eq!(verdict(&with_interrupts(), call), KILL, "call {number}");
    }
}

#[test]
fn a_vcpu_sleeps_in_its_own_descriptors_for_one_event_and_only_with_interrupts() {
    let sleep = |descriptor: u32, events: u64| {
        Call::stub(
            libc::SYS_epoll_wait,
            [descriptor.into(), 0, events, u64::MAX, 0, 0],
        )
    };
    let plain = vcpu_program(FD_LIMIT, false).unwrap();
    assert_eq!(verdict(&plain, sleep(FD_BASE, 1)), KILL);
    for descriptor in [FD_BASE, FD_LIMIT - 1] {
        assert_eq!(verdict(&with_interrupts(), sleep(descriptor, 1)), ALLOW);
    }
    for descriptor in [0, FD_BASE - 1, FD_LIMIT, u32::MAX] {
        let call = sleep(descriptor, 1);
        assert_eq!(
            verdict(&with_interrupts(), call),
            KILL,
            "descriptor {descriptor}"
        );
    }
    for events in [0, 2, u64::from(u32::MAX)] {
        let call = sleep(FD_BASE, events);
        assert_eq!(verdict(&with_interrupts(), call), KILL, "{events} events");
    }
    for number in [
        libc::SYS_epoll_ctl,
        libc::SYS_epoll_pwait,
        libc::SYS_epoll_pwait2,
    ] {
        let call = Call::stub(number, [u64::from(FD_BASE), 0, 1, 0, 0, 0]);
        assert_eq!(verdict(&with_interrupts(), call), KILL, "call {number}");
    }
}

#[test]
fn the_own_process_is_put_in_wherever_it_is_compared_with() {
    let places = with_interrupts()
        .iter()
        .filter(|op| u64::from(op.k) == OWN)
        .count();
    assert_eq!(places, 2, "as process and as thread");
    assert!(
        with_interrupts()
            .iter()
            .all(|op| op.k != OWN_PID_PLACEHOLDER)
    );
    let plain = pack("a test", &vcpu_program(FD_LIMIT, false).unwrap()).unwrap();
    assert_eq!(plain.own_pid_operands, 0);
}

#[test]
fn the_stub_may_end_and_nothing_else() {
    for number in 0..512 {
        let expected = if number == libc::SYS_exit_group {
            ALLOW
        } else {
            KILL
        };
        assert_eq!(of_vcpu(Call::stub(number, [0; 6])), expected, "{number}");
        let x32 = Call::stub(number | 1 << 30, [16, SHARED_BASE, 8, 0, 0, 0]);
        assert_eq!(of_vcpu(x32), KILL, "x32 call {number}");
        let other = Call {
            architecture: AUDIT_ARCH_I386,
            ..Call::stub(number, [0; 6])
        };
        assert_eq!(of_vcpu(other), KILL, "32-bit call {number}");
    }
}

#[test]
fn the_descriptor_thread_reports_its_parked_call_and_then_makes_no_other() {
    let parked = Call::stub(PARK_SYSCALL.into(), [0; 6]);
    let close = Call::stub(libc::SYS_close, [0; 6]);
    assert_eq!(
        verdict(&user_notif_program(), parked),
        libc::SECCOMP_RET_USER_NOTIF
    );
    assert_eq!(verdict(&user_notif_program(), close), ALLOW);
    assert_eq!(verdict(&park_program().unwrap(), parked), ALLOW);
    assert_eq!(verdict(&park_program().unwrap(), close), KILL);
    assert_eq!(
        verdict(
            &park_program().unwrap(),
            Call {
                architecture: AUDIT_ARCH_I386,
                ..parked
            }
        ),
        KILL
    );
}

#[test]
fn the_descriptor_thread_makes_its_calls_from_the_stubs_code_only() {
    for number in [PARK_SYSCALL.into(), libc::SYS_exit_group] {
        let from = |instruction_pointer| {
            let call = Call::stub(number, [0; 6]);
            let call = Call {
                instruction_pointer,
                ..call
            };
            verdict(&park_program().unwrap(), call)
        };
        let end = STUB_BASE + STUB_SIZE;
        assert_eq!((from(STUB_BASE), from(end - 1)), (ALLOW, ALLOW));
        for elsewhere in [0, 0x10_0000, GUEST_END - 1, STUB_BASE - 1, end, u64::MAX] {
            assert_eq!(from(elsewhere), KILL, "{elsewhere:#x}");
        }
    }
}

#[test]
fn a_packed_program_is_the_kernels_layout() {
    let program = [sock_filter {
        code: 0x15,
        jt: 2,
        jf: 3,
        k: 0x1122_3344,
    }];
    let packed = pack("a test", &program).unwrap();
    assert_eq!(
        (packed.len, packed.code[0], packed.code[1]),
        (1, 0x1122_3344_0302_0015, 0)
    );
    let longest = vec![program[0].clone(); FILTER_MAX + 1];
    let error = pack("a test", &longest).unwrap_err().to_string();
    assert!(error.contains(&FILTER_MAX.to_string()), "{error}");
}

#[test]
fn the_programs_fit_the_control_page() {
    for program in [
        vcpu_program(1 << 20, true).unwrap(),
        user_notif_program(),
        park_program().unwrap(),
    ] {
        assert!(
            program.len() <= FILTER_MAX,
            "{} instructions",
            program.len()
        );
    }
}
