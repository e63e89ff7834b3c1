//! The instructions `in` and `out`. The ports are those of a PC; a port without a device reads as ones.

#![allow(unsafe_code)]

use core::arch::asm;

/// Reads a byte from a port.
#[inline]
pub fn in8(port: u16) -> u8 {
    let value;
    // SAFETY: no memory is touched; the image's devices write only to memory that is shared with them by atomics.
    unsafe { asm!("in al, dx", out("al") value, in("dx") port, options(nostack)) };
    value
}

/// Reads four bytes from a port.
#[inline]
pub fn in32(port: u16) -> u32 {
    let value;
    // SAFETY: as in `in8`.
    unsafe { asm!("in eax, dx", out("eax") value, in("dx") port, options(nostack)) };
    value
}

/// Writes a byte to a port.
#[inline]
pub fn out8(port: u16, value: u8) {
    // SAFETY: as in `in8`.
    unsafe { asm!("out dx, al", in("al") value, in("dx") port, options(nostack)) };
}

/// Writes two bytes to a port.
#[inline]
pub fn out16(port: u16, value: u16) {
    // SAFETY: as in `in8`.
    unsafe { asm!("out dx, ax", in("ax") value, in("dx") port, options(nostack)) };
}

/// Writes four bytes to a port.
#[inline]
pub fn out32(port: u16, value: u32) {
    // SAFETY: as in `in8`.
    unsafe { asm!("out dx, eax", in("eax") value, in("dx") port, options(nostack)) };
}
