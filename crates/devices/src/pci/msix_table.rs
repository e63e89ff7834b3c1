//! The table of MSI-X (PCI 3.0, 6.8.2.5 to 6.8.2.9): one message for each vector, in memory that the guest writes. The
//! caller holds a lock. Runs on the threads of the vCPUs that access the table.

use super::msix::{ENTRY, MsixControl};
use vmbell::irq::Msi;
use vmbell_hypervisor::IRQ_ARCH;

/// The bits of the address that are not reserved, and the mask bit of the vector control.
const ADDRESS_BITS: u32 = !0b11;
const MASKED: u32 = 1 << 0;

#[derive(Clone, Copy, Debug)]
struct Entry {
    /// Address, upper address, data and vector control.
    words: [u32; 4],
    /// The message, if the vector is unmasked and the message is an interrupt. Checked when the guest writes it, not
    /// whenever it is sent.
    message: Option<Msi>,
}

impl Entry {
    const RESET: Self = Self {
        words: [0, 0, 0, MASKED],
        message: None,
    };

    fn update(&mut self) {
        let [low, high, data, control] = self.words;
        let msi = Msi {
            address: u64::from(high) << 32 | u64::from(low),
            data,
            device: None,
        };
        let sends = control & MASKED == 0 && msi.check(IRQ_ARCH).is_ok();
        self.message = sends.then_some(msi);
    }
}

/// The messages of all vectors, and whether they are sent.
#[derive(Clone, Debug)]
pub struct MsixTable {
    entries: Vec<Entry>,
    control: MsixControl,
}

impl MsixTable {
    /// The table after a reset: MSI-X is off and each vector is masked.
    pub fn new(vectors: u16) -> Self {
        Self {
            entries: vec![Entry::RESET; vectors.into()],
            control: MsixControl::default(),
        }
    }

    /// Reads 4 or 8 naturally aligned bytes; any other access reads as ones.
    pub fn read(&self, offset: u64, data: &mut [u8]) {
        data.fill(0xff);
        let Some((vector, first)) = place(offset, data.len()) else {
            return;
        };
        let Some(entry) = self.entries.get(vector) else {
            return;
        };
        for (bytes, word) in data.chunks_mut(4).zip(&entry.words[first..]) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
    }

    /// Writes 4 or 8 naturally aligned bytes, and returns the vector whose message may have changed. Any other access
    /// does nothing.
    pub fn write(&mut self, offset: u64, data: &[u8]) -> Option<u16> {
        let (vector, first) = place(offset, data.len())?;
        let entry = self.entries.get_mut(vector)?;
        for (index, bytes) in (first..).zip(data.chunks(4)) {
            let word = u32::from_le_bytes(bytes.try_into().ok()?);
            entry.words[index] = match index {
                0 => word & ADDRESS_BITS,
                3 => word & MASKED,
                _ => word,
            };
        }
        entry.update();
        u16::try_from(vector).ok()
    }

    /// Turns MSI-X and the mask of all vectors on or off.
    pub fn set_control(&mut self, control: MsixControl) {
        self.control = control;
    }

    /// Whether MSI-X is on, and whether all vectors are masked.
    pub const fn control(&self) -> MsixControl {
        self.control
    }

    /// Whether MSI-X is on.
    pub const fn is_enabled(&self) -> bool {
        self.control.enabled
    }

    /// The message that a vector sends; `None` if MSI-X is off, the vector is masked or the message is not an
    /// interrupt.
    pub fn message(&self, vector: u16) -> Option<Msi> {
        let MsixControl { enabled, masked } = self.control;
        let entry = self.entries.get(usize::from(vector));
        entry.filter(|_| enabled && !masked)?.message
    }

    /// The message of each vector.
    pub fn messages(&self) -> Vec<Option<Msi>> {
        (0..)
            .map(|vector| self.message(vector))
            .take(self.entries.len())
            .collect()
    }
}

/// Reads 4 or 8 naturally aligned bytes of pending bits, at `offset` from their start; any other access reads as ones.
/// `is_pending` returns whether a vector is pending.
pub fn read_pending(offset: u64, data: &mut [u8], mut is_pending: impl FnMut(u16) -> bool) {
    data.fill(0xff);
    if place(offset, data.len()).is_none() {
        return;
    }
    let mut first = offset.saturating_mul(8);
    for byte in data {
        let bits = (0..8).filter(|bit| {
            let vector = first.saturating_add(*bit);
            u16::try_from(vector).is_ok_and(&mut is_pending)
        });
        *byte = bits.fold(0, |byte, bit| byte | 1 << bit);
        first = first.saturating_add(8);
    }
}

/// The entry and the word in it that an access selects; `None` if the width or the alignment is not allowed.
fn place(offset: u64, len: usize) -> Option<(usize, usize)> {
    let aligned = matches!(len, 4 | 8) && offset.is_multiple_of(len as u64);
    let vector = usize::try_from(offset / ENTRY).ok()?;
    let word = usize::try_from(offset % ENTRY / 4).ok()?;
    aligned.then_some((vector, word))
}

#[cfg(test)]
#[path = "msix_table_test.rs"]
mod tests;
