//! GSIs, and their routing: each GSI leads to a pin of the I/O APIC or to a message.
//!
//! The rules are those of `kvm_set_irq_routing` and `setup_routing_entry` of Linux `virt/kvm/irqchip.c`, for
//! one interrupt controller: a table is accepted as a whole or not at all.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt;

use super::{IrqArch, IrqError, Msi};

/// A global system interrupt: the number by which devices and irqfds name an interrupt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Gsi(u32);

impl Gsi {
    /// All GSIs are below this number, and a table has at most this many routes (Linux `KVM_MAX_IRQ_ROUTES`).
    pub const LIMIT: u32 = 4096;

    /// The GSI with this number. Fails with [`IrqError::Gsi`] if the number is not below [`LIMIT`](Self::LIMIT).
    pub const fn new(gsi: u32) -> Result<Self, IrqError> {
        if gsi < Self::LIMIT {
            Ok(Self(gsi))
        } else {
            Err(IrqError::Gsi { gsi })
        }
    }

    /// The number of the GSI.
    pub const fn number(self) -> u32 {
        self.0
    }
}

impl fmt::Display for Gsi {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "gsi {}", self.0)
    }
}

/// One entry of the routing table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// The GSI that is routed.
    pub gsi: Gsi,
    /// The pin or message that it leads to.
    pub target: Target,
}

/// The target of a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Target {
    /// The number of a pin of the I/O APIC.
    Pin(u8),
    /// A message that is sent to local APICs.
    Msi(Msi),
}

/// A checked routing table.
#[derive(Clone, Debug, Default)]
pub struct Routing {
    targets: HashMap<Gsi, Target>,
}

impl Routing {
    /// Checks the routes and makes a table of them. GSIs without a route lead nowhere. Fails if interrupt controllers
    /// of `arch` cannot have one of the routes, or if a GSI has two routes.
    pub fn new(routes: &[Route], arch: IrqArch) -> Result<Self, IrqError> {
        if routes.len() > Gsi::LIMIT as usize {
            return Err(IrqError::TooManyRoutes {
                count: routes.len(),
            });
        }
        let mut targets = HashMap::new();
        for &Route { gsi, target } in routes {
            match target {
                Target::Pin(pin) if pin >= arch.pins() => {
                    let pins = arch.pins();
                    return Err(IrqError::Pin { pin, pins });
                }
                Target::Pin(_) => {}
                Target::Msi(msi) => {
                    msi.check(arch)?;
                }
            }
            match targets.entry(gsi) {
                Entry::Occupied(_) => return Err(IrqError::RoutedTwice { gsi }),
                Entry::Vacant(entry) => entry.insert(target),
            };
        }
        Ok(Self { targets })
    }

    /// The initial table of a full irqchip: each GSI leads to the pin with the same number.
    pub fn identity(arch: IrqArch) -> Self {
        let pins = 0..arch.pins();
        let targets = pins.filter_map(|pin| Some((Gsi::new(pin.into()).ok()?, Target::Pin(pin))));
        Self {
            targets: targets.collect(),
        }
    }

    /// Fails with [`IrqError::NoIoApic`] if a route leads to a pin; for guests without an I/O APIC below the
    /// VMM.
    pub fn check_without_pins(&self) -> Result<(), IrqError> {
        let pin = self
            .routes()
            .find(|route| matches!(route.target, Target::Pin(_)));
        pin.map_or(Ok(()), |route| Err(IrqError::NoIoApic { gsi: route.gsi }))
    }

    /// The target of a GSI; `None` if it has no route.
    pub fn target(&self, gsi: Gsi) -> Option<Target> {
        self.targets.get(&gsi).copied()
    }

    /// All routes, in any order.
    pub fn routes(&self) -> impl Iterator<Item = Route> {
        let route = |(&gsi, &target): (&Gsi, &Target)| Route { gsi, target };
        self.targets.iter().map(route)
    }
}

#[cfg(test)]
#[path = "routing_test.rs"]
mod tests;
