//! The ACPI power management timer (ACPI 6.5, 4.8.3.3): 24 bits that count at 3.579545 MHz.

use std::time::{Duration, Instant};

use vmbell::bus::BusDevice;

/// The first of its ports.
pub const PM_TIMER_PORT: u16 = 0x608;
/// How many ports it has.
pub const PM_TIMER_LEN: u8 = 4;

const HERTZ: u64 = 3_579_545;
const MASK: u64 = 0xff_ffff;

/// The timer, which counts from its creation on. It runs on the thread of the vCPU that reads it.
#[derive(Debug)]
pub struct PmTimer {
    begun: Instant,
}

impl PmTimer {
    /// A timer that starts at 0 now.
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

/// The value of the timer after a time.
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

#[cfg(test)]
#[path = "pm_timer_test.rs"]
mod tests;
