//! The power management registers of ACPI: PM1a (ACPI 6.5, 4.8.3.1 and 4.8.3.2), which has events and the request to
//! sleep, and the timer (4.8.3.3), which has 24 bits and counts at 3.579545 MHz. Hardware-reduced ACPI has the sleep
//! registers (4.8.3.7) instead.
//!
//! The clock (RTC) has the only event. ACPI mode is always on. vCPU threads access the registers, the clock's thread
//! raises the event, and the thread that runs the sleeping machine waits for it.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use vmbell::bus::BusDevice;
use vmbell::sync::{Condvar, Mutex};

/// The first port of the event registers: status, then enable, two bytes each.
pub const PM1_EVENT_PORT: u16 = 0x600;
/// How many ports the event registers have.
pub const PM1_EVENT_LEN: u8 = 4;
/// The first port of the control register, directly after the event registers.
pub const PM1_CONTROL_PORT: u16 = PM1_EVENT_PORT + PM1_EVENT_LEN as u16;
/// How many ports the control register has.
pub const PM1_CONTROL_LEN: u8 = 2;
/// The interrupt line of the events (SCI).
pub const SCI_GSI: u32 = 9;

/// The clock's event, in the status and in the enable register.
const RTC: u16 = 1 << 10;
/// Status: the machine has woken up.
const WAKE: u16 = 1 << 15;
/// Enable: the bits that can be set: timer, global lock, both buttons and clock.
const ENABLES: u16 = 1 | 1 << 5 | 1 << 8 | 1 << 9 | RTC;
/// Control: events raise the SCI, since ACPI mode is on.
const SCI_ENABLE: u16 = 1;
/// Control: the position of the three bits with the kind of sleep.
const SLEEP_TYPE: u32 = 10;
/// Control: go to sleep; reads as 0.
const SLEEP: u16 = 1 << 13;

/// How often a waiting thread checks whether it should continue to wait.
const PERIOD: Duration = Duration::from_millis(20);

/// How a guest sleeps. The values are QEMU's, and the DSDT has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sleep {
    /// S3, suspend to RAM.
    S3,
    /// S5, off.
    S5,
}

impl Sleep {
    /// The value of the control register's field for this sleep.
    pub const fn kind(self) -> u8 {
        match self {
            Self::S5 => 0,
            Self::S3 => 1,
        }
    }

    fn of(control: u16) -> Option<Self> {
        let kind = control >> SLEEP_TYPE & 7;
        [Self::S3, Self::S5]
            .into_iter()
            .find(|sleep| u16::from(sleep.kind()) == kind)
    }
}

/// The PM1a registers.
#[derive(Debug, Default)]
struct Pm1Registers {
    status: u16,
    enable: u16,
    control: u16,
    sci: bool,
}

impl Pm1Registers {
    const fn is_event(&self) -> bool {
        self.status & self.enable & RTC != 0
    }

    fn bytes(&self) -> [u8; 6] {
        let mut bytes = [0; 6];
        let words = [self.status, self.enable, self.control | SCI_ENABLE];
        for (to, word) in bytes.chunks_exact_mut(2).zip(words) {
            to.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }
}

/// The PM1a registers. Clones share their state.
#[derive(Clone)]
pub struct Pm1(Arc<Pm1Shared>);

struct Pm1Shared {
    registers: Mutex<Pm1Registers>,
    raised: Condvar,
    sci: Box<dyn Fn(bool) + Send + Sync>,
    sleep: Box<dyn Fn(Sleep) + Send + Sync>,
}

impl Pm1 {
    /// Creates registers that call `sci` with each new level of their interrupt line, and `sleep` when the guest goes
    /// to sleep, on the vCPU's thread. `sleep` must keep that vCPU from continuing.
    pub fn new(
        sci: impl Fn(bool) + Send + Sync + 'static,
        sleep: impl Fn(Sleep) + Send + Sync + 'static,
    ) -> Self {
        Self(Arc::new(Pm1Shared {
            registers: Mutex::default(),
            raised: Condvar::new(),
            sci: Box::new(sci),
            sleep: Box::new(sleep),
        }))
    }

    /// Raises the clock's event.
    pub fn raise_rtc(&self) {
        let mut registers = self.0.registers.lock();
        registers.status |= RTC;
        self.interrupt(&mut registers);
        self.0.raised.notify_all();
    }

    /// Waits until an event wakes the sleeping machine, and then returns true. Returns false once `until`, which is
    /// called every 20 ms, returns true.
    pub fn wait_for_wake(&self, until: impl Fn() -> bool) -> bool {
        let mut registers = self.0.registers.lock();
        while !registers.is_event() {
            drop(self.0.raised.wait_timeout(registers, PERIOD));
            if until() {
                return false;
            }
            registers = self.0.registers.lock();
        }
        registers.status |= WAKE;
        true
    }

    fn interrupt(&self, registers: &mut Pm1Registers) {
        let level = registers.is_event();
        if std::mem::replace(&mut registers.sci, level) != level {
            (self.0.sci)(level);
        }
    }

