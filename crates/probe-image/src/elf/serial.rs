//! The serial port at 0x3f8, to which the image prints.

use core::fmt::{self, Write};

use super::cpu::{in8, out8};
use crate::number::Digits;

const DATA: u16 = 0x3f8;
/// The line status register.
pub const LINE_STATUS: u16 = DATA + 5;
const TRANSMITTER_EMPTY: u8 = 1 << 5;
/// The maximum number of reads of the status before a byte is sent anyway.
const PATIENCE: u32 = 10_000;

/// The port. Its speed is not set, because VMMs ignore it.
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

/// A piece of a line that can be printed.
pub trait Print {
    /// Prints the piece.
    fn print(&self);
}

impl Print for str {
    fn print(&self) {
        // Writing to the port cannot fail.
        let _ = Serial.write_str(self);
    }
}

impl Print for Digits {
    fn print(&self) {
        self.as_str().print();
    }
}

/// Prints a line from pieces: texts, and numbers as `Digits`.
macro_rules! say {
    ($($piece:expr),+) => {{
        use $crate::elf::serial::Print;
        $($piece.print();)+
        "\n".print();
    }};
}
pub(crate) use say;
