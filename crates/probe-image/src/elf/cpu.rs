//! CPU instructions that Rust has no function for.

#![allow(unsafe_code)]

use core::arch::asm;

/// Why a guarded instruction did not complete: one more than the exception's vector, or `HUNG`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault(u64);

impl Fault {
    /// The fault in words, as the reason why a row has no samples.
    pub fn reason(self) -> &'static str {
        match self.0 {
            7 => "the instruction raised #UD",
            14 => "the instruction raised #GP",
            0x100 => "hung",
            _ => "the instruction raised an exception",
        }
    }
}

unsafe extern "sysv64" {
    fn guarded_rdmsr(msr: u32, value: *mut u64) -> u64;
    fn guarded_wrmsr(msr: u32, value: u64) -> u64;
    fn guarded_vmcall(number: u32) -> u64;
    fn guarded_vmmcall(number: u32) -> u64;
    fn halt_once();
}

fn checked(result: u64) -> Result<(), Fault> {
    if result == 0 {
        Ok(())
    } else {
        Err(Fault(result))
    }
}

/// Reads the time stamp counter once all earlier instructions are done.
#[inline]
pub fn ticks() -> u64 {
    let (low, high): (u32, u32);
    // SAFETY: reads a counter.
    unsafe { asm!("lfence", "rdtsc", "lfence", out("eax") low, out("edx") high, options(nostack)) };
    u64::from(high) << 32 | u64::from(low)
}

/// CPUID's EAX, EBX, ECX and EDX.
#[inline]
pub fn cpuid(leaf: u32, part: u32) -> [u32; 4] {
    let (a, b, c, d);
    // SAFETY: reads constants; LLVM keeps RBX for itself, so it is saved.
    unsafe {
        asm!(
            "mov {b:r}, rbx", "cpuid", "xchg {b:r}, rbx",
            b = out(reg) b, inout("eax") leaf => a, inout("ecx") part => c, out("edx") d,
            options(nostack, preserves_flags),
        );
    }
    [a, b, c, d]
}

/// Reads a model-specific register.
pub fn read_msr(msr: u32) -> Result<u64, Fault> {
    let mut value = 0;
    // SAFETY: `value` lives until the call returns; a fault continues after the instruction.
    checked(unsafe { guarded_rdmsr(msr, &raw mut value) })?;
    Ok(value)
}

/// Writes a model-specific register: the local APIC's, or KVM's with the address of a static.
pub fn write_msr(msr: u32, value: u64) -> Result<(), Fault> {
    // SAFETY: the image writes no register that changes how its code runs.
    checked(unsafe { guarded_wrmsr(msr, value) })
}

/// Calls the hypervisor with Intel's or AMD's instruction.
pub fn hypercall(amd: bool, number: u32) -> Result<(), Fault> {
    checked(if amd {
        // SAFETY: the numbers used have no pointers; a fault continues after the instruction.
        unsafe { guarded_vmmcall(number) }
    } else {
        // SAFETY: as above.
        unsafe { guarded_vmcall(number) }
    })
}

/// Enables interrupts.
pub fn enable_interrupts() {
    // SAFETY: all handlers are in place before this is called, and change only atomics.
    unsafe { asm!("sti", options(nostack)) };
}

/// Disables interrupts.
pub fn disable_interrupts() {
    // SAFETY: nothing depends on interrupts being enabled.
    unsafe { asm!("cli", options(nostack)) };
}

/// Halts until an interrupt. Interrupts are enabled only during the halt.
pub fn halt() {
    // SAFETY: as `enable_interrupts`.
    unsafe { halt_once() };
}

/// Causes a triple fault, which resets a PC and ends most small VMMs.
pub fn triple_fault() -> ! {
    let empty = [0_u64; 2];
    // SAFETY: this is the end: no handler is left, and nothing runs after it.
    unsafe {
        asm!("cli", "lidt [{}]", "int3", "2: hlt", "jmp 2b", in(reg) &raw const empty, options(noreturn));
    }
}

// The ports are a PC's; a port without a device reads as all ones.

/// Reads a byte from a port.
#[inline]
pub fn in8(port: u16) -> u8 {
    let value;
    // SAFETY: it touches no memory; the image's devices write only to memory that it shares with them as atomics.
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
