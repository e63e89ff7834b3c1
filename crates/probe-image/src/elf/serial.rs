//! The serial port 0x3f8, where the image prints.

use core::fmt::{self, Write};

use super::cpu::{in8, out8};
use crate::number::Digits;

const DATA: u16 = 0x3f8;
/// The line status register.
pub const LINE_STATUS: u16 = DATA + 5;
const TRANSMITTER_EMPTY: u8 = 1 << 5;
/// The most reads of the status before a byte is sent anyway.
const PATIENCE: u32 = 10_000;

/// The port. It is not set up, since VMMs ignore its speed.
#[derive(Debug)]
pub struct Serial;

impl Write for Serial {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for byte in text.bytes() {
            let _ = (0..PATIENCE).find(|_| in8(LINE_STATUS) & TRANSMITTER_EMPTY != 0);
            out8(DATA, byte);
        }
        Ok(())
    }
}

/// What can be printed in a line.
pub trait Print {
    /// Prints it.
    fn print(&self);
}

impl Print for str {
    fn print(&self) {
        // The port cannot fail.
        let _ = Serial.write_str(self);
    }
}

impl Print for Digits {
    fn print(&self) {
        self.as_str().print();
    }
}

/// Prints a line of pieces: texts, and numbers as `Digits`.
macro_rules! say {
    ($($piece:expr),+) => {{
        use $crate::elf::serial::Print;
        $($piece.print();)+
        "\n".print();
    }};
}
pub(crate) use say;
