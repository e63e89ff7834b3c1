//! The sandbox's start, from the first instruction to the seccomp filters.
//!
//! The process's first thread runs this. It starts the vCPU threads, hands the seccomp listener to the monitor and then
//! parks forever: it is the descriptor thread, and the monitor adds file descriptors to the sandbox through its parked
//! system call. Each thread installs its own seccomp filter before any guest instruction runs.

use core::arch::asm;
use core::mem::{MaybeUninit, size_of};

use crate::elf::entry::{stub_entry, stub_restorer, stub_start};
use crate::elf::percpu::{OWN_PID, PerCpu, control, own_pid};
use crate::elf::syscall::{
    CLONE, CLOSE, GETPID, GETPPID, GETTID, MMAP, MUNMAP, PRCTL, RT_SIGACTION, RT_SIGPROCMASK,
    SECCOMP, SENDMSG, SIGALTSTACK, exit_group, syscall,
};
use crate::elf::trap::{SIGBUS, SIGFPE, SIGILL, SIGSEGV, SIGSYS, SIGTRAP, SIGUSR1, SIGUSR2};
use crate::layout::{
    CONTROL_BASE, Control, FILTER_MAX, Filter, GUEST_END, HYPERCALL_OFFSET, MAX_VCPUS,
    PARK_SYSCALL, PATCH_BASE, PATCH_OFFSET, PATCH_SIZE, SHARED_BASE, SLOT_BASE, SLOT_SIZE,
    STUB_BASE, STUB_SIZE, SharedState, boot_fd, exit_code,
};
use vmbell_core::addresses::{HYPERCALL_PAGE, PAGE, RAM_BASE};
use vmbell_core::sync::Ordering::{Relaxed, SeqCst};

const PROT_READ: u64 = 1;
const PROT_WRITE: u64 = 2;
const PROT_EXEC: u64 = 4;
const MAP_SHARED: u64 = 1;
const MAP_PRIVATE: u64 = 2;
const MAP_ANONYMOUS: u64 = 0x20;
const MAP_NORESERVE: u64 = 0x4000;
const MAP_FIXED_NOREPLACE: u64 = 0x10_0000;
/// The end of user addresses on x86-64 with four-level paging.
const TASK_END: u64 = 0x7fff_ffff_f000;

/// If a system call failed, ends the sandbox with an exit status that names the step.
fn check(step: i32, result: i64) -> u64 {
    if result < 0 {
        exit_group(exit_code::START + step);
    }
    result.cast_unsigned()
}

/// Maps a part of a file, or new memory, at a fixed address.
fn map(step: i32, address: u64, len: u64, protection: u64, file: Option<(i32, u64)>) {
    let (kind, fd, offset) = match file {
        Some((fd, offset)) => (MAP_SHARED, i64::from(fd).cast_unsigned(), offset),
        None => (MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, u64::MAX, 0),
    };
    // SAFETY: a new mapping that does not replace another.
    let result = unsafe {
        syscall(
            MMAP,
            [
                address,
                len,
                protection,
                kind | MAP_FIXED_NOREPLACE,
                fd,
                offset,
            ],
        )
    };
    // Kernels before 4.17 treat the address as a hint.
    if check(step, result) != address {
        exit_group(exit_code::START + step);
    }
}

