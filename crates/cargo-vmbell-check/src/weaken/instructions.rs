//! Which instructions the weakened orders of all sites save in total, by a table of rules for x86-64 and arm64.
//!
//! The rules are how LLVM compiles them. x86-64 needs a full barrier for a SeqCst fence or store, and nothing for a
//! weaker one. On arm64 an access that acquires or releases has its own instruction, and a fence is a `dmb`.

use super::summary::{Site, Strength, Summary};

/// An instruction, and the number of sites that have it: in the code as it is, and with all orders weakened.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Count {
    pub(super) arch: &'static str,
    pub(super) instruction: &'static str,
    pub(super) code: usize,
    pub(super) together: usize,
}

/// The architectures, each with the rules for an operation and its order. A relaxed access counts nothing.
type Rules = fn(&str, Strength) -> Option<&'static str>;
const RULES: [(&str, Rules, &[&str]); 2] = [
    ("x86-64", x86_64, &["mfence", "xchg"]),
    (
        "arm64",
        arm64,
        &[
            "dmb ish",
            "dmb ishld",
            "ldar",
            "stlr",
            "ldadda",
            "ldaddl",
            "ldaddal",
            "casa",
            "casl",
            "casal",
        ],
    ),
];

fn x86_64(operation: &str, order: Strength) -> Option<&'static str> {
    match operation {
        "fence" if order == Strength::SEQ_CST => Some("mfence"),
        "store" if order == Strength::SEQ_CST => Some("xchg"),
        _ => None,
    }
}

fn arm64(operation: &str, order: Strength) -> Option<&'static str> {
    match (operation, order.acquires(), order.releases()) {
        (_, false, false) => None,
        ("fence", _, true) => Some("dmb ish"),
        ("fence", ..) => Some("dmb ishld"),
        ("load", ..) => Some("ldar"),
        ("store", ..) => Some("stlr"),
        ("compare-exchange, success", true, false) => Some("casa"),
        ("compare-exchange, success", false, true) => Some("casl"),
        ("compare-exchange, success", true, true) => Some("casal"),
        // A compare-exchange is one instruction, and counts with its success order.
        ("compare-exchange, failure", ..) => None,
        (_, true, false) => Some("ldadda"),
        (_, false, true) => Some("ldaddl"),
        (_, true, true) => Some("ldaddal"),
    }
}

/// Counts the instructions of the code under test. An update other than a compare-exchange counts as an addition, such
/// as `ldaddal`.
pub(super) fn count(summary: &Summary) -> Vec<Count> {
    let is_counted = |site: &&Site| site.is_weakened() && site.place.source.owner == "tested code";
    let sites: Vec<&Site> = summary.sites.iter().filter(is_counted).collect();
    let mut counts = Vec::new();
    for (arch, rule, instructions) in RULES {
        for &instruction in instructions {
            let count = |order: fn(&Site) -> Strength| {
                let has =
                    |site: &&&Site| rule(&site.place.operation, order(site)) == Some(instruction);
                sites.iter().filter(has).count()
            };
            let (code, together) = (count(|site| site.order), count(|site| site.together));
            if (code, together) != (0, 0) {
                counts.push(Count {
                    arch,
                    instruction,
                    code,
                    together,
                });
            }
        }
    }
    counts
}
