//! The list of registrations and its rules. This is pure logic, without the table and without eventfds.
//!
//! The rules are those of `ioeventfd_check_collision` in Linux `virt/kvm/eventfd.c`, with one addition: registrations
//! that would collide are allowed if both are group registrations of the same length. All registrations with
//! [`Sharing::Group`] on one address and length are the items of one group.

use std::collections::{BTreeMap, HashMap};

use super::{Datamatch, DoorbellError, IoEventAddress, Pattern, Sharing};
use crate::eventfd::EventId;

impl Datamatch {
    /// A wildcard of `len` bytes, which a doorbell with a payload must have.
    pub const fn any_of(len: u32) -> Result<Self, DoorbellError> {
        match len {
            1 => Ok(Self::U8(None)),
            2 => Ok(Self::U16(None)),
            4 => Ok(Self::U32(None)),
            8 => Ok(Self::U64(None)),
            _ => Err(DoorbellError::PayloadLength { len }),
        }
    }
}

impl Pattern {
    /// Checks whether KVM would accept the pattern at this address. Makes the checks of `kvm_assign_ioeventfd` that
    /// need neither a file descriptor nor flags, in the same order.
    pub(super) fn check(self, address: IoEventAddress) -> Result<(), DoorbellError> {
        let len = self.len;
        if !matches!(len, 0 | 1 | 2 | 4 | 8) {
            return Err(DoorbellError::Length { len });
        }
        // A hypercall number is not a byte address, so it has no end that could overflow.
        let ranges = !matches!(address, IoEventAddress::Hypercall(_));
        if ranges && address.value().checked_add(u64::from(len)).is_none() {
            return Err(DoorbellError::Wraps { address, len });
        }
        match (self.len, self.value) {
            (0, Some(value)) => Err(DoorbellError::MatchWithoutLength { value }),
            _ => Ok(()),
        }
    }
}

/// One registration.
#[derive(Clone, Debug)]
struct Item {
    event: EventId,
    sharing: Sharing,
    signal: u32,
}

/// All registrations on one address and length.
#[derive(Debug, Default)]
struct AddressItems {
    wildcards: Vec<Item>,
    matches: HashMap<u64, Vec<Item>>,
    exclusive: u32,
    grouped: u32,
}

impl AddressItems {
    fn items(&mut self, value: Option<u64>) -> &mut Vec<Item> {
        match value {
            None => &mut self.wildcards,
            Some(value) => self.matches.entry(value).or_default(),
        }
    }

    fn find(&self, value: Option<u64>) -> &[Item] {
        match value {
            None => &self.wildcards,
            Some(value) => self.matches.get(&value).map_or(&[], Vec::as_slice),
        }
    }

    fn count(&mut self, sharing: Sharing) -> &mut u32 {
        match sharing {
            Sharing::Exclusive => &mut self.exclusive,
            Sharing::Group => &mut self.grouped,
        }
    }

    fn clashes(&self, event: EventId, value: Option<u64>, sharing: Sharing) -> bool {
        let exclusive = |item: &Item| item.sharing == Sharing::Exclusive;
        let same = self.find(value);
        if same.iter().any(|item| item.event == event) {
            return true;
        }
        match (value, sharing) {
            (None, Sharing::Exclusive) => self.exclusive + self.grouped > 0,
            (None, Sharing::Group) => self.exclusive > 0,
            (Some(_), Sharing::Exclusive) => !self.wildcards.is_empty() || !same.is_empty(),
            (Some(_), Sharing::Group) => self.wildcards.iter().chain(same).any(exclusive),
        }
    }
}

/// All registrations.
#[derive(Debug)]
pub(super) struct Registry {
    addresses: HashMap<IoEventAddress, BTreeMap<u32, AddressItems>>,
    max_items: u32,
}

impl Registry {
    pub(super) fn new(max_items: u32) -> Self {
        Self {
            addresses: HashMap::new(),
            max_items,
        }
    }

    /// Checks whether a registration is allowed.
    pub(super) fn check(
        &self,
        event: EventId,
        address: IoEventAddress,
        pattern: Pattern,
        sharing: Sharing,
    ) -> Result<(), DoorbellError> {
        let Some(lengths) = self.addresses.get(&address) else {
            return self.check_room(address, pattern.len, sharing, 0);
        };
        // A registration of length 0 shares its address with no other length.
        let others = lengths.keys().any(|&len| len != pattern.len);
        let shut = others && (pattern.len == 0 || lengths.contains_key(&0));
        let place = lengths.get(&pattern.len);
        if shut || place.is_some_and(|place| place.clashes(event, pattern.value, sharing)) {
            return Err(DoorbellError::Exists { address, pattern });
        }
        let grouped = place.map_or(0, |place| place.grouped);
        self.check_room(address, pattern.len, sharing, grouped)
    }

    fn check_room(
        &self,
        address: IoEventAddress,
        len: u32,
        sharing: Sharing,
        grouped: u32,
    ) -> Result<(), DoorbellError> {
        let limit = self.max_items;
        if sharing == Sharing::Group && grouped >= limit {
            return Err(DoorbellError::TooManyItems {
                address,
                len,
                limit,
            });
        }
        Ok(())
    }

    /// Adds a registration that [`check`](Self::check) has allowed.
    pub(super) fn insert(
        &mut self,
        event: EventId,
        address: IoEventAddress,
        pattern: Pattern,
        sharing: Sharing,
        signal: u32,
    ) {
        let lengths = self.addresses.entry(address).or_default();
        let place = lengths.entry(pattern.len).or_default();
        *place.count(sharing) += 1;
        place.items(pattern.value).push(Item {
            event,
            sharing,
            signal,
        });
    }

    /// Removes a registration and returns its signal number.
    pub(super) fn remove(
        &mut self,
        event: EventId,
        address: IoEventAddress,
        pattern: Pattern,
    ) -> Result<u32, DoorbellError> {
        let not_found = DoorbellError::NotFound { address, pattern };
        let Some(lengths) = self.addresses.get_mut(&address) else {
            return Err(not_found);
        };
        let Some(place) = lengths.get_mut(&pattern.len) else {
            return Err(not_found);
        };
        let mut same = place.find(pattern.value).iter();
        let Some(index) = same.position(|item| item.event == event) else {
            return Err(not_found);
        };
        let items = place.items(pattern.value);
        let item = items.remove(index);
        if let (true, Some(value)) = (items.is_empty(), pattern.value) {
            place.matches.remove(&value);
        }
        *place.count(item.sharing) -= 1;
        if place.exclusive + place.grouped == 0 {
            lengths.remove(&pattern.len);
        }
        if lengths.is_empty() {
            self.addresses.remove(&address);
        }
        Ok(item.signal)
    }

    /// Lists the datamatch values at an address and length.
    pub(super) fn values(
        &self,
        address: IoEventAddress,
        len: u32,
    ) -> impl Iterator<Item = u64> + use<'_> {
        let place = self.addresses.get(&address).and_then(|l| l.get(&len));
        place.into_iter().flat_map(|p| p.matches.keys().copied())
    }

    /// Counts the registrations with this pattern at an address.
    pub(super) fn count(&self, address: IoEventAddress, pattern: Pattern) -> usize {
        let place = self
            .addresses
            .get(&address)
            .and_then(|l| l.get(&pattern.len));
        place.map_or(0, |place| place.find(pattern.value).len())
    }
}
