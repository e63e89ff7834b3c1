//! Guest code as bytes: it is assembled into the host's binary between two labels, and the host never runs it.
#![allow(unsafe_code)]

use std::fmt;

use vm_memory::{Bytes, GuestAddress, GuestMemoryError, GuestMemoryMmap};

use vmbell_hypervisor::EntryPoint;

/// The start of RAM: the page of [`Parameters`](crate::Parameters) of the first vCPU.
pub const PARAMETERS: GuestAddress = GuestAddress(vmbell_core::addresses::RAM_BASE);
/// The start of the program.
pub const CODE: GuestAddress = GuestAddress(PARAMETERS.0 + 0x1000);
/// The top of the first vCPU's stack, which grows down; the top of each further vCPU's stack is 64 KiB higher.
pub const STACK_TOP: GuestAddress = GuestAddress(PARAMETERS.0 + 0x2_0000);

/// A guest program.
#[derive(Clone, Copy)]
pub struct Program {
    /// The name of the program, which is the name of its function.
    pub name: &'static str,
    /// The code, which runs at any address.
    pub code: &'static [u8],
}

impl Program {
    /// Copies the program to [`CODE`] and returns the entry point of the vCPU with this index. Fails if guest memory
    /// has no room for the program.
    pub fn load(
        &self,
        memory: &GuestMemoryMmap,
        vcpu: u32,
    ) -> Result<EntryPoint, GuestMemoryError> {
        memory.write_slice(self.code, CODE)?;
        Ok(EntryPoint::Program {
            pc: CODE.0,
            sp: STACK_TOP.0 + 0x1_0000 * u64::from(vcpu),
            arguments: [PARAMETERS.0, vcpu.into()],
        })
    }
}

impl fmt::Debug for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Program({}, {} bytes)", self.name, self.code.len())
    }
}

/// Assembles `.S` files of the calling crate into functions that return a [`Program`] each.
///
/// The files for x86-64 come first, and the files for arm64 after `|`. A program without files for the architecture of
/// the host is empty there. If several files are named, they are one program, in this order. A file that expands macros
/// of an earlier file purges them at its end, because the assembler keeps macros by name across programs.
///
/// A file can use the offsets of the page ([`offset`](crate::offset)) as `{COUNT}`, `{ADDRESS}` and so
/// on, and `{HYPERCALL_PAGE}`; on x86-64 also `{DONE_PORT}`, `{VECTOR}` and `{INTERRUPT_RETURN}`; on arm64
/// `{DONE_ADDRESS}`, and the places of the interrupt controllers, `{GICD}`, `{GICC}`, `{GICR}` and `{ITS}`, each of
/// which fits into one `mov`.
#[macro_export]
macro_rules! guest_programs {
    ($($(#[$doc:meta])* $name:ident = $($x86_64:literal)* $(| $($aarch64:literal)+)?;)*) => { $(
        #[cfg(target_arch = "x86_64")]
        $crate::guest_page! { assemble_guest_program [
            $name [$($x86_64)*]
            DONE_PORT = $crate::DONE_PORT;
            HYPERCALL_PAGE = $crate::HYPERCALL_PAGE;
            VECTOR = $crate::VECTOR;
            INTERRUPT_RETURN = $crate::INTERRUPT_RETURN;
        ] }
        #[cfg(target_arch = "aarch64")]
        $crate::guest_page! { assemble_guest_program [
            $name [$($($aarch64)+)?]
            DONE_ADDRESS = $crate::DONE_ADDRESS;
            HYPERCALL_PAGE = $crate::HYPERCALL_PAGE;
            GICD = $crate::GICD;
            GICC = $crate::GICC;
            GICR = $crate::GICR;
            ITS = $crate::ITS;
        ] }
        $(#[$doc])*
        pub fn $name() -> $crate::Program {
            #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
            let code = {
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
                unsafe { ::std::slice::from_raw_parts(begin, len) }
            };
            #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
            let code = &[];
            $crate::Program { name: stringify!($name), code }
        }
    )* };
}

/// Puts one program between two labels.
#[doc(hidden)]
#[macro_export]
macro_rules! assemble_guest_program {
    (
        [$name:ident [$($file:literal)*] $($constant:ident = $value:expr;)*]
        $($at:literal $word:ident $what:literal)*
    ) => {
        ::std::arch::global_asm!(
            ".pushsection .rodata.guest, \"a\"",
            concat!(".globl vmbell_guest_", stringify!($name), ", vmbell_guest_end_", stringify!($name)),
            concat!(".balign 16\nvmbell_guest_", stringify!($name), ":"),
            $(include_str!($file),)*
            concat!("vmbell_guest_end_", stringify!($name), ":"),
            ".popsection",
            // This assembler comment mentions every constant, because an operand that no file uses is an error.
            concat!("/*", $(" {", stringify!($constant), "}",)* $(" {", stringify!($word), "}",)* " */"),
            $($word = const $at,)*
            $($constant = const $value,)*
        );
    };
}
