//! Access to the BAR by configuration space (virtio 1.3, 4.1.4.9), for drivers that cannot reach memory: they choose a
//! place, and reads and writes of `pci_cfg_data` go there. It runs on the thread of the vCPU that configures.

use super::layout::{BAR, CAPABILITY_LEN};
use crate::pci::ConfigSpace;

/// The place that the driver has chosen; at first none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Window {
    /// Offset of `pci_cfg_data`, four bytes of configuration space.
    data: usize,
    bar: u8,
    offset: u32,
    len: u32,
}

impl Window {
    /// The place in the registers as they are, of the capability at an offset of configuration space.
    pub(super) fn new(at: u8, config: &ConfigSpace) -> Self {
        let at = usize::from(at);
        let [bar, ..] = config.word(at + 4).to_le_bytes();
        Self {
            data: at + usize::from(CAPABILITY_LEN),
            bar,
            offset: config.dword(at + 8),
            len: config.dword(at + 12),
        }
    }

    /// Where in the BAR an access to these bytes of configuration space goes, and how many bytes go there. `None` if it
    /// does not begin at the data, is shorter than what the driver has chosen, or leads nowhere.
    pub(super) fn target(self, offset: usize, len: usize) -> Option<(u64, usize)> {
        let chosen = usize::try_from(self.len).ok()?;
        let sound = self.bar == BAR
            && matches!(chosen, 1 | 2 | 4)
            && self.offset.is_multiple_of(self.len)
            && offset == self.data
            && len >= chosen;
        sound.then_some((self.offset.into(), chosen))
    }
}
