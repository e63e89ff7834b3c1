//! Which memory orders in vmbell's queues are needed: each order is weakened, each store is moved past a later access,
//! and each time rings that carry values are explored again.

use std::collections::BTreeMap;

use vmbell_check::{Explorer, Format, Model, Mutant, Operation, Owner, Site, Source};
use vmbell_subjects::Values;

/// The functions of a place, from the innermost on.
fn functions(source: &Source) -> Vec<&str> {
    let functions = source.function.split(" in ");
    functions
        .map(|name| name.split(':').next().unwrap_or_default())
        .collect()
}

/// Whether an order mutant that no ring here finds is equivalent to the original. The comments say why.
fn is_equivalent(mutant: &Mutant) -> bool {
    let (store, past) = (functions(&mutant.store), functions(&mutant.past));
    let is_in = |function| store.contains(&function);
    // Disabling notifications is only a hint.
    is_in("disable_notification") || is_in("disable_cb")
        // The driver comes to the further descriptors of a batch only after it has acquired the first.
        || is_in("add_used_batch") && past == ["store_rest", "add_used_batch"]
        // The further descriptors of a chain are released for a late poller. The device reaches them from the first
        // descriptor.
        || mutant.past.file.ends_with("packed/driver.rs")
}

/// Whether an order that no ring here needs is kept. The comments say why.
fn is_kept(site: &Site) -> bool {
    let functions = functions(&site.source);
    let is_in = |function| functions.contains(&function);
    match site.operation {
        // A look whose result is only compared: the look that takes a buffer acquires again. But stores follow it, and
        // RC11 says nothing of those.
        Operation::Load => {
            is_in("used_since")
                || is_in("enable_notification")
                || functions.ends_with(&["take_used", "next_used", "get_used"])
                    && functions.iter().filter(|name| **name == "look").count() == 1
                    && is_in("load_rest")
        }
        // The further descriptors of a chain: a poller that is a lap late looks there.
        Operation::Store => {
            is_in("{closure#0}")
                && (site.source.file.ends_with("packed/driver.rs") || is_in("offer_chain"))
        }
        _ => false,
    }
}

/// Checks that each order is needed by some ring, and that each fence is also needed under TSO.
fn each_order_is_needed(format: Format) {
    let mut is_needed: BTreeMap<(String, Model), bool> = BTreeMap::new();
    let mut is_found: BTreeMap<String, (bool, bool)> = BTreeMap::new();
    let (mut explorations, mut executions) = (0, 0);
    for event_idx in [false, true] {
        for values in Values::all(format, event_idx) {
            let explorer = Explorer::new()
                .models([Model::Tso, Model::Rc11])
                .seconds(vmbell_subjects::HANG);
            let weakening = explorer.weaken(|scenario| values.set_up(scenario));
            let weakening = weakening.unwrap_or_else(|error| panic!("{values}: {error}"));
            explorations += weakening.explorations;
            executions += weakening.executions;
            for mutant in weakening.mutants.iter().filter(|mutant| mutant.is_ordered) {
                let (store, past) = (&mutant.store, &mutant.past);
                let (of_store, of_past) = (store.place(), past.place());
                let name = format!(
                    "{of_store}, {} past the {} {of_past}, {}",
                    store.function, mutant.operation, past.function
                );
                let (found, equivalent) = is_found.entry(name).or_default();
                *found |= mutant.is_found();
                *equivalent |= is_equivalent(mutant);
            }
            for site in &weakening.sites {
                if let Owner::Standard(name) = &site.source.owner {
                    // The sides of the scenario share their notifications.
                    assert_eq!(name, "Arc::drop");
                    continue;
                }
                for (model, effect) in &site.effects {
                    let words = effect.in_words(site.order);
                    let is_fence = site.operation == Operation::Fence;
                    if is_kept(site) || (*model == Model::Tso && !is_fence) {
                        let is_free = ["not needed", "no difference"].contains(&&*words);
                        assert!(is_free, "{values}, {model}:\n{weakening}");
                        continue;
                    }
                    let name = format!(
                        "{}, {}, {}",
                        site.source.place(),
                        site.source.function,
                        site.operation
                    );
                    *is_needed.entry((name, *model)).or_default() |= words == "needed";
                }
            }
        }
    }
    for (name, (found, _)) in &is_found {
        println!("{name}: {}", if *found { "found" } else { "equivalent" });
    }
    let wrong = is_found
        .iter()
        .filter(|(_, (found, equivalent))| found == equivalent);
    let wrong: Vec<_> = wrong.map(|(name, _)| name).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
    println!("{format:?}: {explorations} explorations, {executions} executions");
    let names: Vec<&(String, Model)> = is_needed.keys().collect();
    let fences = names.iter().filter(|(name, _)| name.ends_with(", fence"));
    // Five, under each model: two before a question, two before the last look, and one where taking a buffer moves the
    // event.
    assert_eq!(fences.count(), 10, "{names:#?}");
    let unneeded = is_needed.iter().filter(|(_, is_needed)| !**is_needed);
    let unneeded: Vec<_> = unneeded.map(|(name, _)| name).collect();
    assert!(unneeded.is_empty(), "{unneeded:#?}");
}

#[test]
fn each_order_of_split_rings_is_needed() {
    each_order_is_needed(Format::Split);
}

#[test]
fn each_order_of_packed_rings_is_needed() {
    each_order_is_needed(Format::Packed);
}
