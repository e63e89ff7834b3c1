//! Guest code as bytes: it is assembled into the host's binary between two labels, and the host never runs it.
#![allow(unsafe_code)]

use std::fmt;

/// A guest program.
#[derive(Clone, Copy)]
pub struct Program {
    /// The name of the program, which is that of its function.
    pub name: &'static str,
    /// The code, which runs at any address.
    pub code: &'static [u8],
}

impl fmt::Debug for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Program({}, {} bytes)", self.name, self.code.len())
    }
}

/// Assembles `.S` files of the calling crate into functions that return a [`Program`] each.
///
/// A file can use the offsets of the page ([`offset`](crate::guest::offset)) as `{COUNT}`, `{ADDRESS}` and so
/// on, and `{DONE_PORT}`, `{HYPERCALL_PAGE}`, `{VECTOR}` and `{INTERRUPT_RETURN}`. If several files are named,
/// they are one program, in this order. A file that expands macros of one before it purges them at its end, since
/// the assembler knows macros by name across programs.
#[macro_export]
macro_rules! guest_programs {
    ($($(#[$doc:meta])* $name:ident = $($file:literal)+;)*) => { $(
        #[cfg(target_arch = "x86_64")]
        $crate::guest_page! { assemble_guest_program [$name $($file)+] }
        $(#[$doc])*
        pub fn $name() -> $crate::guest::Program {
            #[cfg(target_arch = "x86_64")]
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
            #[cfg(not(target_arch = "x86_64"))]
            let code = &[];
            $crate::guest::Program { name: stringify!($name), code }
        }
    )* };
}

/// Puts one program between two labels.
#[doc(hidden)]
#[macro_export]
macro_rules! assemble_guest_program {
    ([$name:ident $($file:literal)+] $($at:literal $word:ident $what:literal)*) => {
        ::std::arch::global_asm!(
            ".pushsection .rodata.guest, \"a\"",
            concat!(".globl vmbell_guest_", stringify!($name), ", vmbell_guest_end_", stringify!($name)),
            concat!(".balign 16\nvmbell_guest_", stringify!($name), ":"),
            $(include_str!($file),)+
            concat!("vmbell_guest_end_", stringify!($name), ":"),
            ".popsection",
            // This assembler comment mentions every constant, because an operand that no file uses is an error.
            concat!("# {DONE_PORT} {HYPERCALL_PAGE} {VECTOR} {INTERRUPT_RETURN}", $(" {", stringify!($word), "}",)*),
            $($word = const $at,)*
            DONE_PORT = const $crate::guest::DONE_PORT,
            HYPERCALL_PAGE = const $crate::guest::HYPERCALL_PAGE,
            VECTOR = const $crate::guest::VECTOR,
            INTERRUPT_RETURN = const $crate::hypervisor::x86_64::INTERRUPT_RETURN,
        );
    };
}
