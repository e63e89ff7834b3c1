//! The frequency of the time stamp counter, computed from what a VMM or a timer reports. A frequency is never guessed.

/// The frequency of the power management timer (ACPI 6.5, 4.8.3.3), in hertz.
pub const PM_TIMER_HZ: u64 = 3_579_545;

/// The TSC's frequency in hertz from a pvclock page: `nanoseconds = (ticks << shift) * multiplier >> 32`, where a
/// negative shift shifts right (Linux, `Documentation/virt/kvm/x86/msr.rst`).
pub fn pvclock_hz(multiplier: u32, shift: i8) -> Option<u64> {
    let hz = (1_000_000_000_u64 << 32).checked_div(u64::from(multiplier))?;
    let places = u32::from(shift.unsigned_abs());
    let hz = if shift < 0 {
        // `checked_shl` does not detect bits that are shifted out.
        hz.checked_mul(1_u64.checked_shl(places)?)?
    } else {
        hz.checked_shr(places)?
    };
    plausible(hz)
}

/// The TSC's frequency in hertz from CPUID leaf 0x15: the crystal's frequency, and the ratio.
pub fn cpuid_hz(denominator: u32, numerator: u32, crystal_hz: u32) -> Option<u64> {
    let hz = u64::from(crystal_hz) * u64::from(numerator);
    plausible(hz.checked_div(u64::from(denominator))?)
}

/// The TSC's frequency in hertz from the TSC's ticks while the power management timer advanced.
pub fn pm_timer_hz(ticks: u64, pm_ticks: u64) -> Option<u64> {
    plausible(ticks.checked_mul(PM_TIMER_HZ)?.checked_div(pm_ticks)?)
}

/// Returns a frequency if a time stamp counter can have it: from 1 MHz to 100 GHz.
pub fn plausible(hz: u64) -> Option<u64> {
    (1_000_000..=100_000_000_000).contains(&hz).then_some(hz)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{cpuid_hz, pm_timer_hz, pvclock_hz};

    #[test]
    fn a_pvclock_of_one_gigahertz_is_read() {
        assert_eq!(pvclock_hz(1 << 31, 1), Some(1_000_000_000));
        assert_eq!(pvclock_hz(1 << 31, 0), Some(2_000_000_000));
        assert_eq!(pvclock_hz(1 << 31, -1), Some(4_000_000_000));
    }

    #[test]
    fn an_absent_clock_has_no_frequency() {
        assert_eq!(pvclock_hz(0, 0), None);
        assert_eq!(pvclock_hz(1, -127), None);
        assert_eq!(pvclock_hz(1, 127), None);
        assert_eq!(cpuid_hz(0, 1, 1), None);
        assert_eq!(cpuid_hz(1, 1, 0), None);
        assert_eq!(pm_timer_hz(1, 0), None);
        assert_eq!(pm_timer_hz(u64::MAX, 1), None);
    }

    #[test]
    fn a_crystal_and_its_ratio_give_the_frequency() {
        assert_eq!(cpuid_hz(2, 168, 25_000_000), Some(2_100_000_000));
        assert_eq!(pm_timer_hz(30_000_000, 35_795), Some(3_000_037_714));
    }

    proptest! {
        #[test]
        fn any_pvclock_is_read(multiplier: u32, shift: i8) {
            let _ = pvclock_hz(multiplier, shift);
        }
    }
}
