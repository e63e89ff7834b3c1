//! The serial port 0x3f8, where the image prints.

use core::fmt;

use super::port::{in8, out8};

const DATA: u16 = 0x3f8;
/// The line status register.
pub const LINE_STATUS: u16 = DATA + 5;
const TRANSMITTER_EMPTY: u8 = 1 << 5;
/// How often the status is read at most before a byte is sent anyway.
const PATIENCE: u32 = 10_000;

/// The port; nothing of it is set up, since VMMs ignore its speed.
#[derive(Debug)]
pub struct Serial;

impl fmt::Write for Serial {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for byte in text.bytes() {
            let _ = (0..PATIENCE).find(|_| in8(LINE_STATUS) & TRANSMITTER_EMPTY != 0);
            out8(DATA, byte);
        }
        Ok(())
    }
}

/// Prints a line. The port cannot fail.
macro_rules! say {
    ($($words:tt)*) => {{
        use core::fmt::Write;
        let _ = writeln!($crate::elf::serial::Serial, $($words)*);
    }};
}
pub(crate) use say;
