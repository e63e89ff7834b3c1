//! Where each GSI leads: to a pin of the I/O APIC, or out as a message.
//!
//! The rules are `kvm_set_irq_routing` and `setup_routing_entry` of Linux `virt/kvm/irqchip.c`, for
//! one interrupt controller: a table is taken whole or not at all.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use super::{Gsi, IrqError, Msi, PINS};

/// One line of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// From.
    pub gsi: Gsi,
    /// To.
    pub target: Target,
}

/// Where a GSI leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Target {
    /// A pin of the I/O APIC.
    Pin(u8),
    /// A message.
    Msi(Msi),
}

/// The table.
#[derive(Clone, Debug, Default)]
pub struct Routing {
    targets: HashMap<Gsi, Target>,
}

impl Routing {
    /// A checked table. GSIs that it does not name lead nowhere.
    pub fn new(routes: &[Route]) -> Result<Self, IrqError> {
        if routes.len() > Gsi::LIMIT as usize {
            return Err(IrqError::TooManyRoutes {
                count: routes.len(),
            });
        }
        let mut targets = HashMap::new();
        for &Route { gsi, target } in routes {
            match target {
                Target::Pin(pin) if usize::from(pin) >= PINS => {
                    return Err(IrqError::Pin { pin: pin.into() });
                }
                Target::Pin(_) => {}
                Target::Msi(msi) => {
                    msi.message()?;
                }
            }
            match targets.entry(gsi) {
                Entry::Occupied(_) => return Err(IrqError::RoutedTwice { gsi }),
                Entry::Vacant(entry) => entry.insert(target),
            };
        }
        Ok(Self { targets })
    }

    /// Each of the I/O APIC's pins by the GSI of its own number: a full irqchip's start.
    pub fn identity() -> Self {
        let pins = (0_u8..).take(PINS);
        let targets = pins.filter_map(|pin| Some((Gsi::new(pin.into()).ok()?, Target::Pin(pin))));
        Self {
            targets: targets.collect(),
        }
    }

    /// Refuses routes to pins, where there is no I/O APIC.
    pub fn check_without_pins(&self) -> Result<(), IrqError> {
        let pin = self
            .routes()
            .find(|route| matches!(route.target, Target::Pin(_)));
        pin.map_or(Ok(()), |route| Err(IrqError::NoIoApic { gsi: route.gsi }))
    }

    /// Where a GSI leads; none is nowhere.
    pub fn target(&self, gsi: Gsi) -> Option<Target> {
        self.targets.get(&gsi).copied()
    }

    /// All routes, in no order.
    pub fn routes(&self) -> impl Iterator<Item = Route> {
        let route = |(&gsi, &target): (&Gsi, &Target)| Route { gsi, target };
        self.targets.iter().map(route)
    }
}

#[cfg(test)]
#[path = "routing_test.rs"]
mod tests;
