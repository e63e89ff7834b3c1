//! The host's end of a guest's network: a tap, or for an assigned card the interface at the other end of its wire.

use std::fs;
use std::net::Ipv4Addr;

use super::interface::{InterfaceError, Name};
use super::tap::Tap;
use vmbell_vfio::host::PciAddress;

/// A card that is bound to VFIO's driver, and an interface of this host to which its wire leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Card {
    pub(super) address: PciAddress,
    pub(super) wire: Name,
}

/// The host's end, which has the host's address and is up.
#[derive(Debug)]
pub(super) enum Link {
    /// That of a guest with a virtio-net device of its VMM.
    Tap(Tap),
    /// That of a guest with an assigned card.
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

/// A card and its interface, which had no address, and is as it was when this value is gone.
#[derive(Debug)]
pub(super) struct Wire {
    card: Card,
    /// The interface's flags, and whether it had no IPv6, before.
    flags: libc::c_short,
    ipv6: Option<Vec<u8>>,
}

impl Wire {
    fn new(card: Card) -> Result<Self, InterfaceError> {
        if let Some(address) = card.wire.address()? {
            let name = card.wire.to_string();
            return Err(InterfaceError::Used { name, address });
        }
        let wire = Self {
            card,
            flags: card.wire.flags()?,
            ipv6: fs::read(card.wire.ipv6()).ok(),
        };
        card.wire.set_up()?;
        Ok(wire)
    }

    /// The card's address.
    pub(super) const fn card(&self) -> PciAddress {
        self.card.address
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        let name = self.card.wire;
        // A failure cannot be reported.
        let _ = name.set_address(Ipv4Addr::UNSPECIFIED);
        let _ = name.set_flags(self.flags);
        if let Some(ipv6) = &self.ipv6 {
            let _ = fs::write(name.ipv6(), ipv6);
        }
    }
}
