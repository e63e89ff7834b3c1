//! Guest code, assembled into this program, which never runs it: it is copied into the guest's memory.
//!
//! Each piece is a read-only object of this program between two labels. It is position-independent: it refers only to
//! its own labels, relative to the instruction.
#![allow(unsafe_code)]

/// Defines the function `$name`, which returns the bytes of the code. `$begin` and `$end` are its labels, which must be
/// unique in the program. The code begins at a multiple of 128 bytes.
macro_rules! guest_code {
    (
        $(#[$doc:meta])*
        $visibility:vis fn $name:ident = $begin:ident..$end:ident {
            $($line:literal,)*
            $(; $($operand:ident = const $value:expr,)*)?
        }
    ) => {
        std::arch::global_asm!(
            ".pushsection .rodata.guest, \"a\"",
            // The functions that use the labels may be in another codegen unit.
            concat!(".globl ", stringify!($begin), ", ", stringify!($end)),
            ".balign 128",
            concat!(stringify!($begin), ":"),
            $($line,)*
            concat!(stringify!($end), ":"),
            ".popsection",
            $($($operand = const $value,)*)?
        );

        $(#[$doc])*
        $visibility fn $name() -> &'static [u8] {
            #[allow(non_upper_case_globals, reason = "labels of assembler")]
            unsafe extern "C" {
                static $begin: u8;
                static $end: u8;
            }
            $crate::kvm::code::between(&raw const $begin, &raw const $end)
        }
    };
}

pub(super) use guest_code;

/// Returns the bytes between the labels of a piece of code.
pub(super) fn between(begin: *const u8, end: *const u8) -> &'static [u8] {
    // SAFETY: both are labels of one piece (see the macro) in one read-only section of this program, with nothing else
    // between them, for as long as the program is loaded.
    unsafe { std::slice::from_raw_parts(begin, end as usize - begin as usize) }
}
