//! Finds the memory orders that the code under test needs: weakens each one, and explores the scenario again.
//!
//! The hook changes the order at run time, so no variant needs its own build. Weaker orders allow all executions that
//! stronger orders allow, so nothing weaker than a failing order is tried. An order that one scenario does not need may
//! still be necessary: the scenario may lack the case that needs it.

mod minimal;
pub(crate) mod session;
mod site;
mod steps;
mod text;

pub use minimal::Minimal;
pub use site::{Owner, Site};

use session::Progress;

use std::collections::HashMap;
use std::panic::Location;

use crate::error::Error;
use crate::explorer::{Explorer, Scenario};
use crate::graph::Order;
use crate::model::Model;
use crate::report::{Failure, Report, Verdict};
use crate::search::CallSite;

/// What weakening the orders of a scenario's code does.
#[derive(Debug)]
pub struct Weakening {
    /// The models.
    pub models: Vec<Model>,
    /// The sites, in the order of their lines.
    pub sites: Vec<Site>,
    /// The sites weakened together: exploration is complete and clean, and no site can be one step weaker.
    pub minimal: Minimal,
    /// How many explorations with weaker orders were made.
    pub explorations: u64,
    /// How many executions these explorations had.
    pub executions: u64,
}

/// What weakening one site does under one model.
#[derive(Debug)]
pub enum Effect {
    /// No execution reaches the site.
    NotReached,
    /// The model does not distinguish between the orders.
    NoDifference,
    /// The site was weakened step by step.
    Weakened {
        /// The weakest order with which all executions were explored and none failed.
        least: Order,
        /// The failures one step below it.
        breaks: Vec<Break>,
        /// An order one step below it with which a limit ended the exploration.
        limit: Option<Order>,
    },
}

/// An order that is too weak.
#[derive(Debug)]
pub struct Break {
    /// The order.
    pub order: Order,
    /// What goes wrong with it.
    pub failure: Failure,
}

/// The explorations of one scenario with weaker orders.
struct Work<'a> {
    explorer: Explorer,
    set_up: &'a mut dyn FnMut(&mut Scenario),
    explorations: u64,
    executions: u64,
    /// Whether the code under test has crashed, which may corrupt its state: no exploration follows.
    crashed: bool,
}

/// How an exploration with weaker orders ended.
enum Tried {
    Clean,
    Fails(Failure),
    Limit,
}

impl Explorer {
    /// Weakens the order of each atomic access and fence of the code under test in turn, step by step, and explores the
    /// scenario again. Limits apply to each exploration; without a limit on time, two runs have the same result. After
    /// a crash of the code under test, what is not yet explored counts as limited.
    ///
    /// # Errors
    ///
    /// If the scenario cannot be explored, or its exploration fails or is not complete with all orders as they are, or
    /// it has [guarded data](Explorer::with_guarded_data).
    #[track_caller]
    pub fn weaken(&self, mut set_up: impl FnMut(&mut Scenario)) -> Result<Weakening, Error> {
        if self.guarded_data {
            return Err(Error::GuardedData);
        }
        let (unchanged, met) = self.explore(Some(&HashMap::new()), &mut set_up)?;
        if !unchanged.is_clean() {
            let report = unchanged.to_string();
            return Err(Error::NotClean { report });
        }
        weaken(self, &unchanged, &met, Location::caller(), &mut set_up)
    }
}

/// Weakens the sites that a clean exploration met under each model.
fn weaken(
    explorer: &Explorer,
    unchanged: &Report,
    met: &[Vec<CallSite>],
    scenario: &Location<'_>,
    set_up: &mut dyn FnMut(&mut Scenario),
) -> Result<Weakening, Error> {
    let all = met.iter().flatten().copied();
    let mut sites = site::sites(all, scenario, explorer.site.as_ref());
    let mut work = Work {
        explorer: explorer.for_short_traces(),
        set_up,
        explorations: 0,
        executions: 0,
        crashed: false,
    };
    let progress = Progress::new();
    let all = sites.len();
    for (done, site) in sites.iter_mut().enumerate() {
        progress.show(done, all);
        if !site.is_weakened() {
            continue;
        }
        for (verdict, met) in unchanged.verdicts.iter().zip(met) {
            let effect = work.effect(site, verdict.model, met)?;
            site.effects.push((verdict.model, effect));
        }
    }
    let minimal = work.minimize(&sites)?;
    Ok(Weakening {
        models: unchanged
            .verdicts
            .iter()
            .map(|verdict| verdict.model)
            .collect(),
        sites,
        minimal,
        explorations: work.explorations,
        executions: work.executions,
    })
}

