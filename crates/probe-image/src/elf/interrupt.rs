//! The table of interrupt handlers (interrupt.S), and the words that they share with the rows.

#![allow(unsafe_code)]

use core::arch::asm;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use super::{ending, serial::say};
use crate::number::Digits;

/// The vector that a row waits for.
pub const ROW_VECTOR: u8 = 0x40;
/// The vector of the watchdog.
pub const WATCHDOG_VECTOR: u8 = 0x41;
/// The vector of the second CPU's only interrupt.
pub const SECOND_CPU_VECTOR: u8 = 0x42;
/// The vector of level lines, with the same handler as `ROW_VECTOR`. If a VMM's own process emulates the I/O APIC, a
/// vector that a level line has used keeps its EOI exit, and loses PV EOI, even after the line is masked.
pub const LINE_VECTOR: u8 = 0x43;
/// The vector of the local APIC's spurious interrupts.
pub const SPURIOUS_VECTOR: u8 = 0xff;

macro_rules! shared {
    ($($(#[$doc:meta])* $name:ident: $type:ident;)*) => {
        $($(#[$doc])*
        #[unsafe(no_mangle)]
        pub static $name: $type = $type::new(0);)*
    };
}

shared! {
    /// The number of interrupts of `ROW_VECTOR`.
    INTERRUPTS: AtomicU64;
    /// The time stamp counter when the handler of the last of these interrupts began.
    INTERRUPT_AT: AtomicU64;
    /// The ticks that the EOIs of these interrupts took in total.
    EOI_TICKS: AtomicU64;
    /// How many times the watchdog fired.
    WATCHDOGS: AtomicU64;
    /// The number of interrupts that no row was waiting for.
    STRAYS: AtomicU64;
    /// The last fault of a guarded instruction.
    FAULT: AtomicU64;
    /// The address of the local APIC's registers, in xAPIC mode.
    APIC_ADDRESS: AtomicU64;
    /// How an EOI is written: 1 to the memory-mapped register, 2 to the MSR.
    EOI_MODE: AtomicU32;
    /// Whether the bit in `PV_EOI_WORD` may end an interrupt.
    PV_EOI_ON: AtomicU32;
    /// KVM's paravirtual EOI: bit 0 says that the EOI may be skipped.
    PV_EOI_WORD: AtomicU32;
    /// How many times the second CPU was interrupted, plus one for its start.
    SECOND_CPU_INTERRUPTS: AtomicU64;
    /// Like `EOI_MODE`, for the second CPU.
    SECOND_CPU_EOI_MODE: AtomicU32;
    /// The address of the interrupt status register of a level line's device, or 0.
    STATUS_ADDRESS: AtomicU64;
    /// Whether that register is virtio-mmio's, which needs a write to acknowledge; PCI's is acknowledged by the read.
    STATUS_ACKNOWLEDGE: AtomicU32;
}

#[repr(C, align(16))]
struct Gate([AtomicU32; 4]);

#[unsafe(no_mangle)]
static GATES: [Gate; 256] = [const { Gate([const { AtomicU32::new(0) }; 4]) }; 256];

unsafe extern "C" {
    fn interrupt_entry();
    fn watchdog_entry();
    fn second_cpu_entry();
    fn stray_entry();
    fn exception_entries();
}

impl Gate {
    /// Sets an interrupt gate to a handler, on one of the stacks of boot.S.
    fn set(&self, handler: u64, stack: u32) {
        let low = (handler & 0xffff) as u32;
        let middle = (handler & 0xffff_0000) as u32;
        let words = [
            8 << 16 | low,
            middle | 0x8e00 | stack,
            (handler >> 32) as u32,
            0,
        ];
        for (place, word) in self.0.iter().zip(words) {
            place.store(word, Relaxed);
        }
    }
}

/// Installs the handlers. Interrupts stay disabled.
pub fn install() {
    for (vector, gate) in (0_u64..).zip(&GATES) {
        match vector {
            0..32 => gate.set(exception_entries as *const () as u64 + 16 * vector, 2),
            0x40 | 0x43 => gate.set(interrupt_entry as *const () as u64, 1),
            0x41 => gate.set(watchdog_entry as *const () as u64, 1),
            0x42 => gate.set(second_cpu_entry as *const () as u64, 0),
            _ => gate.set(stray_entry as *const () as u64, 1),
        }
    }
    // SAFETY: the table is static, and its handlers keep all registers.
    unsafe { asm!("lidt [interrupt_table]", options(nostack)) };
}

/// The number of a row's interrupts.
#[inline]
pub fn count() -> u64 {
    INTERRUPTS.load(Relaxed)
}

/// Handles an exception of an instruction that is not guarded: a bug of the image or of the VMM.
#[unsafe(no_mangle)]
extern "sysv64" fn exception_fatal(vector: u64, error: u64, rip: u64, cr2: u64) -> ! {
    let hex = Digits::hexadecimal;
    say!(
        "=== vmbell-probe exception ",
        Digits::decimal(vector),
        " error 0x",
        hex(error),
        " rip 0x",
        hex(rip),
        " cr2 0x",
        hex(cr2),
        " ==="
    );
    ending::end_without_tables()
}