    /// Writes one byte, and returns how the guest goes to sleep, if the write starts a sleep.
    fn write_byte(&self, offset: u64, byte: u8) -> Option<Sleep> {
        let mut registers = self.0.registers.lock();
        let shift = 8 * (offset & 1);
        let (bits, mask) = (u16::from(byte) << shift, 0xff << shift);
        match offset {
            // A status bit is cleared by writing it as 1.
            0 | 1 => registers.status &= !bits,
            2 | 3 => registers.enable = (registers.enable & !mask | bits) & ENABLES,
            4 | 5 => {
                registers.control = (registers.control & !mask | bits) & !(SLEEP | SCI_ENABLE);
            }
            _ => {}
        }
        self.interrupt(&mut registers);
        // The bit that starts the sleep is in the upper byte, next to the kind of sleep.
        (offset == 5 && bits & SLEEP != 0)
            .then(|| Sleep::of(bits))
            .flatten()
    }
}

impl BusDevice for Pm1 {
    fn read(&self, offset: u64, data: &mut [u8]) {
        let from = usize::try_from(offset).unwrap_or(usize::MAX);
        let bytes = self.0.registers.lock().bytes();
        data.fill(0);
        for (byte, kept) in data.iter_mut().zip(bytes.iter().skip(from)) {
            *byte = *kept;
        }
    }

    fn write(&self, offset: u64, data: &[u8]) {
        let bytes = (offset..=5).zip(data);
        let sleep = bytes
            .filter_map(|(at, byte)| self.write_byte(at, *byte))
            .last();
        if let Some(sleep) = sleep {
            (self.0.sleep)(sleep);
        }
    }
}

impl fmt::Debug for Pm1 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Pm1")
    }
}

/// The first port of the timer.
pub const PM_TIMER_PORT: u16 = 0x608;
/// How many ports the timer has.
pub const PM_TIMER_LEN: u8 = 4;

const HERTZ: u64 = 3_579_545;
const MASK: u64 = 0xff_ffff;

/// The timer, which counts from its creation. Runs on the thread of the vCPU that reads it.
#[derive(Debug)]
pub struct PmTimer {
    begun: Instant,
}

impl PmTimer {
    /// Creates a timer that starts at 0 now.
    pub fn new() -> Self {
        Self {
            begun: Instant::now(),
        }
    }
}

impl Default for PmTimer {
    fn default() -> Self {
        Self::new()
    }
}

/// The timer's value after the `elapsed` time.
fn ticks(elapsed: Duration) -> u32 {
    // Only the low bits of the product are kept, so it may wrap.
    let seconds = elapsed.as_secs().wrapping_mul(HERTZ);
    let rest = u64::from(elapsed.subsec_nanos()) * HERTZ / 1_000_000_000;
    (seconds.wrapping_add(rest) & MASK) as u32
}

impl BusDevice for PmTimer {
    fn read(&self, offset: u64, data: &mut [u8]) {
        let register = ticks(self.begun.elapsed()).to_le_bytes();
        if let (0, Ok(whole)) = (offset, <&mut [u8; 4]>::try_from(&mut *data)) {
            *whole = register;
            return;
        }
        let from = usize::try_from(offset).unwrap_or(usize::MAX);
        for (index, byte) in data.iter_mut().enumerate() {
            let at = from.checked_add(index);
            *byte = at.and_then(|at| register.get(at)).copied().unwrap_or(0);
        }
    }

    fn write(&self, _offset: u64, _data: &[u8]) {}
}

/// The first of the sleep registers: control, then status.
pub const SLEEP_PORTS: u16 = PM1_EVENT_PORT;
/// How many sleep registers there are; each has one port.
pub const SLEEP_PORTS_LEN: u8 = 2;

/// Sleep control: go to sleep; write-only.
const SLEEP_NOW: u8 = 1 << 5;
/// Sleep control: the position of the three bits with the kind of sleep.
const SLEEP_KIND: u32 = 2;

/// The sleep registers of hardware-reduced ACPI. The only sleep is S5, off, from which no guest wakes up. So the status
/// register, which would report a wake-up, is always 0. Runs on the thread of the vCPU that writes.
pub struct SleepRegisters<F>(F);

impl<F: Fn() + Send + Sync> SleepRegisters<F> {
    /// Creates registers that call `off` when the guest switches itself off.
    pub const fn new(off: F) -> Self {
        Self(off)
    }
}

impl<F: Fn() + Send + Sync> BusDevice for SleepRegisters<F> {
    fn read(&self, _offset: u64, data: &mut [u8]) {
        data.fill(0);
    }

    fn write(&self, offset: u64, data: &[u8]) {
        if let (0, [control]) = (offset, data)
            && control & SLEEP_NOW != 0
            && control >> SLEEP_KIND & 7 == Sleep::S5.kind()
        {
            (self.0)();
        }
    }
}

impl<F> fmt::Debug for SleepRegisters<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SleepRegisters")
    }
}

#[cfg(test)]
#[path = "power_test.rs"]
mod tests;
