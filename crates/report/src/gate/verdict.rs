//! The rule: when a row has grown.
//!
//! A figure has grown if its median is above all boots of the budget and above the budget's median by more than the least change
//! that counts and by more than the boots of either side differ. Exits are exact where all boots agree.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::figures::{BootFailure, Figures, Range};

/// The least change of instructions that counts, as a share of the budget: a quarter of a per cent.
const LEAST_SHARE: f64 = 0.0025;
/// The same for rows of two threads, whose meetings differ from boot to boot: a tenth, and not less than two timer interrupts
/// in each batch.
const LEAST_SHARE_OF_TWO: f64 = 0.1;
const LEAST_OF_TWO: f64 = 2000.0;
/// The least change of exits that counts: one in twenty operations.
const LEAST_EXITS: f64 = 0.05;

/// A VMM on a kernel of the lab.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Place {
    /// The kernel as the budget names it.
    pub kernel: String,
    /// The VMM's name.
    pub vmm: String,
}

/// A row of a VMM on a kernel.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Name {
    /// The VMM and the kernel.
    #[serde(flatten)]
    pub place: Place,
    /// The row.
    pub row: String,
}

/// What was measured of a VMM on a kernel, or what its budget is.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Measured {
    /// What the program says about its version.
    pub version: Option<String>,
    /// The release of the kernel, which a name such as `debian:6.12` leaves open.
    pub kernel: Option<String>,
    /// The figures of each row.
    pub rows: BTreeMap<String, Figures>,
    /// Why a row has none.
    #[serde(skip)]
    pub absent: BTreeMap<String, String>,
    /// Boots that gave no results.
    #[serde(skip)]
    pub failures: Vec<BootFailure>,
}

/// What is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Quantity {
    /// Exits that the guest causes.
    Exits,
    /// Those that go on to the VMM.
    ToVmm,
    /// Instructions of guest, kernel and VMM.
    Instructions,
}

impl Quantity {
    /// All of them.
    const ALL: [Self; 3] = [Self::Exits, Self::ToVmm, Self::Instructions];

    /// In words.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Exits => "exits",
            Self::ToVmm => "exits to the VMM",
            Self::Instructions => "instructions",
        }
    }

    fn of(self, figures: &Figures) -> Option<Range> {
        match self {
            Self::Exits => figures.exits,
            Self::ToVmm => figures.to_vmm,
            // Its instructions are chance.
            Self::Instructions if figures.instructions.is_wide() => None,
            Self::Instructions => Some(figures.instructions),
        }
    }

    fn least_change(self, row: &str, budget: Range) -> f64 {
        match self {
            Self::Exits | Self::ToVmm => LEAST_EXITS,
            Self::Instructions if has_two_threads(row) => {
                LEAST_OF_TWO.max(LEAST_SHARE_OF_TWO * budget.median)
            }
            Self::Instructions => LEAST_SHARE * budget.median,
        }
    }

    /// The most that the median may be.
    fn allowed(self, row: &str, budget: Range, now: Range) -> f64 {
        let change = self.least_change(row, budget);
        let change = change.max(budget.width()).max(now.width());
        budget.most.max(budget.median + change)
    }

    /// What became of a figure.
    fn compare(self, row: &str, budget: Range, now: Range) -> Option<Direction> {
        if now.median > self.allowed(row, budget, now) {
            Some(Direction::Grown)
        } else if budget.median > self.allowed(row, now, budget) {
            Some(Direction::Shrunk)
        } else {
            None
        }
    }
}

/// Whether a second thread takes part in a row: a vCPU that is woken, or a thread of a device.
pub(super) fn has_two_threads(row: &str) -> bool {
    let is_of_device = row.starts_with("virtio-") && !row.ends_with("-eoi");
    is_of_device || ["ipi-to-vcpu", "hlt-wake", "linux-boot"].contains(&row)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    Grown,
    Shrunk,
}

/// A figure that is another one.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Change {
    /// Of which row.
    #[serde(flatten)]
    pub name: Name,
    /// Of what.
    pub quantity: Quantity,
    /// The budget.
    pub budget: Range,
    /// The most that was allowed.
    pub allowed: f64,
    /// What was measured.
    pub now: Range,
    /// Of exits: each reason and address whose number is another, with the budget's and what was measured.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub reasons: BTreeMap<String, [f64; 2]>,
}

/// A row of the budget that was not measured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Gone {
    /// The row.
    #[serde(flatten)]
    pub name: Name,
    /// Why.
    pub reason: String,
}

/// A boot that gave no results.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Failed {
    /// The VMM and the kernel.
    #[serde(flatten)]
    pub place: Place,
    /// Which boot, and why.
    #[serde(flatten)]
    pub boot: BootFailure,
}

