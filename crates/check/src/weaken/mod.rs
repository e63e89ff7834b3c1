//! Finds the memory orders that the code under test needs: weakens each one, and explores the scenario again.
//!
//! The hook changes the order at run time, so no variant needs its own build. Weaker orders allow all executions that
//! stronger orders allow, so nothing weaker than a failing order is tried. An order that one scenario does not need may
//! still be necessary: the scenario may lack the case that needs it.

mod minimal;
mod mutant;
pub(crate) mod session;
mod site;
mod source;
mod steps;
mod text;

pub use minimal::Minimal;
pub use mutant::{Mutant, Outcome};
pub use site::Site;
pub use source::{Owner, Source};

use session::Progress;
use source::Sources;

use std::collections::HashMap;
use std::panic::Location;

use crate::error::Error;
use crate::explorer::{Explorer, Scenario};
use crate::graph::Order;
use crate::model::Model;
use crate::report::{Failure, Report, Verdict};
use crate::search::{CallSite, Changes, Met};

/// What weakening the orders of a scenario's code does.
#[derive(Debug)]
pub struct Weakening {
    /// The models.
    pub models: Vec<Model>,
    /// The sites, in the order of their lines.
    pub sites: Vec<Site>,
    /// The sites weakened together: exploration is complete and clean, and no site can be one step weaker.
    pub minimal: Minimal,
    /// The stores that were moved past a later access, in the order of their lines.
    pub mutants: Vec<Mutant>,
    /// How many explorations with weaker orders, or with a store moved, were made.
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
        /// The failures with the order that is one step below `least`.
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
    /// What goes wrong with this order.
    pub failure: Failure,
}

/// The explorations of one scenario with changes in the code under test.
struct Work<'a> {
    explorer: Explorer,
    set_up: &'a mut dyn FnMut(&mut Scenario),
    explorations: u64,
    executions: u64,
    /// Whether the code under test has crashed, which may corrupt its state: no exploration follows.
    crashed: bool,
}

/// How an exploration with changes ended.
enum Tried {
    Clean,
    Fails(Failure),
    Limit,
}

impl Explorer {
    /// Weakens the order of each atomic access and fence of the code under test in turn, step by step, and explores the
    /// scenario again. Then moves each store past the next store, past the store that publishes it, or past the load
    /// that follows a SeqCst fence, and explores again. Limits apply to each exploration; without a limit on time, two
    /// runs have the same result. After a crash of the code under test, what is not yet explored counts as limited.
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
        let (unchanged, met) = self.explore(Some(&Changes::None), &mut set_up)?;
        if !unchanged.is_clean() {
            let report = unchanged.to_string();
            return Err(Error::NotClean { report });
        }
        weaken(self, &unchanged, met, Location::caller(), &mut set_up)
    }
}

/// Weakens each order and moves each store that the clean exploration recorded, and explores again under each model.
fn weaken(
    explorer: &Explorer,
    unchanged: &Report,
    met: Vec<Met>,
    scenario: &Location<'_>,
    set_up: &mut dyn FnMut(&mut Scenario),
) -> Result<Weakening, Error> {
    let models = unchanged.verdicts.iter().map(|verdict| verdict.model);
    let met: Vec<(Model, Met)> = models.zip(met).collect();
    let sources = Sources::new(scenario, explorer.site.as_ref());
    let all = met.iter().flat_map(|(_, met)| met.calls.iter().copied());
    let mut sites = site::sites(all, &sources);
    let mut mutants = mutant::mutants(met.iter().map(|(_, met)| met), &sources);
    let mut work = Work {
        explorer: explorer.for_short_traces(),
        set_up,
        explorations: 0,
        executions: 0,
        crashed: false,
    };
    let progress = Progress::new(sites.len() + mutants.len());
    for (done, site) in sites.iter_mut().enumerate() {
        progress.show(done);
        if site.source.is_changed() {
            for (model, met) in &met {
                let effect = work.effect(site, *model, met)?;
                site.effects.push((*model, effect));
            }
        }
    }
    for (done, mutant) in mutants.iter_mut().enumerate() {
        progress.show(sites.len() + done);
        mutant.outcomes = work.mutate(mutant, &met)?;
    }
    let minimal = work.minimize(&sites)?;
    Ok(Weakening {
        models: met.into_iter().map(|(model, _)| model).collect(),
        sites,
        minimal,
        mutants,
        explorations: work.explorations,
        executions: work.executions,
    })
}

impl Work<'_> {
    /// Weakens one site under one model until no weaker step is clean.
    fn effect(&mut self, site: &Site, model: Model, met: &Met) -> Result<Effect, Error> {
        if !site.calls.iter().any(|call| met.calls.contains(call)) {
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
                    false => self.explore_weaker(model, [(site, order)])?,
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

    fn explore_weaker<'s>(
        &mut self,
        model: Model,
        orders: impl IntoIterator<Item = (&'s Site, Order)>,
    ) -> Result<Tried, Error> {
        let orders: Vec<(&Site, Order)> = orders.into_iter().collect();
        let weakened: HashMap<CallSite, Order> = orders
            .iter()
            .flat_map(|&(site, order)| site.calls.iter().map(move |&call| (call, order)))
            .collect();
        self.explore(model, &Changes::Weaker(weakened), || {
            weaker_in_words(&orders)
        })
    }

    fn explore(
        &mut self,
        model: Model,
        changes: &Changes,
        in_words: impl FnOnce() -> String,
    ) -> Result<Tried, Error> {
        if self.crashed {
            return Ok(Tried::Limit);
        }
        let explorer = self.explorer.clone().models([model]);
        self.explorations += 1;
        let report = match explorer.explore(Some(changes), self.set_up) {
            Ok((report, _)) => report,
            Err(Error::TooManySteps { .. } | Error::TooManyFences { .. }) => {
                return Ok(Tried::Limit);
            }
            Err(error) => {
                return Err(Error::Changed {
                    model,
                    changes: in_words(),
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
    let names = weaker
        .map(|(site, order)| format!("{} {order:?} at {}", site.operation, site.source.place()));
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
