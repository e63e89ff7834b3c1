//! What a board decides for its PCI bus: the addresses of BARs, those where no BAR answers, and where INTx lines lead.

use super::{Pin, Windows};
use vmbell::bus::BusRange;
use vmbell::irq::Gsi;

/// What a board decides for its PCI bus.
#[derive(Clone, Debug)]
pub struct Board {
    /// The addresses that BARs are assigned from.
    pub windows: Windows,
    /// Memory that answers without being on the bus, such as RAM and interrupt controllers. It wins over a BAR that
    /// the guest puts there: the BAR is not mapped.
    pub reserved: Vec<BusRange>,
    /// The GSI that a pin of the function in a slot raises; `None` if the pin is not connected.
    pub intx: fn(slot: usize, pin: Pin) -> Option<Gsi>,
}

impl From<Windows> for Board {
    /// A board with no other memory, and with no pin connected.
    fn from(windows: Windows) -> Self {
        Self {
            windows,
            reserved: Vec::new(),
            intx: |_, _| None,
        }
    }
}
