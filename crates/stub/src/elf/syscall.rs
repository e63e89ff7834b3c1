//! System calls in assembly, because the stub has no libc (numbers: Linux `arch/x86/entry/syscalls/syscall_64.tbl`).

use core::arch::asm;
use core::mem::MaybeUninit;

use vmbell_core::sync::AtomicU32;

pub const WRITE: u64 = 1;
pub const CLOSE: u64 = 3;
pub const MMAP: u64 = 9;
pub const MUNMAP: u64 = 11;
pub const RT_SIGACTION: u64 = 13;
pub const RT_SIGPROCMASK: u64 = 14;
pub const GETPID: u64 = 39;
pub const SENDMSG: u64 = 46;
pub const CLONE: u64 = 56;
pub const GETPPID: u64 = 110;
pub const SIGALTSTACK: u64 = 131;
pub const PRCTL: u64 = 157;
pub const GETTID: u64 = 186;
pub const FUTEX: u64 = 202;
pub const EPOLL_WAIT: u64 = 232;
pub const TGKILL: u64 = 234;
pub const EXIT_GROUP: u64 = 231;
pub const SECCOMP: u64 = 317;

const FUTEX_WAIT: u64 = 0;
const FUTEX_WAKE: u64 = 1;

/// Makes a system call. A negative result is a negated error number.
///
/// # Safety
/// Pointers among the arguments must be valid for what the kernel does with them.
#[inline(always)]
pub unsafe fn syscall(number: u64, args: [u64; 6]) -> i64 {
    let result: i64;
    // SAFETY: the caller vouches for the arguments; the kernel clobbers rcx and r11 only.
    unsafe {
        asm!("syscall", inlateout("rax") number.cast_signed() => result,
            in("rdi") args[0], in("rsi") args[1], in("rdx") args[2],
            in("r10") args[3], in("r8") args[4], in("r9") args[5],
            lateout("rcx") _, lateout("r11") _, options(nostack));
    }
    result
}

/// Adds 1 to an eventfd. If that fails, the counter is full, so its reader is awake anyway.
#[inline(always)]
pub fn ring_eventfd(fd: u32, one: *const u64) {
    // SAFETY: `one` points into the control page, which stays mapped as long as the process lives.
    unsafe { syscall(WRITE, [u64::from(fd), one as u64, 8, 0, 0, 0]) };
}

/// Sleeps until woken, unless `word` is no longer `expected`. May return early without a reason.
pub fn futex_wait(word: &AtomicU32, expected: u32) {
    // SAFETY: `word` is a reference, so it is mapped; no time-out is passed.
    unsafe {
        syscall(
            FUTEX,
            [
                word.as_ptr() as u64,
                FUTEX_WAIT,
                u64::from(expected),
                0,
                0,
                0,
            ],
        )
    };
}

/// Wakes one sleeper on `word`.
pub fn futex_wake(word: &AtomicU32) {
    // SAFETY: `word` is a reference, so it is mapped.
    unsafe { syscall(FUTEX, [word.as_ptr() as u64, FUTEX_WAKE, 1, 0, 0, 0]) };
}

/// Sleeps until `epoll` reports an edge, unless an edge has come since the last return. May return early without a
/// reason.
pub fn epoll_wait(epoll: u32) {
    // `struct epoll_event` is packed: 12 bytes.
    let mut event = MaybeUninit::<[u32; 3]>::uninit();
    let args = [
        u64::from(epoll),
        event.as_mut_ptr() as u64,
        1,
        u64::MAX,
        0,
        0,
    ];
    // SAFETY: the kernel writes at most one event, for which `event` has room; no time-out is passed.
    unsafe { syscall(EPOLL_WAIT, args) };
}

/// Signals a thread of this process.
pub fn tgkill(process: u32, thread: u32, signal: u32) {
    let args = [process, thread, signal].map(u64::from);
    // SAFETY: no pointers.
    unsafe { syscall(TGKILL, [args[0], args[1], args[2], 0, 0, 0]) };
}

/// Ends the sandbox.
pub fn exit_group(code: i32) -> ! {
    loop {
        // SAFETY: no pointers.
        unsafe { syscall(EXIT_GROUP, [u64::from(code.cast_unsigned()), 0, 0, 0, 0, 0]) };
    }
}
