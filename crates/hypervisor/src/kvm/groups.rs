//! Groups of doorbells: several items on one address and length, as far as KVM supports them.
//!
//! With the module `kvm_ioeventfd` each item is an ioeventfd, and the kernel signals all that match. Without it, an
//! item with a unique match is its own ioeventfd, and items with the same match get a [relay](super::relay). When a
//! second item joins a match, the kernel's registration moves from the eventfd of the first item to the relay's
//! eventfd. A write during the move leaves the guest; the vCPU's thread hands it to [`Groups::deliver`], so that no
//! write is lost and the VMM sees no exit.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Release};

use kvm_ioctls::VmFd;
use vmm_sys_util::eventfd::EventFd;

use super::super::Error;
use super::doorbells::{assign, assign_mixed, deassign, has_module};
use super::error::KvmError;
use super::relay::{Item, Relay, RelayThread};
use vmbell::doorbell::{DoorbellError, IoEventAddress, Pattern};
use vmbell::eventfd::EventId;
use vmbell::sync::Mutex;

/// All groups of a guest.
#[derive(Debug)]
pub struct Groups {
    matches: Mutex<Matches>,
    relays: RelayThread,
    max_items: usize,
    /// Counts the starts and ends of moves, so it is odd during a move.
    moves: AtomicU64,
}

#[derive(Debug, Default)]
struct Matches {
    by_address: BTreeMap<IoEventAddress, Vec<Match>>,
    /// Whether the kernel signals all items that match. Queried while there are no items: loading or unloading the
    /// module later does not change it.
    by_kernel: bool,
}

/// The items of a group that have the same match.
#[derive(Debug)]
struct Match {
    pattern: Pattern,
    target: Target,
}

#[derive(Debug)]
enum Target {
    One(Item),
    Many(Relay),
    /// The kernel signals the item itself.
    Kernel(EventId),
}

impl Target {
    fn len(&self) -> usize {
        match self {
            Self::One(_) | Self::Kernel(_) => 1,
            Self::Many(relay) => relay.len(),
        }
    }

    fn has(&self, id: EventId) -> bool {
        match self {
            Self::One(item) => item.id == id,
            Self::Many(relay) => relay.has(id),
            Self::Kernel(item) => *item == id,
        }
    }

    /// Returns the eventfd that the kernel signals; `None` if only its identity is known.
    fn bell(&self) -> Option<&EventFd> {
        match self {
            Self::One(item) => Some(&item.event),
            Self::Many(relay) => Some(relay.bell()),
            Self::Kernel(_) => None,
        }
    }
}

impl Groups {
    pub fn new(max_items: u32) -> Self {
        Self {
            matches: Mutex::default(),
            relays: RelayThread::default(),
            max_items: usize::try_from(max_items).unwrap_or(usize::MAX),
            moves: AtomicU64::new(0),
        }
    }

    /// Adds `event` to the group on this address and length. Refuses an item that is already in the group, more than
    /// `max_items` items, and a wildcard together with a value if the kernel signals one eventfd per write.
    pub fn join(
        &self,
        vm: &VmFd,
        event: &EventFd,
        address: IoEventAddress,
        pattern: Pattern,
    ) -> Result<(), Error> {
        let id = EventId::of(event).map_err(DoorbellError::from)?;
        let mut matches = self.matches.lock();
        if matches.by_address.is_empty() {
            matches.by_kernel = has_module(vm);
        }
        let by_kernel = matches.by_kernel;
        let group = matches.by_address.get(&address);
        let of_this_length = || {
            let all = group.into_iter().flatten();
            all.filter(|m| m.pattern.len == pattern.len)
        };
        let is_same = |m: &&Match| m.pattern == pattern;
        if of_this_length().filter(is_same).any(|m| m.target.has(id)) {
            return Err(DoorbellError::Exists { address, pattern }.into());
        }
        let is_wildcard = pattern.value.is_none();
        if !by_kernel && of_this_length().any(|m| m.pattern.value.is_none() != is_wildcard) {
            return Err(KvmError::MixedGroup { address, pattern }.into());
        }
        if of_this_length().map(|m| m.target.len()).sum::<usize>() >= self.max_items {
            let limit = u32::try_from(self.max_items).unwrap_or(u32::MAX);
            let len = pattern.len;
            return Err(DoorbellError::TooManyItems {
                address,
                len,
                limit,
            }
            .into());
        }
        let item = || -> Result<Item, Error> {
            let event = clone(event)?;
            Ok(Item { id, event })
        };
        let mut group = matches.by_address.get_mut(&address).into_iter().flatten();
        if let Some(same) = group.find(|m| m.pattern == pattern) {
            match &mut same.target {
                Target::One(first) => {
                    let relay = self.share(vm, address, pattern, [first, &item()?])?;
                    same.target = Target::Many(relay);
                    return Ok(());
                }
                Target::Many(relay) => {
                    relay.add(item()?);
                    return Ok(());
                }
                // The kernel has a registration for each item.
                Target::Kernel(_) => {}
            }
        }
        let target = if by_kernel {
            assign_mixed(vm, event, address, pattern)?;
            Target::Kernel(id)
        } else {
            let item = item()?;
            assign(vm, event, address, pattern)?;
            Target::One(item)
        };
        let group = matches.by_address.entry(address).or_default();
        group.push(Match { pattern, target });
        Ok(())
    }