impl Work<'_> {
    /// Weakens one site under one model until no weaker step is clean.
    fn effect(&mut self, site: &Site, model: Model, met: &[CallSite]) -> Result<Effect, Error> {
        if !site.calls.iter().any(|call| met.contains(call)) {
            return Ok(Effect::NotReached);
        }
        if steps::are_alike(model, site.operation, site.order, Order::Relaxed) {
            return Ok(Effect::NoDifference);
        }
        let mut least = site.order;
        loop {
            let mut breaks = Vec::new();
            let mut limit = None;
            let mut clean = None;
            for &order in steps::weaker(site.operation, least) {
                let tried = match steps::are_alike(model, site.operation, least, order) {
                    true => Tried::Clean,
                    false => self.explore(model, [(site, order)])?,
                };
                match tried {
                    Tried::Clean => {
                        clean = Some(order);
                        break;
                    }
                    Tried::Fails(failure) => breaks.push(Break { order, failure }),
                    Tried::Limit => limit = Some(order),
                }
            }
            match clean {
                Some(order) => least = order,
                None => {
                    return Ok(Effect::Weakened {
                        least,
                        breaks,
                        limit,
                    });
                }
            }
        }
    }

    fn explore<'s>(
        &mut self,
        model: Model,
        orders: impl IntoIterator<Item = (&'s Site, Order)>,
    ) -> Result<Tried, Error> {
        if self.crashed {
            return Ok(Tried::Limit);
        }
        let orders: Vec<(&Site, Order)> = orders.into_iter().collect();
        let weakened: HashMap<CallSite, Order> = orders
            .iter()
            .flat_map(|&(site, order)| site.calls.iter().map(move |&call| (call, order)))
            .collect();
        let explorer = self.explorer.clone().models([model]);
        self.explorations += 1;
        let report = match explorer.explore(Some(&weakened), self.set_up) {
            Ok((report, _)) => report,
            Err(Error::TooManySteps { .. } | Error::TooManyFences { .. }) => {
                return Ok(Tried::Limit);
            }
            Err(error) => {
                return Err(Error::Weakened {
                    model,
                    orders: weaker_in_words(&orders),
                    source: Box::new(error),
                });
            }
        };
        self.executions += report.verdicts.iter().map(Verdict::executions).sum::<u64>();
        self.crashed = report.verdicts.iter().any(|verdict| verdict.crashed);
        let complete = report.is_complete();
        let failure = report
            .verdicts
            .into_iter()
            .find_map(|verdict| verdict.failure);
        Ok(match failure {
            Some(failure) => Tried::Fails(failure),
            None if complete => Tried::Clean,
            None => Tried::Limit,
        })
    }
}

/// Names the sites whose orders are weaker than in the code.
fn weaker_in_words(orders: &[(&Site, Order)]) -> String {
    let weaker = orders.iter().filter(|(site, order)| site.order != *order);
    let names =
        weaker.map(|(site, order)| format!("{} {order:?} at {}", site.operation, site.place()));
    names.collect::<Vec<_>>().join(", ")
}

impl Effect {
    /// Returns whether no execution fails with this order of the site.
    pub(crate) fn is_clean_with(&self, order: Order) -> bool {
        match self {
            Effect::NotReached | Effect::NoDifference => true,
            Effect::Weakened { least, .. } => steps::is_as_strong(order, *least),
        }
    }

    /// Returns whether this order, or a stronger one, failed or reached a limit.
    pub(crate) fn is_known_not_clean_with(&self, order: Order) -> bool {
        let Effect::Weakened { breaks, limit, .. } = self else {
            return false;
        };
        let failed = breaks.iter().map(|weaker| weaker.order);
        failed
            .chain(*limit)
            .any(|known| steps::is_as_strong(known, order))
    }
}
