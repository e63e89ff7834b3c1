//! An MSI-X vector with its mask and its pending bit (PCI 3.0, 6.8.2.5 and 6.8.3.4).

use super::Word;
use crate::explorer::Scenario;

const INTERRUPT: u64 = 1;
const MASKED: u64 = 1 << 1;
const PENDING: u64 = 1 << 2;

/// A message-signalled interrupt. While it is masked, signals set its pending bit; unmasking delivers it.
#[derive(Clone, Copy, Debug)]
pub struct Msi {
    word: Word,
}

impl Scenario {
    /// An MSI-X vector, not masked.
    pub fn msi(&mut self, name: &str) -> Msi {
        let word = self.word(name, &["interrupt", "masked", "pending"]);
        Msi { word }
    }
}

impl Msi {
    /// The device interrupts the driver, or sets the pending bit.
    pub fn signal(&self) {
        self.word.update(|bits| match bits & MASKED {
            0 => bits | INTERRUPT,
            _ => bits | PENDING,
        });
    }

    /// The driver masks the vector. An interrupt that was already delivered still arrives.
    pub fn mask(&self) {
        self.word.update(|bits| bits | MASKED);
    }

    /// The driver unmasks the vector; a pending interrupt is delivered.
    pub fn unmask(&self) {
        self.word.update(|bits| match bits & PENDING {
            0 => bits & !MASKED,
            _ => bits & !(MASKED | PENDING) | INTERRUPT,
        });
    }

    /// The driver sleeps until it is interrupted. Only one task may wait here.
    pub fn wait(&self) {
        self.word.wait(INTERRUPT, |bits| bits & !INTERRUPT);
    }
}