/// Starts the sandbox; called by `_start`.
pub extern "C" fn boot() -> ! {
    const PR_SET_PDEATHSIG: u64 = 1;
    const PR_SET_NO_NEW_PRIVS: u64 = 38;
    // SAFETY: no pointers.
    check(1, unsafe {
        syscall(PRCTL, [PR_SET_PDEATHSIG, 9, 0, 0, 0, 0])
    });
    map(
        2,
        CONTROL_BASE,
        size_of::<Control>() as u64,
        PROT_READ,
        Some((boot_fd::READ_ONLY, 0)),
    );
    let control = control();
    // SAFETY: no pointers. If the monitor died before the prctl above, this process now has another parent.
    let parent = unsafe { syscall(GETPPID, [0; 6]) };
    if parent != i64::from(control.monitor_pid.load(Relaxed)) {
        exit_group(exit_code::ORPHAN);
    }
    // SAFETY: no pointers.
    let process = unsafe { syscall(GETPID, [0; 6]) };
    OWN_PID.store((process.cast_unsigned() & 0xffff_ffff) as u32, Relaxed);
    let ram_size = control.ram_size.load(Relaxed);
    map(
        3,
        SHARED_BASE,
        size_of::<SharedState>() as u64,
        PROT_READ | PROT_WRITE,
        Some((boot_fd::WRITABLE, 0)),
    );
    map(
        4,
        RAM_BASE,
        ram_size,
        PROT_READ | PROT_WRITE | PROT_EXEC,
        Some((boot_fd::RAM, control.ram_offset.load(Relaxed))),
    );
    map(
        5,
        PATCH_BASE,
        PATCH_SIZE,
        PROT_READ | PROT_EXEC,
        Some((boot_fd::READ_ONLY, PATCH_OFFSET)),
    );
    map(
        6,
        HYPERCALL_PAGE,
        PAGE,
        PROT_READ | PROT_EXEC,
        Some((boot_fd::READ_ONLY, HYPERCALL_OFFSET)),
    );
    map(
        7,
        SLOT_BASE,
        SLOT_SIZE * MAX_VCPUS as u64,
        PROT_READ | PROT_WRITE,
        None,
    );
    unmap_the_rest(ram_size);
    map_devices(control);
    install_handlers();
    // SAFETY: no pointers.
    check(10, unsafe {
        syscall(PRCTL, [PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0, 0])
    });
    for index in 0..u64::from(control.vcpus.load(Relaxed)).min(MAX_VCPUS as u64) {
        start_vcpu(index);
    }
    send_listener(install_filter(11, &control.user_notif_filter, true));
    for fd in boot_fd::READ_ONLY..boot_fd::DEVICES {
        // SAFETY: no pointers; nothing uses these descriptors any more.
        unsafe { syscall(CLOSE, [u64::from(fd.cast_unsigned()), 0, 0, 0, 0, 0]) };
    }
    block_signals();
    install_filter(12, &control.park_filter, false);
    // SAFETY: no pointers. The filter reports this system call to the monitor, which never answers.
    unsafe { syscall(u64::from(PARK_SYSCALL), [0; 6]) };
    exit_group(exit_code::UNPARKED)
}

/// Maps the device memory and closes its files, because such a file gives access to more of the device than its memory.
fn map_devices(control: &Control) {
    for (fd, device) in (boot_fd::DEVICES..).zip(&control.device_mappings) {
        let size = device.size.load(Relaxed);
        if size == 0 {
            return;
        }
        let write = if device.writable.load(Relaxed) != 0 {
            PROT_WRITE
        } else {
            0
        };
        map(
            18,
            device.address.load(Relaxed),
            size,
            PROT_READ | write,
            Some((fd, device.offset.load(Relaxed))),
        );
        // SAFETY: no pointers; nothing else uses this descriptor.
        unsafe { syscall(CLOSE, [u64::from(fd.cast_unsigned()), 0, 0, 0, 0, 0]) };
    }
}

/// Unmaps everything that the stub did not map: the initial stack, the environment, the vDSO.
fn unmap_the_rest(ram_size: u64) {
    let kept = [
        (HYPERCALL_PAGE, PAGE),
        (RAM_BASE, ram_size),
        (PATCH_BASE, PATCH_SIZE),
        (STUB_BASE, STUB_SIZE),
        (CONTROL_BASE, size_of::<Control>() as u64),
        (SHARED_BASE, size_of::<SharedState>() as u64),
        (SLOT_BASE, SLOT_SIZE * MAX_VCPUS as u64),
        (TASK_END, 0),
    ];
    let mut from = 0;
    for (start, len) in kept {
        let start = start & !(PAGE - 1);
        if start > from {
            // SAFETY: nothing in the gaps between the stub's mappings is used from here on.
            check(8, unsafe {
                syscall(MUNMAP, [from, start - from, 0, 0, 0, 0])
            });
        }
        from = (start + len).next_multiple_of(PAGE);
    }
    const _: () = assert!(GUEST_END <= STUB_BASE && PATCH_BASE + PATCH_SIZE <= GUEST_END);
}

