//! Numbers as text, and numbers from little-endian bytes, where bytes may be missing.
//!
//! The text is written without `core::fmt`, whose precompiled code has vector instructions: if a host emulates the
//! guest's kernel mode, these cause an invalid-opcode exception.

/// The maximum number of digits of a number.
const DIGITS: usize = 20;

/// The digits of a number.
#[derive(Clone, Copy, Debug)]
pub struct Digits {
    /// The digits, at the end of the array.
    text: [u8; DIGITS],
    begin: usize,
}

impl Digits {
    /// A number in base ten.
    pub fn decimal(number: u64) -> Self {
        Self::new::<10>(number)
    }

    /// A number in base sixteen, lower case, without `0x`.
    pub fn hexadecimal(number: u64) -> Self {
        Self::new::<16>(number)
    }

    fn new<const BASE: u64>(mut number: u64) -> Self {
        let mut text = [b'0'; DIGITS];
        let mut begin = DIGITS;
        for (place, digit) in text.iter_mut().enumerate().rev() {
            let [value, ..] = (number % BASE).to_le_bytes();
            *digit = if value < 10 {
                b'0' + value
            } else {
                b'a' + value - 10
            };
            begin = place;
            number /= BASE;
            if number == 0 {
                break;
            }
        }
        Self { text, begin }
    }

    /// The digits, without leading zeroes.
    pub fn as_str(&self) -> &str {
        let digits = self.text.get(self.begin..).unwrap_or(&[]);
        core::str::from_utf8(digits).unwrap_or("")
    }
}

/// The bytes from a place on; `None` if they reach beyond the end.
fn at<const N: usize>(bytes: &[u8], place: usize) -> Option<[u8; N]> {
    bytes.get(place..place.checked_add(N)?)?.try_into().ok()
}

/// Two bytes.
pub(crate) fn u16_at(bytes: &[u8], place: usize) -> Option<u16> {
    at(bytes, place).map(u16::from_le_bytes)
}

/// Four bytes.
pub(crate) fn u32_at(bytes: &[u8], place: usize) -> Option<u32> {
    at(bytes, place).map(u32::from_le_bytes)
}

/// Eight bytes.
pub(crate) fn u64_at(bytes: &[u8], place: usize) -> Option<u64> {
    at(bytes, place).map(u64::from_le_bytes)
}

/// Returns the byte at `place`.
pub(crate) fn u8_at(bytes: &[u8], place: usize) -> Option<u8> {
    bytes.get(place).copied()
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::format;

    use proptest::prelude::*;

    use super::Digits;

    #[test]
    fn the_smallest_and_the_largest_number_have_all_their_digits() {
        for number in [0, 9, 10, 15, 16, u64::MAX] {
            assert_eq!(Digits::decimal(number).as_str(), format!("{number}"));
            assert_eq!(Digits::hexadecimal(number).as_str(), format!("{number:x}"));
        }
    }

    proptest! {
        #[test]
        fn any_number_is_written_as_format_writes_it(number: u64, shift in 0..64) {
            let number = number >> shift;
            let (decimal, hexadecimal) = (Digits::decimal(number), Digits::hexadecimal(number));
            prop_assert_eq!(decimal.as_str(), format!("{number}"));
            prop_assert_eq!(hexadecimal.as_str(), format!("{number:x}"));
        }
    }
}