/// A VMM or its kernel that has another version than that of the budget.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Version {
    /// The VMM and the kernel.
    #[serde(flatten)]
    pub place: Place,
    /// The budget's.
    pub budget: String,
    /// That which was measured.
    pub now: String,
}

/// What a gate says.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Verdict {
    /// Rows that were measured and are within the budget.
    pub held: usize,
    /// Figures that grew.
    pub grown: Vec<Change>,
    /// Rows that are gone, or whose exits are.
    pub gone: Vec<Gone>,
    /// Boots that gave no results.
    pub failed: Vec<Failed>,
    /// Figures that shrank.
    pub shrunk: Vec<Change>,
    /// Rows that the budget does not have.
    pub new: Vec<Name>,
    /// Rows that are held by their exits only, since boots differ too much.
    pub wide: Vec<Name>,
    /// VMMs, and kernels that they ran on, whose version is another one.
    pub versions: Vec<Version>,
}

impl Verdict {
    /// Whether nothing grew, failed or is gone.
    pub fn is_within(&self) -> bool {
        self.grown.is_empty() && self.gone.is_empty() && self.failed.is_empty()
    }
}

/// Holds what was measured against the budget.
pub fn judge(budget: &BTreeMap<Place, Measured>, now: &BTreeMap<Place, Measured>) -> Verdict {
    let mut verdict = Verdict::default();
    for (place, measured) in now {
        let failed = measured.failures.iter().map(|boot| Failed {
            place: place.clone(),
            boot: boot.clone(),
        });
        verdict.failed.extend(failed);
        let nothing = Measured::default();
        let held = budget.get(place).unwrap_or(&nothing);
        for (old, new) in [
            (&held.version, &measured.version),
            (&held.kernel, &measured.kernel),
        ] {
            if let (Some(old), Some(new)) = (old, new)
                && old != new
            {
                verdict.versions.push(Version {
                    place: place.clone(),
                    budget: old.clone(),
                    now: new.clone(),
                });
            }
        }
        for (row, figures) in &measured.rows {
            let name = Name {
                place: place.clone(),
                row: row.clone(),
            };
            match held.rows.get(row) {
                Some(held) => verdict.hold(&name, held, figures),
                None => verdict.new.push(name),
            }
        }
        // A VMM that failed has said so.
        let is_measured = !measured.rows.is_empty() || measured.failures.is_empty();
        for row in held.rows.keys().filter(|_| is_measured) {
            if !measured.rows.contains_key(row) {
                let reason = measured
                    .absent
                    .get(row)
                    .map_or("the VMM has no such row", |why| why);
                verdict.gone.push(Gone {
                    name: Name {
                        place: place.clone(),
                        row: row.clone(),
                    },
                    reason: reason.to_owned(),
                });
            }
        }
    }
    verdict
}

impl Verdict {
    /// Holds one row.
    fn hold(&mut self, name: &Name, budget: &Figures, now: &Figures) {
        let before = (self.grown.len(), self.gone.len());
        if budget.instructions.is_wide() || now.instructions.is_wide() {
            self.wide.push(name.clone());
        }
        if budget.exits.is_some() && now.exits.is_none() {
            self.gone.push(Gone {
                name: name.clone(),
                reason: "its exits were not counted".to_owned(),
            });
        }
        for quantity in Quantity::ALL {
            let Some((held, range)) = quantity.of(budget).zip(quantity.of(now)) else {
                continue;
            };
            let Some(direction) = quantity.compare(&name.row, held, range) else {
                continue;
            };
            let change = Change {
                name: name.clone(),
                quantity,
                budget: held,
                allowed: quantity.allowed(&name.row, held, range),
                now: range,
                reasons: match quantity {
                    Quantity::Exits => reasons(budget, now),
                    Quantity::ToVmm | Quantity::Instructions => BTreeMap::new(),
                },
            };
            match direction {
                Direction::Grown => self.grown.push(change),
                Direction::Shrunk => self.shrunk.push(change),
            }
        }
        self.held += usize::from(before == (self.grown.len(), self.gone.len()));
    }
}

/// The reasons and addresses whose numbers are others.
fn reasons(budget: &Figures, now: &Figures) -> BTreeMap<String, [f64; 2]> {
    let mut others = different(&budget.reasons, &now.reasons);
    others.extend(different(&budget.addresses, &now.addresses));
    others
}

fn different(
    budget: &BTreeMap<String, f64>,
    now: &BTreeMap<String, f64>,
) -> BTreeMap<String, [f64; 2]> {
    let of = |counts: &BTreeMap<String, f64>, name: &str| {
        let count = counts.get(name).copied();
        count.unwrap_or_default()
    };
    let names = budget.keys().chain(now.keys());
    names
        .map(|name| (name.clone(), [of(budget, name), of(now, name)]))
        .filter(|(_, [old, new])| (old - new).abs() > LEAST_EXITS)
        .collect()
}

#[cfg(test)]
#[path = "verdict_test.rs"]
mod tests;
