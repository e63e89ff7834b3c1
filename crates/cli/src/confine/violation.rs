//! A system call that a filter denies: the kernel does not execute it and raises SIGSYS in the thread. The handler
//! prints the call and ends the process.
//!
//! The handler may run in a thread that the guest has taken over. It writes one line and ends the process, neither
//! allocates nor takes a lock, and trusts nothing that it prints. If such a thread blocks the signal, the kernel kills
//! the process.
#![allow(unsafe_code, reason = "a signal handler")]

use std::cell::Cell;
use std::fmt::{self, Write};
use std::io;
use std::mem;
use std::ptr;

use syscalls::Sysno;
use vmbell::thread::ThreadKind;

/// The exit status. It is even, so no guest can cause it, and no other error of this command uses it.
pub(crate) const STATUS: u8 = 148;

/// The `si_code` of a SIGSYS that a filter raised (Linux `uapi/asm-generic/siginfo.h`).
const SYS_SECCOMP: libc::c_int = 1;

thread_local! {
    /// The cell has no destructor and no lazy initialization, so a signal handler can read it.
    static KIND: Cell<ThreadKind> = const { Cell::new(ThreadKind::Main) };
}

/// Sets the name of the calling thread in messages.
pub(super) fn name_thread(kind: ThreadKind) {
    KIND.set(kind);
}

/// Whether the kernel can trap system calls.
pub(super) fn is_supported() -> bool {
    let action = libc::SECCOMP_RET_TRAP;
    // SAFETY: the call reads `action`, which outlives it, and changes nothing.
    let result = unsafe {
        libc::syscall(
            libc::SYS_seccomp,
            libc::SECCOMP_GET_ACTION_AVAIL,
            0,
            &raw const action,
        )
    };
    result == 0
}

/// Installs the handler.
pub(super) fn catch() -> io::Result<()> {
    // SAFETY: sigaction is made of integers and an optional pointer, for which all zeros is a value.
    let mut action: libc::sigaction = unsafe { mem::zeroed() };
    action.sa_sigaction = handler as *const () as libc::sighandler_t;
    action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
    // SAFETY: `action` is a whole sigaction on this frame, which the kernel copies; its handler is a function that
    // lives as long as the program and is async-signal-safe.
    match unsafe { libc::sigaction(libc::SIGSYS, &raw const action, ptr::null_mut()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Ends the process at once.
pub(super) fn end() -> ! {
    // SAFETY: ends the process; no code runs after it.
    unsafe { libc::_exit(STATUS.into()) }
}

/// The kernel's description of a denied call (`_sigsys` in Linux `uapi/asm-generic/siginfo.h`).
#[repr(C)]
struct Denied {
    signo: libc::c_int,
    errno: libc::c_int,
    code: libc::c_int,
    _padding: libc::c_int,
    address: *const libc::c_void,
    call: libc::c_int,
    arch: libc::c_uint,
}

extern "C" fn handler(_: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the kernel passes a siginfo_t, which is larger than `Denied`, has its alignment, and lives until the
    // handler returns. All of its fields are integers or an unused pointer.
    let denied = unsafe { &*info.cast::<Denied>() };
    // SAFETY: with SA_SIGINFO the kernel passes a ucontext_t, which lives until the handler returns.
    let context = unsafe { &*context.cast::<libc::ucontext_t>() };
    let mut line = ViolationLine::default();
    // A truncated line is still printed.
    let _ = match denied.code {
        SYS_SECCOMP => explain(&mut line, KIND.get(), denied.call, second_argument(context)),
        _ => writeln!(
            line,
            "error: {}: SIGSYS without a denied system call",
            KIND.get()
        ),
    };
    line.write();
    end();
}

fn explain(
    line: &mut ViolationLine,
    kind: ThreadKind,
    call: libc::c_int,
    request: u64,
) -> fmt::Result {
    let name = usize::try_from(call).ok().and_then(Sysno::new);
    let name = name.map_or("of unknown name", |call| call.name());
    write!(line, "error: {kind}: system call {name} ({call}")?;
    if libc::c_long::from(call) == libc::SYS_ioctl {
        write!(line, ", request {request:#x}")?;
    }
    writeln!(
        line,
        ") is not allowed by its sandbox: the guest may have taken the VMM over, or this is a mistake in vmbell, which \
         `--sandbox off` works around"
    )
}

/// The second argument of the denied call.
#[cfg(target_arch = "x86_64")]
fn second_argument(context: &libc::ucontext_t) -> u64 {
    let registers = &context.uc_mcontext.gregs;
    registers[libc::REG_RSI as usize].cast_unsigned()
}

/// The second argument of the denied call.
#[cfg(target_arch = "aarch64")]
fn second_argument(context: &libc::ucontext_t) -> u64 {
    context.uc_mcontext.regs[1]
}

/// A line in a fixed buffer.
struct ViolationLine {
    bytes: [u8; 320],
    len: usize,
}

impl Default for ViolationLine {
    fn default() -> Self {
        Self {
            bytes: [0; 320],
            len: 0,
        }
    }
}

impl ViolationLine {
    /// Writes the line to standard error. A failure cannot be reported.
    fn write(&self) {
        // SAFETY: the call reads `len` bytes, which are part of `bytes`.
        unsafe { libc::write(libc::STDERR_FILENO, self.bytes.as_ptr().cast(), self.len) };
    }
}

impl Write for ViolationLine {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = self.bytes.get_mut(self.len..).unwrap_or_default();
        let len = text.len().min(room.len());
        for (to, from) in room.iter_mut().zip(text.bytes()) {
            *to = from;
        }
        self.len += len;
        if len < text.len() {
            Err(fmt::Error)
        } else {
            Ok(())
        }
    }
}