    /// Moves the registration of the first item to a relay that serves both items.
    fn share(
        &self,
        vm: &VmFd,
        address: IoEventAddress,
        pattern: Pattern,
        [first, second]: [&Item; 2],
    ) -> Result<Relay, Error> {
        let items = [first, second].map(|item| {
            let event = clone(&item.event)?;
            Ok(Item { id: item.id, event })
        });
        let items = items.into_iter().collect::<Result<_, Error>>()?;
        let relay = Relay::start(&self.relays, items)?;
        self.moved(|| replace(vm, address, pattern, &first.event, relay.bell()))?;
        Ok(relay)
    }

    /// Removes `event` from its group. Refuses an item that is in no group.
    pub fn leave(
        &self,
        vm: &VmFd,
        event: &EventFd,
        address: IoEventAddress,
        pattern: Pattern,
    ) -> Result<(), Error> {
        let mut matches = self.matches.lock();
        let id = EventId::of(event).map_err(DoorbellError::from)?;
        let wanted = |m: &Match| m.pattern == pattern && m.target.has(id);
        let found = matches.by_address.get_mut(&address).and_then(|group| {
            let index = group.iter().position(wanted)?;
            Some((group, index))
        });
        let (group, index) = found.ok_or(DoorbellError::NotFound { address, pattern })?;
        let target = &group[index].target;
        let last = target.len() == 1;
        if last {
            deassign(vm, target.bell().unwrap_or(event), address, pattern)?;
        }
        if let Target::Many(relay) = target {
            relay.remove(id);
        }
        if last {
            group.remove(index);
            if group.is_empty() {
                matches.by_address.remove(&address);
            }
        }
        Ok(())
    }

    /// Returns the count of moves. Read it before entering the guest, and pass it to [`has_moved`](Self::has_moved).
    #[inline]
    pub fn moves(&self) -> u64 {
        self.moves.load(Acquire)
    }

    /// Returns whether a registration has moved since [`moves`](Self::moves) returned `since`. If so, a write that left
    /// the guest may belong to a group.
    #[inline]
    pub fn has_moved(&self, since: u64) -> bool {
        let now = self.moves.load(Acquire);
        now != since || now % 2 == 1
    }

    /// Rings for a write that left the guest if it matches an item of a group. Returns whether it matched.
    #[cold]
    pub fn deliver(&self, address: IoEventAddress, len: u32, value: u64) -> bool {
        let matches = self.matches.lock();
        let mut group = matches.by_address.get(&address).into_iter().flatten();
        let hit = group.find(|m| {
            m.pattern.len == 0
                || m.pattern.len == len && m.pattern.value.is_none_or(|wanted| wanted == value)
        });
        if let Some(bell) = hit.and_then(|hit| hit.target.bell()) {
            // The write fails only if the count is at its limit; then the reader is notified anyway.
            let _ = bell.write(1);
        }
        hit.is_some()
    }

    fn moved(&self, change: impl FnOnce() -> Result<(), Error>) -> Result<(), Error> {
        self.moves.fetch_add(1, Release);
        let result = change();
        self.moves.fetch_add(1, Release);
        result
    }
}

/// Moves a registration from `old` to `new`; if `new` cannot be registered, `old` is registered again.
fn replace(
    vm: &VmFd,
    address: IoEventAddress,
    pattern: Pattern,
    old: &EventFd,
    new: &EventFd,
) -> Result<(), Error> {
    deassign(vm, old, address, pattern)?;
    assign(vm, new, address, pattern).inspect_err(|_| {
        // The old registration existed a moment ago, and the lock kept other registrations out.
        let _ = assign(vm, old, address, pattern);
    })
}

fn clone(event: &EventFd) -> Result<EventFd, Error> {
    event
        .try_clone()
        .map_err(Error::system("duplicate an eventfd"))
}
