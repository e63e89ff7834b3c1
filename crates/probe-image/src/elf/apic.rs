//! The local APIC in both modes, and its timer (Intel SDM volume 3, chapter 12). The I/O APICs: which one has a GSI,
//! and how its pin is unmasked and masked.

use core::sync::atomic::Ordering::Relaxed;

use super::cpu::{read_msr, ticks, write_msr};
use super::hypervisor::Cpu;
use super::interrupt::{
    APIC_ADDRESS, EOI_MODE, LINE_VECTOR, ROW_VECTOR, SPURIOUS_VECTOR, WATCHDOG_VECTOR, WATCHDOGS,
};
use super::memory::Registers;
use super::time::wait_until;
use crate::acpi::madt::{IoApic, pin};

const APIC_BASE: u32 = 0x1b;
const ENABLED: u64 = 1 << 11;
const X2APIC: u64 = 1 << 10;
const X2APIC_MSRS: u32 = 0x800;
const TSC_DEADLINE: u32 = 0x6e0;

const ID: u32 = 0x20;
pub const TASK_PRIORITY: u32 = 0x80;
pub const EOI: u32 = 0xb0;
const SPURIOUS: u32 = 0xf0;
pub const COMMAND: u32 = 0x300;
const COMMAND_HIGH: u32 = 0x310;
const TIMER: u32 = 0x320;
const INITIAL_COUNT: u32 = 0x380;
const CURRENT_COUNT: u32 = 0x390;
const DIVIDE: u32 = 0x3e0;
/// x2APIC's register for a self-IPI.
const SELF_IPI: u32 = 0x83f;

/// Bits of a timer and of a pin.
const MASKED: u32 = 1 << 16;
const PERIODIC: u32 = 1 << 17;
const DEADLINE: u32 = 2 << 17;
const DIVIDE_BY_ONE: u32 = 0b1011;
/// The watchdog's period: half a second at the 1 GHz of KVM's and QEMU's timers.
const WATCHDOG_COUNT: u32 = 500_000_000;

/// How the local APIC's registers are reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// The local APIC is missing or off.
    None,
    /// In memory.
    Xapic,
    /// As model-specific registers.
    X2apic,
}

impl Mode {
    /// The mode's name in the report.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Xapic => "xapic",
            Self::X2apic => "x2apic",
        }
    }
}

/// The local APIC of this CPU.
#[derive(Clone, Copy)]
pub struct LocalApic {
    pub mode: Mode,
    registers: Option<Registers>,
    /// Whether the timer has interrupted.
    pub has_timer: bool,
    /// Ticks of the time stamp counter, and the number of counts of the timer that took them.
    ticks_for_counts: (u64, u64),
}

impl LocalApic {
    /// Finds the local APIC, in the mode in which the VMM left it, and enables it.
    pub fn new(cpu: &Cpu) -> Self {
        let mut apic = Self {
            mode: Mode::None,
            registers: None,
            has_timer: false,
            ticks_for_counts: (0, 0),
        };
        let base = if cpu.has_apic() {
            read_msr(APIC_BASE).unwrap_or(0)
        } else {
            0
        };
        if base & ENABLED == 0 {
            return apic;
        }
        let address = base & 0x000f_ffff_ffff_f000;
        apic.registers = Registers::new(address, 0x1000);
        if base & X2APIC != 0 {
            apic.mode = Mode::X2apic;
        } else if apic.registers.is_some() {
            APIC_ADDRESS.store(address, Relaxed);
            apic.mode = Mode::Xapic;
        } else {
            return apic;
        }
        apic.begin();
        apic
    }

    fn begin(&self) {
        EOI_MODE.store(if self.mode == Mode::X2apic { 2 } else { 1 }, Relaxed);
        self.write(SPURIOUS, 0x100 | u32::from(SPURIOUS_VECTOR));
        self.write(TASK_PRIORITY, 0);
        self.write(TIMER, MASKED);
    }