#[repr(C)]
struct SignalAction {
    handler: unsafe extern "C" fn(),
    flags: u64,
    restorer: unsafe extern "C" fn(),
    mask: u64,
}

fn install_handlers() {
    const SA_SIGINFO: u64 = 4;
    const SA_RESTORER: u64 = 0x0400_0000;
    const SA_ONSTACK: u64 = 0x0800_0000;
    const SA_NODEFER: u64 = 0x4000_0000;
    let action = SignalAction {
        handler: stub_entry,
        // The handler does not return through the kernel, so the signal mask must never change.
        flags: SA_SIGINFO | SA_RESTORER | SA_ONSTACK | SA_NODEFER,
        restorer: stub_restorer,
        mask: 0,
    };
    for signal in [
        SIGILL, SIGTRAP, SIGBUS, SIGFPE, SIGUSR1, SIGSEGV, SIGUSR2, SIGSYS,
    ] {
        let args = [u64::from(signal), &raw const action as u64, 0, 8, 0, 0];
        // SAFETY: `action` is the kernel's `struct sigaction`, read during the call.
        check(9, unsafe { syscall(RT_SIGACTION, args) });
    }
    set_signal_mask(9, 0);
}

/// Blocks all signals of the descriptor thread, because it must not handle any: guests can write to the memory where
/// its stack lies. Called after the vCPU threads are started, because they would inherit the mask. A forbidden system
/// call still ends the sandbox.
fn block_signals() {
    set_signal_mask(17, u64::MAX);
}

fn set_signal_mask(step: i32, mask: u64) {
    const SIG_SETMASK: u64 = 2;
    let args = [SIG_SETMASK, &raw const mask as u64, 0, 8, 0, 0];
    // SAFETY: `mask` is a signal set, read during the call.
    check(step, unsafe { syscall(RT_SIGPROCMASK, args) });
}

/// Starts the thread of a vCPU on the vCPU's own signal stack.
fn start_vcpu(index: u64) {
    // VM | FS | FILES | SIGHAND | THREAD | SYSVSEM
    const FLAGS: u64 = 0x100 | 0x200 | 0x400 | 0x800 | 0x1_0000 | 0x4_0000;
    let slot = PerCpu::slot(index);
    // SAFETY: the slot was just mapped, is zeroed, and no thread uses it yet.
    let cpu = unsafe { &*(slot as *const PerCpu) };
    cpu.index.store((index & 0xffff_ffff) as u32, Relaxed);
    let result: i64;
    // SAFETY: the child uses the top of its slot as its stack and never returns from `vcpu`; the parent continues as
    // after any system call.
    unsafe {
        asm!(
            "syscall",
            "test rax, rax",
            "jnz 2f",
            "xor ebp, ebp",
            "mov rdi, r12",
            "call {vcpu}",
            "ud2",
            "2:",
            vcpu = sym vcpu,
            inlateout("rax") CLONE.cast_signed() => result,
            in("rdi") FLAGS, in("rsi") slot + SLOT_SIZE, in("rdx") 0, in("r10") 0, in("r8") 0,
            in("r12") cpu, lateout("rcx") _, lateout("r11") _,
        );
    }
    check(13, result);
}

#[repr(C)]
struct SignalStack {
    base: u64,
    flags: u64,
    size: u64,
}

