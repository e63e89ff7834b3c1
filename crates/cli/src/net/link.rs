//! The host's end of a guest's network: a tap, or for an assigned card the interface at the other end of its wire.

use std::net::Ipv4Addr;

use super::interface::{InterfaceError, Name};
use super::tap::Tap;
use vmbell::passthrough::host::PciAddress;

/// A card that is bound to VFIO's driver, and an interface of this host to which its wire leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Card {
    pub(super) address: PciAddress,
    pub(super) wire: Name,
}

/// The host's end, which has the host's address and is up.
#[derive(Debug)]
pub(super) enum Link {
    /// A tap.
    Tap(Tap),
    /// The wire of a card.
    Wire(Wire),
}

impl Link {
    /// A new tap, or the wire of this card.
    pub(super) fn new(card: Option<Card>) -> Result<Self, InterfaceError> {
        match card {
            None => Tap::new().map(Self::Tap),
            Some(card) => Wire::new(card).map(Self::Wire),
        }
    }
}

/// A card and its interface, which had no address, and has none when this value is gone.
#[derive(Debug)]
pub(super) struct Wire(Card);

impl Wire {
    fn new(card: Card) -> Result<Self, InterfaceError> {
        if let Some(address) = card.wire.address()? {
            let name = card.wire.to_string();
            return Err(InterfaceError::Used { name, address });
        }
        let wire = Self(card);
        card.wire.set_up()?;
        Ok(wire)
    }

    /// The card.
    pub(super) const fn card(&self) -> PciAddress {
        self.0.address
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        // There is nobody to tell of a failure.
        let _ = self.0.wire.set_address(Ipv4Addr::UNSPECIFIED);
    }
}