    /// Switches to x2APIC mode. The switch is irreversible.
    pub fn switch_to_x2apic(&mut self, cpu: &Cpu) -> Result<(), &'static str> {
        match self.mode {
            Mode::X2apic => return Ok(()),
            Mode::None => return Err("there is no local APIC"),
            Mode::Xapic if !cpu.has_x2apic() => return Err("the CPU has no x2APIC"),
            Mode::Xapic => {}
        }
        let base = read_msr(APIC_BASE).map_err(|fault| fault.reason())?;
        write_msr(APIC_BASE, base | X2APIC).map_err(|_| "the switch to x2APIC mode raised #GP")?;
        self.mode = Mode::X2apic;
        self.begin();
        Ok(())
    }

    /// Reads the register with this xAPIC offset.
    pub fn read(&self, register: u32) -> u32 {
        match (self.mode, self.registers) {
            (Mode::X2apic, _) => {
                (read_msr(X2APIC_MSRS + (register >> 4)).unwrap_or(0) & 0xffff_ffff) as u32
            }
            (Mode::Xapic, Some(registers)) => registers.read32(u64::from(register)),
            _ => 0,
        }
    }

    /// Writes the register with this xAPIC offset.
    #[inline]
    pub fn write(&self, register: u32, value: u32) {
        match (self.mode, self.registers) {
            (Mode::X2apic, _) => {
                let _ = write_msr(X2APIC_MSRS + (register >> 4), u64::from(value));
            }
            (Mode::Xapic, Some(registers)) => registers.write32(u64::from(register), value),
            _ => {}
        }
    }

    /// This CPU's number, as the destination of interrupts.
    pub fn id(&self) -> u32 {
        match self.mode {
            Mode::X2apic => self.read(ID),
            _ => self.read(ID) >> 24,
        }
    }

    /// Interrupts this CPU.
    #[inline]
    pub fn interrupt_self(&self, vector: u8) {
        const SELF: u32 = 1 << 18;
        match self.mode {
            Mode::X2apic => {
                let _ = write_msr(SELF_IPI, u64::from(vector));
            }
            _ => self.write(COMMAND, SELF | u32::from(vector)),
        }
    }

    /// Sends an interrupt command to another CPU: INIT, start-up or a vector.
    #[inline]
    pub fn command(&self, to: u32, command: u32) {
        match self.mode {
            Mode::X2apic => {
                let _ = write_msr(
                    X2APIC_MSRS + (COMMAND >> 4),
                    u64::from(to) << 32 | u64::from(command),
                );
            }
            _ => {
                self.write(COMMAND_HIGH, to << 24);
                self.write(COMMAND, command);
            }
        }
    }

    /// Starts the timer for one interrupt after this many counts.
    #[inline]
    pub fn start_count(&self, count: u32) {
        self.write(INITIAL_COUNT, count);
    }

    /// Starts the timer for one interrupt when the time stamp counter has this value.
    #[inline]
    pub fn start_deadline(&self, at: u64) {
        let _ = write_msr(TSC_DEADLINE, at);
    }

    /// Sets the timer up for one interrupt at a time, for a row.
    pub fn set_timer(&self, deadline: bool) {
        self.write(DIVIDE, DIVIDE_BY_ONE);
        let mode = if deadline { DEADLINE } else { 0 };
        self.write(TIMER, mode | u32::from(ROW_VECTOR));
    }

    /// Stops the timer.
    pub fn stop_timer(&self) {
        self.write(TIMER, MASKED);
        self.write(INITIAL_COUNT, 0);
    }

    /// Starts the watchdog, which interrupts repeatedly until the timer is stopped: it wakes a CPU whose interrupt does
    /// not come, and ends an instruction that never completes.
    pub fn start_watchdog(&self) {
        self.start_periodic(WATCHDOG_COUNT);
    }

    /// Starts the watchdog with this period, in counts of the timer.
    pub fn start_periodic(&self, count: u32) {
        if self.has_timer {
            self.write(DIVIDE, DIVIDE_BY_ONE);
            self.write(TIMER, PERIODIC | u32::from(WATCHDOG_VECTOR));
            self.write(INITIAL_COUNT, count);
        }
    }

    /// Finds out whether the timer interrupts, and how fast it counts.
    pub fn try_timer(&mut self) {
        if self.mode == Mode::None {
            return;
        }
        let before = WATCHDOGS.load(Relaxed);
        self.write(DIVIDE, DIVIDE_BY_ONE);
        self.write(TIMER, u32::from(WATCHDOG_VECTOR));
        self.write(INITIAL_COUNT, 1000);
        super::cpu::enable_interrupts();
        self.has_timer = wait_until(|| WATCHDOGS.load(Relaxed) != before);
        super::cpu::disable_interrupts();
        self.write(TIMER, MASKED);
        self.write(INITIAL_COUNT, u32::MAX);
        let (count, from) = (self.read(CURRENT_COUNT), ticks());
        wait_until(|| ticks() - from > 2_000_000);
        let (counts, ticks) = (count.wrapping_sub(self.read(CURRENT_COUNT)), ticks() - from);
        self.ticks_for_counts = (ticks, u64::from(counts));
        self.stop_timer();
    }

    /// Converts ticks to counts of the timer.
    pub fn counts(&self, ticks: u64) -> Option<u32> {
        let (all, counts) = self.ticks_for_counts;
        let count = ticks.checked_mul(counts)?.checked_div(all)?;
        u32::try_from(count).ok().filter(|count| *count != 0)
    }
}

// Registers of an I/O APIC.
const SELECT: u64 = 0;
const WINDOW: u64 = 0x10;
const FIRST_ENTRY: u32 = 0x10;
const LEVEL: u32 = 1 << 15;

/// A pin of an I/O APIC.
#[derive(Clone, Copy)]
pub struct Pin {
    registers: Registers,
    number: u32,
    level: bool,
}

impl Pin {
    /// The pin of a GSI.
    pub fn new(io_apics: &[Option<IoApic>], gsi: u32, level: bool) -> Option<Self> {
        let (address, number) = pin(io_apics, gsi)?;
        Some(Self {
            registers: Registers::new(address, 0x20)?,
            number,
            level,
        })
    }

    /// Unmasks the pin, and sends its interrupts to a CPU.
    pub fn open(self, cpu: u32) {
        let level = if self.level { LEVEL } else { 0 };
        self.set(1, cpu << 24);
        self.set(0, level | u32::from(LINE_VECTOR));
    }

    /// Masks the pin.
    pub fn close(self) {
        self.set(0, MASKED);
    }

    fn set(self, half: u32, value: u32) {
        self.registers
            .write32(SELECT, FIRST_ENTRY + 2 * self.number + half);
        self.registers.write32(WINDOW, value);
    }
}
