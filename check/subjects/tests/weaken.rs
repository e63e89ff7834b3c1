//! Which orders of vmbell's queues are needed: each one is weakened, and rings that carry values are explored again.

use std::collections::BTreeMap;

use vmbell_check::{Explorer, Format, Model, Operation, Owner, Site};
use vmbell_subjects::Values;

/// Whether no ring here needs an order, and why it is kept.
fn is_kept(site: &Site) -> bool {
    let functions = site.source.function.split(" in ");
    let functions: Vec<&str> = functions
        .map(|name| name.split(':').next().unwrap_or_default())
        .collect();
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

/// Checks that some ring needs each order, and each fence under TSO also.
fn each_order_is_needed(format: Format) {
    let mut is_needed: BTreeMap<(String, Model), bool> = BTreeMap::new();
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
                    let name = format!("{}, {}, {}", site.source.place(), site.source.function, site.operation);
                    *is_needed.entry((name, *model)).or_default() |= words == "needed";
                }
            }
        }
    }
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
