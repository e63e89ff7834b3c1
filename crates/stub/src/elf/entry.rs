//! The guest's registers in the kernel's signal frame (`struct ucontext`, Linux `asm/sigcontext.h`), and two assembly
//! paths on the vCPU's thread: from a signal into Rust, and back to the guest.
//!
//! The return does not use `rt_sigreturn`: it restores the extended state from the frame, builds a return frame on the
//! signal stack and executes `iretq`. That saves a system call at each exit, and the seccomp filter need not allow a
//! system call that loads arbitrary registers. It is correct because the signal mask is always empty (`SA_NODEFER`, no
//! `sa_mask`), so no mask has to be restored.

use core::arch::global_asm;
use core::mem::offset_of;

use crate::elf::percpu::{CONTEXT, PENDING_SIGNALS, RETURN_FRAME};
use crate::layout::SLOT_SIZE;

/// The part of a signal frame's `ucontext` that the stub uses.
#[repr(C)]
pub struct Context {
    flags: u64,
    link: u64,
    stack: [u64; 3],
    pub r8_to_r15: [u64; 8],
    pub rdi: u64,
    pub rsi: u64,
    pub rbp: u64,
    pub rbx: u64,
    pub rdx: u64,
    pub rax: u64,
    pub rcx: u64,
    pub rsp: u64,
    pub rip: u64,
    pub flags_register: u64,
    segments: u64,
    pub error: u64,
    pub vector: u64,
    old_mask: u64,
    pub fault_address: u64,
    pub fp_state: u64,
}

/// Register numbers as instructions encode them.
pub const RAX: u8 = 0;
pub const RCX: u8 = 1;
pub const RDX: u8 = 2;
pub const RSP: u8 = 4;
pub const RSI: u8 = 6;
pub const RDI: u8 = 7;

impl Context {
    /// The general register with this number. Numbers above 15 wrap.
    pub fn register(&mut self, number: u8) -> &mut u64 {
        match number & 15 {
            RAX => &mut self.rax,
            RCX => &mut self.rcx,
            RDX => &mut self.rdx,
            3 => &mut self.rbx,
            RSP => &mut self.rsp,
            5 => &mut self.rbp,
            RSI => &mut self.rsi,
            RDI => &mut self.rdi,
            high => &mut self.r8_to_r15[usize::from(high & 7)],
        }
    }

    /// Whether the guest ran in 64-bit mode. The stub returns to no other mode.
    #[inline(always)]
    pub fn is_64_bit(&self) -> bool {
        // `cs` comes first (`struct sigcontext_64`). Linux has a single 64-bit code segment for users.
        self.segments & 0xffff == 0x33
    }

    /// Reads `width` bytes of a register; `high` means bits 15:8 (`ah` to `bh`).
    pub fn read(&mut self, number: u8, high: bool, width: u8) -> u64 {
        let value = *self.register(number);
        truncate(if high { value >> 8 } else { value }, width)
    }

    /// Writes `width` bytes of a register the way the processor does: 4 bytes clear the upper half.
    pub fn write(&mut self, number: u8, high: bool, width: u8, value: u64) {
        let register = self.register(number);
        *register = match (width, high) {
            (1, true) => *register & !0xff00 | (value & 0xff) << 8,
            (1, false) => *register & !0xff | value & 0xff,
            (2, _) => *register & !0xffff | value & 0xffff,
            (4, _) => value & 0xffff_ffff,
            _ => value,
        };
    }
}

/// The low `width` bytes.
pub fn truncate(value: u64, width: u8) -> u64 {
    match width {
        1 => value & 0xff,
        2 => value & 0xffff,
        4 => value & 0xffff_ffff,
        _ => value,
    }
}

unsafe extern "C" {
    /// The handler of all signals.
    pub fn stub_entry();
    /// Required by the kernel's ABI, but never reached.
    pub fn stub_restorer();
    /// The start of the exit sequence. A kick that arrives in the sequence makes it start again.
    pub fn stub_exit_begin();
    /// The end of the exit sequence.
    pub fn stub_exit_end();
    /// The instruction at which a vCPU thread traps once, to enter the guest for the first time.
    pub fn stub_start();
    /// Returns to stub code that was interrupted by a kick or an interrupt signal.
    pub fn stub_resume(context: *mut Context) -> !;
}

