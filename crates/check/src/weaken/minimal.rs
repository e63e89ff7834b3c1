//! Finds a locally minimal assignment: all sites are weakened together until none can be weakened further.

use super::{Effect, Site, Tried, Work, steps};
use crate::error::Error;
use crate::graph::Order;

/// The weakest orders of all sites together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Minimal {
    /// The order of each site.
    pub orders: Vec<Order>,
    /// Whether no site can be one step weaker. This is false if a limit cut short an exploration with a weaker order.
    pub is_minimal: bool,
}

impl Work<'_> {
    /// Finds a locally minimal assignment. The sites are tried in order, so the result is always the same.
    pub(super) fn minimize(&mut self, sites: &[Site]) -> Result<Minimal, Error> {
        let mut minimal = Minimal {
            orders: sites.iter().map(|site| site.order).collect(),
            is_minimal: !sites.iter().any(Site::is_limited),
        };
        let floors: Vec<Order> = sites.iter().map(floor).collect();
        if floors == minimal.orders {
            return Ok(minimal);
        }
        if let Tried::Clean = self.explore_all(sites, &floors)? {
            minimal.orders = floors;
            return Ok(minimal);
        }
        for (at, site) in sites.iter().enumerate() {
            while let Some(order) = self.step(site, at, sites, &mut minimal)? {
                minimal.orders[at] = order;
            }
        }
        Ok(minimal)
    }

    /// Returns an order for one site that is one step weaker and leaves the assignment clean.
    fn step(
        &mut self,
        site: &Site,
        at: usize,
        sites: &[Site],
        minimal: &mut Minimal,
    ) -> Result<Option<Order>, Error> {
        let is_open = |order: &&Order| {
            let mut effects = site.effects.iter();
            !effects.any(|(_, effect)| effect.is_known_not_clean_with(**order))
        };
        for &order in site.weaker(minimal.orders[at]).iter().filter(is_open) {
            let mut orders = minimal.orders.clone();
            orders[at] = order;
            match self.explore_all(sites, &orders)? {
                Tried::Clean => return Ok(Some(order)),
                Tried::Fails(_) => {}
                Tried::Limit => minimal.is_minimal = false,
            }
        }
        Ok(None)
    }

    /// Explores an assignment under all models.
    fn explore_all(&mut self, sites: &[Site], orders: &[Order]) -> Result<Tried, Error> {
        let models: Vec<_> = sites
            .iter()
            .flat_map(|site| site.effects.iter().map(|(model, _)| *model))
            .collect();
        let mut done = Vec::new();
        for model in models {
            let changed = sites.iter().zip(orders.iter().copied());
            let mut changed = changed.filter(|(site, order)| {
                !steps::are_alike(model, site.operation, site.order, *order)
            });
            if done.contains(&model) || changed.next().is_none() {
                continue;
            }
            done.push(model);
            let all = sites.iter().zip(orders.iter().copied());
            let tried = self.explore_weaker(model, all)?;
            if !matches!(tried, Tried::Clean) {
                return Ok(tried);
            }
        }
        Ok(Tried::Clean)
    }
}

/// The weakest order of a site that is clean while all other sites keep their orders.
fn floor(site: &Site) -> Order {
    let mut floor = site.order;
    let is_clean_with = |order: &&Order| {
        let mut effects = site.effects.iter();
        effects.all(|(_, effect)| effect.is_clean_with(**order))
    };
    while let Some(&order) = site.weaker(floor).iter().find(is_clean_with) {
        floor = order;
    }
    floor
}

impl Site {
    /// The orders one step weaker, if the site is weakened.
    fn weaker(&self, order: Order) -> &'static [Order] {
        match self.source.is_changed() {
            true => steps::weaker(self.operation, order),
            false => &[],
        }
    }

    /// Whether an exploration with a weaker order was cut short by a limit.
    fn is_limited(&self) -> bool {
        self.effects
            .iter()
            .any(|(_, effect)| matches!(effect, Effect::Weakened { limit: Some(_), .. }))
    }
}
