//! The routing of GSIs: each leads to a pin of the I/O APIC or to a message.
//!
//! The rules are those of `kvm_set_irq_routing` and `setup_routing_entry` of Linux `virt/kvm/irqchip.c`, for
//! one interrupt controller: a table is accepted as a whole or not at all.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use super::{Gsi, IrqArch, IrqError, Msi};

/// One entry of the routing table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// The GSI that is routed.
    pub gsi: Gsi,
    /// The pin or message that the route leads to.
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
