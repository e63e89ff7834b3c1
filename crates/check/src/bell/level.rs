//! A level-triggered line with an interrupt status register (virtio 1.3, 4.1.4.5), over KVM's irqfd and resamplefd.
//!
//! The end of interrupt lowers the line, as with `KVM_IRQFD_FLAG_RESAMPLE`: the device raises it again if its status says
//! so. Between delivery and the end, a signal changes only the status.

use super::{Bell, Word};
use crate::explorer::Scenario;

const INTERRUPT: u64 = 1;
const LINE: u64 = 1 << 1;
const IN_SERVICE: u64 = 1 << 2;
const STATUS: u64 = 1 << 3;

/// A level-triggered interrupt and the device's interrupt status.
#[derive(Clone, Copy, Debug)]
pub struct Level {
    word: Word,
    resample: Bell,
}

impl Scenario {
    /// A level-triggered line. `resample` rings after each end of interrupt.
    pub fn level(&mut self, name: &str, resample: Bell) -> Level {
        let word = self.word(name, &["interrupt", "line", "in service", "status"]);
        Level { word, resample }
    }
}

impl Level {
    /// The device interrupts the driver: sets the status, then raises the line.
    pub fn signal(&self) {
        self.set_status();
        self.raise();
    }

    /// Sets the status: the first half of [`signal`](Self::signal).
    pub fn set_status(&self) {
        self.word.update(|bits| bits | STATUS);
    }

    /// The second half of a write to the irqfd. While the interrupt is in service, the write only asserts the line.
    pub fn raise(&self) {
        self.word.update(|bits| match bits & IN_SERVICE {
            0 => bits | LINE | INTERRUPT,
            _ => bits | LINE,
        });
    }

    /// The device checks its status after `resample` rang, and raises the line again if the status is set.
    pub fn resample(&self) {
        if self.word.update(|bits| bits) & STATUS != 0 {
            self.raise();
        }
    }

    /// The driver sleeps until it is interrupted. The interrupt is in service until [`end`](Self::end).
    pub fn wait(&self) {
        self.word
            .wait(INTERRUPT, |bits| bits & !INTERRUPT | IN_SERVICE);
    }

    /// The driver reads the status, which clears it. False if the interrupt is not this device's.
    pub fn acknowledge(&self) -> bool {
        self.word.update(|bits| bits & !STATUS) & STATUS != 0
    }

    /// The end of interrupt: lowers the line, then rings `resample`.
    pub fn end(&self) {
        self.word.update(|bits| bits & !(LINE | IN_SERVICE));
        self.resample.signal();
    }
}