global_asm!(
    // Restores the extended state of the context at rdi, except PKRU (bit 9), which keeps the value that the kernel set
    // for the handler.
    ".macro restore_extended_state",
    "mov rsi, [rdi + {fp_state}]",
    "mov eax, 0xfffffdff",
    "mov edx, -1",
    "xrstor64 [rsi]",
    ".endm",
    // Returns to the context at rdi. rsp may be on any stack on which signals may arrive.
    ".macro return_to_context",
    "push 0x2b",
    "push [rdi + {rsp}]",
    "push [rdi + {flags}]",
    "push 0x33",
    "push [rdi + {rip}]",
    "mov r8, [rdi + {r8}]",
    "mov r9, [rdi + {r8} + 8]",
    "mov r10, [rdi + {r8} + 16]",
    "mov r11, [rdi + {r8} + 24]",
    "mov r12, [rdi + {r8} + 32]",
    "mov r13, [rdi + {r8} + 40]",
    "mov r14, [rdi + {r8} + 48]",
    "mov r15, [rdi + {r8} + 56]",
    "mov rsi, [rdi + {rsi}]",
    "mov rbp, [rdi + {rbp}]",
    "mov rbx, [rdi + {rbx}]",
    "mov rdx, [rdi + {rdx}]",
    "mov rax, [rdi + {rax}]",
    "mov rcx, [rdi + {rcx}]",
    "mov rdi, [rdi + {rdi}]",
    "iretq",
    ".endm",
    ".pushsection .text.entry, \"ax\"",
    ".globl _start, stub_entry, stub_restorer, stub_exit_begin, stub_exit_end, stub_start, stub_resume",

    // The kernel starts the process here, on a stack that boot unmaps.
    "_start:",
    "lea rsp, [rip + boot_stack + {boot_stack_size}]",
    "xor ebp, ebp",
    "call {boot}",
    "ud2",

    // edi = signal, rsi = siginfo, rdx = context; rsp = signal stack; everything else as the guest left it. Sets the
    // flags as well: with the guest's AC or NT set, the code below would fault.
    "stub_entry:",
    "push 2",
    "popfq",
    "mov rbx, rdx",
    "mov rsi, rdx",
    "mov rdx, rsp",
    "and rdx, -{slot_size}",
    "and rsp, -16",
    "call {trap}",
    "mov rcx, rsp",
    "and rcx, -{slot_size}",
    "mov [rcx + {context}], rbx",

    "stub_exit_begin:",
    "mov rcx, rsp",
    "and rcx, -{slot_size}",
    "mov rdi, [rcx + {context}]",
    "cmp dword ptr [rcx + {pending_signals}], 0",
    "jne 2f",
    "restore_extended_state",
    // rsp stays inside the signal stack: otherwise, a signal that arrives now would reuse the top of the stack and
    // destroy the frame that is being left.
    "lea rsp, [rcx + {return_frame}]",
    "return_to_context",
    "stub_exit_end:",

    "2:",
    "mov rsi, rcx",
    "and rsp, -16",
    "call {take_pending}",
    "jmp stub_exit_begin",

    // Resumes stub code in the same way. The return frame may be on any stack of the stub.
    "stub_resume:",
    "restore_extended_state",
    "return_to_context",

    "stub_restorer:",
    "ud2",
    "stub_start:",
    "ud2",
    ".popsection",
    ".pushsection .bss.boot_stack, \"aw\", @nobits",
    ".balign 16",
    "boot_stack: .skip {boot_stack_size}",
    ".popsection",
    boot = sym crate::elf::boot::boot,
    trap = sym crate::elf::trap::stub_trap,
    take_pending = sym crate::elf::kick::take_pending,
    boot_stack_size = const 16384,
    slot_size = const SLOT_SIZE,
    return_frame = const RETURN_FRAME,
    context = const CONTEXT,
    pending_signals = const PENDING_SIGNALS,
    r8 = const offset_of!(Context, r8_to_r15),
    rdi = const offset_of!(Context, rdi),
    rsi = const offset_of!(Context, rsi),
    rbp = const offset_of!(Context, rbp),
    rbx = const offset_of!(Context, rbx),
    rdx = const offset_of!(Context, rdx),
    rax = const offset_of!(Context, rax),
    rcx = const offset_of!(Context, rcx),
    rsp = const offset_of!(Context, rsp),
    rip = const offset_of!(Context, rip),
    flags = const offset_of!(Context, flags_register),
    fp_state = const offset_of!(Context, fp_state),
);
