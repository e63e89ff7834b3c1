//! Guest code as bytes: assembled into the host's binary between two labels, never run there.
#![allow(unsafe_code)]

use std::fmt;

/// A guest program.
#[derive(Clone, Copy)]
pub struct Program {
    /// Its name: that of its `.S`.
    pub name: &'static str,
    /// Its code, which runs wherever it is loaded.
    pub code: &'static [u8],
}

impl fmt::Debug for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Program({}, {} bytes)", self.name, self.code.len())
    }
}

/// Assembles `.S` files of the crate that calls it into functions that give a [`Program`] each.
///
/// A file sees the offsets of its [`Parameters`](crate::guest::Parameters) and the fixed addresses as
/// `{COUNT}`, `{ADDRESS}`, `{VALUE}`, `{PAUSE}`, `{TICKS}`, `{RINGS}`, `{STAMP}`, `{ANSWERED}`,
/// `{WORD}`, `{DONE_PORT}`, `{HYPERCALL_PAGE}`, and what programs that take interrupts need besides.
/// Several files are one program, in their order.
#[macro_export]
macro_rules! guest_programs {
    ($($(#[$doc:meta])* $name:ident = $($file:literal)+;)*) => { $(
        ::std::arch::global_asm!(
            ".pushsection .rodata.guest, \"a\"",
            concat!(".globl vmbell_guest_", stringify!($name), ", vmbell_guest_end_", stringify!($name)),
            concat!(".balign 16\nvmbell_guest_", stringify!($name), ":"),
            $(include_str!($file),)+
            concat!("vmbell_guest_end_", stringify!($name), ":"),
            ".popsection",
            // Comments that mention every constant: an operand that a file does not use is an error.
            "# {COUNT} {ADDRESS} {VALUE} {PAUSE} {TICKS} {RINGS} {STAMP} {ANSWERED} {WORD} {DONE_PORT} {HYPERCALL_PAGE}",
            "# {PV_EOI} {XAPIC} {ROUTE} {PIN} {INTERRUPTS} {ENTERED} {SPARED} {READY} {TARGET} {VECTOR} {INTERRUPT_RETURN}",
            COUNT = const $crate::guest::offset::COUNT,
            ADDRESS = const $crate::guest::offset::ADDRESS,
            VALUE = const $crate::guest::offset::VALUE,
            PAUSE = const $crate::guest::offset::PAUSE,
            TICKS = const $crate::guest::offset::TICKS,
            RINGS = const $crate::guest::offset::RINGS,
            STAMP = const $crate::guest::offset::STAMP,
            ANSWERED = const $crate::guest::offset::ANSWERED,
            WORD = const $crate::guest::offset::WORD,
            DONE_PORT = const $crate::guest::DONE_PORT,
            HYPERCALL_PAGE = const $crate::guest::HYPERCALL_PAGE,
            PV_EOI = const $crate::guest::offset::PV_EOI,
            XAPIC = const $crate::guest::offset::XAPIC,
            ROUTE = const $crate::guest::offset::ROUTE,
            PIN = const $crate::guest::offset::PIN,
            INTERRUPTS = const $crate::guest::offset::INTERRUPTS,
            ENTERED = const $crate::guest::offset::ENTERED,
            SPARED = const $crate::guest::offset::SPARED,
            READY = const $crate::guest::offset::READY,
            TARGET = const $crate::guest::offset::TARGET,
            VECTOR = const $crate::guest::VECTOR,
            INTERRUPT_RETURN = const $crate::hypervisor::INTERRUPT_RETURN,
        );
        $(#[$doc])*
        pub fn $name() -> $crate::guest::Program {
            unsafe extern "C" {
                #[link_name = concat!("vmbell_guest_", stringify!($name))]
                static BEGIN: u8;
                #[link_name = concat!("vmbell_guest_end_", stringify!($name))]
                static END: u8;
            }
            let (begin, end) = (&raw const BEGIN, &raw const END);
            let len = end as usize - begin as usize;
            // SAFETY: both labels are in one read-only section of this binary, with the program's
            // bytes and nothing else between them, for as long as the binary is loaded.
            let code = unsafe { ::std::slice::from_raw_parts(begin, len) };
            $crate::guest::Program { name: stringify!($name), code }
        }
    )* };
}

/// The programs of the scenarios.
pub mod programs {
    guest_programs! {
        /// Writes four bytes to a port.
        portio = "portio.S";
        /// Writes one byte to a port.
        portio_byte = "portio_byte.S";
        /// Executes the CPU's hypercall instruction.
        vmcall = "vmcall.S";
        /// Stores four bytes to an address.
        mmio = "mmio.S";
        /// Calls the hypercall page.
        hypercall = "hypercall.S";
        /// Adds to a word in shared memory.
        word = "word.S";
        /// Drives a virtqueue and polls for what is used.
        virtqueue_polled = "virtqueue_setup.S" "virtqueue_polled.S";
        /// Drives a virtqueue and halts until it is interrupted.
        virtqueue_interrupt = "interrupt_head.S" "virtqueue_setup.S" "virtqueue_interrupt.S";
        /// Writes to a port and waits until somebody has noticed.
        notify_portio = "notify_portio.S";
        /// Stores to an address and waits until somebody has noticed.
        notify_mmio = "notify_mmio.S";
        /// Calls the hypercall page and waits until somebody has noticed.
        notify_hypercall = "notify_hypercall.S";
        /// Adds to a word in shared memory and waits until somebody has noticed.
        notify_word = "notify_word.S";
        /// Takes interrupts while it runs.
        interrupt_running = "interrupt_head.S" "interrupt_running.S";
        /// Takes interrupts while it is halted.
        interrupt_halted = "interrupt_head.S" "interrupt_halted.S";
        /// Measures the end of an interrupt.
        eoi = "interrupt_head.S" "eoi.S";
        /// Interrupts itself.
        self_ipi = "interrupt_head.S" "self_ipi.S";
        /// Interrupts another vCPU.
        ipi = "interrupt_head.S" "ipi.S";
    }
}
