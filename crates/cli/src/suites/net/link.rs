//! The host's end of a guest's network: a tap, or for an assigned card the interface at the other end of its wire.

use std::fs;
use std::net::Ipv4Addr;

use super::interface::{InterfaceError, InterfaceName};
use super::tap::HostTap;
use vmbell_vfio::host::PciAddress;

/// A card that is bound to VFIO's driver, and an interface of this host to which its wire leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct AssignedCard {
    pub(super) address: PciAddress,
    pub(super) wire: InterfaceName,
}

/// The host's end, which has the host's address and is up.
#[derive(Debug)]
pub(super) enum HostLink {
    /// That of a guest with a virtio-net device of its VMM.
    Tap(HostTap),
    /// That of a guest with an assigned card.
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

/// A card and its interface, which had no address, and is as it was when this value is gone.
#[derive(Debug)]
pub(super) struct WiredCard {
    card: AssignedCard,
    /// The interface's flags, and whether it had no IPv6, before.
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