/// The code of a vCPU thread: installs the signal stack and seccomp filter, announces the thread to the monitor, and
/// traps to enter the guest.
extern "C" fn vcpu(cpu: &PerCpu) -> ! {
    let stack = SignalStack {
        base: core::ptr::from_ref(cpu) as u64 + PAGE,
        flags: 0,
        size: SLOT_SIZE - PAGE,
    };
    // SAFETY: `stack` is the kernel's `stack_t`, read during the call.
    check(14, unsafe {
        syscall(SIGALTSTACK, [&raw const stack as u64, 0, 0, 0, 0, 0])
    });
    // SAFETY: no pointers.
    let thread = unsafe { syscall(GETTID, [0; 6]) };
    install_filter(15, &control().vcpu_filter, false);
    cpu.run()
        .thread_id
        .store((thread.cast_unsigned() & 0xffff_ffff) as u32, SeqCst);
    crate::elf::syscall::futex_wake(&cpu.run().thread_id);
    // SAFETY: raises SIGILL, and its handler fills in the guest's registers and enters the guest.
    unsafe { stub_start() };
    exit_group(exit_code::PANIC)
}

#[repr(C)]
struct SocketFilter {
    len: u16,
    code: *const u64,
}

/// Installs a seccomp filter on the calling thread. With `listen`, returns the descriptor of its listener.
fn install_filter(step: i32, filter: &Filter, listen: bool) -> u64 {
    const SECCOMP_SET_MODE_FILTER: u64 = 1;
    const NEW_LISTENER: u64 = 8;
    let mut code = [const { MaybeUninit::<u64>::uninit() }; FILTER_MAX];
    for (place, (copy, word)) in (0..FILTER_MAX as u64).zip(code.iter_mut().zip(&filter.code)) {
        // SAFETY: a reference. The read is volatile because the compiler would otherwise call `memcpy`, which the stub
        // does not have.
        let word = unsafe { core::ptr::from_ref(word).read_volatile() };
        copy.write(if filter.own_pid_operands >> place & 1 != 0 {
            // The constant is in the upper half of `struct sock_filter`.
            word & 0xffff_ffff | u64::from(own_pid()) << 32
        } else {
            word
        });
    }
    let program = SocketFilter {
        len: (filter.len & 0xffff) as u16,
        code: code.as_ptr().cast(),
    };
    let args = [
        SECCOMP_SET_MODE_FILTER,
        if listen { NEW_LISTENER } else { 0 },
        &raw const program as u64,
        0,
        0,
        0,
    ];
    // SAFETY: `program` is the kernel's `struct sock_fprog`; it and `code` live until the call returns.
    check(step, unsafe { syscall(SECCOMP, args) })
}

#[repr(C)]
struct MessageHeader {
    name: u64,
    name_len: u64,
    vector: *const [u64; 2],
    vector_len: u64,
    control: *const ControlMessage,
    control_len: u64,
    flags: u64,
}

#[repr(C)]
struct ControlMessage {
    len: u64,
    level: i32,
    kind: i32,
    fd: u64,
}

/// Sends the listener and one byte to the monitor (SCM_RIGHTS).
fn send_listener(listener: u64) {
    const SOL_SOCKET: i32 = 1;
    const SCM_RIGHTS: i32 = 1;
    let byte = MaybeUninit::<u8>::zeroed();
    let vector = [byte.as_ptr() as u64, 1];
    let message = ControlMessage {
        len: 20,
        level: SOL_SOCKET,
        kind: SCM_RIGHTS,
        fd: listener,
    };
    let header = MessageHeader {
        name: 0,
        name_len: 0,
        vector: &raw const vector,
        vector_len: 1,
        control: &raw const message,
        control_len: size_of::<ControlMessage>() as u64,
        flags: 0,
    };
    let args = [
        u64::from(boot_fd::SOCKET.cast_unsigned()),
        &raw const header as u64,
        0,
        0,
        0,
        0,
    ];
    // SAFETY: `header` is the kernel's `struct msghdr`; all that it points to lives until the call returns.
    check(16, unsafe { syscall(SENDMSG, args) });
    // SAFETY: no pointers; the monitor now has its own copy.
    check(16, unsafe { syscall(CLOSE, [listener, 0, 0, 0, 0, 0]) });
}
