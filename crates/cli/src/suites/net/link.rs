//! The host's end of a guest's network: a tap, or the interface at the other end of an assigned card's wire.

use std::fs;
use std::net::Ipv4Addr;

use super::interface::{InterfaceError, InterfaceName};
use super::tap::HostTap;
use vmbell_vfio::host::PciAddress;

/// A card that is bound to VFIO's driver, and the host's interface at the other end of its wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct AssignedCard {
    pub(super) address: PciAddress,
    pub(super) wire: InterfaceName,
}

/// The host's end, with the host's address; it is up.
#[derive(Debug)]
pub(super) enum HostLink {
    /// For a guest with a virtio-net device of its VMM.
    Tap(HostTap),
    /// For a guest with an assigned card.
    Wire(WiredCard),
}

impl HostLink {
    /// A new tap, or the wire of this card.
    pub(super) fn new(card: Option<AssignedCard>) -> Result<Self, InterfaceError> {
        match card {
            None => HostTap::new().map(Self::Tap),
            Some(card) => WiredCard::new(card).map(Self::Wire),
        }
    }
}

/// A card and its interface, which had no address before. Drop restores the interface.
#[derive(Debug)]
pub(super) struct WiredCard {
    card: AssignedCard,
    /// The interface's earlier flags, and whether its IPv6 was off.
    flags: libc::c_short,
    ipv6: Option<Vec<u8>>,
}

impl WiredCard {
    fn new(card: AssignedCard) -> Result<Self, InterfaceError> {
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

impl Drop for WiredCard {
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
