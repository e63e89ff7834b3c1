//! The rule: when a row has grown.
//!
//! A figure has grown if its median is above all boots of the budget. It must also exceed the budget's median by more
//! than the minimum change that counts, and by more than the boots of either side differ from each other. Exits are
//! exact if all boots agree.

use std::collections::BTreeMap;

use serde::Serialize;

use super::figures::{BootRange, GateFigures};
use crate::compare::{CompareError, Pairing, RowKey, VERSION_OF, differences, matched};
use crate::{Report, Row, Status};

/// The minimum change of instructions that counts, as a share of the budget: a quarter of a per cent.
const LEAST_SHARE: f64 = 0.0025;
/// The minimum change for rows with two threads, whose interleaving differs from boot to boot: a tenth, but at least
/// two timer interrupts per batch.
const LEAST_SHARE_OF_TWO: f64 = 0.1;
const LEAST_OF_TWO: f64 = 2000.0;
/// The minimum change of exits that counts: one exit in twenty operations.
const LEAST_EXITS: f64 = 0.05;

/// A VMM on a kernel of the lab.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct GatePlace {
    /// The kernel's name in the plan.
    pub kernel: String,
    /// The VMM's name.
    pub vmm: String,
}

/// A row of a VMM on a kernel.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct GateRow {
    /// The VMM and the kernel.
    #[serde(flatten)]
    pub place: GatePlace,
    /// The row.
    pub row: String,
}

/// A quantity that a gate checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum GateQuantity {
    /// Exits that the guest causes.
    Exits,
    /// Exits that go on to the VMM.
    ToVmm,
    /// Instructions of guest, kernel and VMM.
    Instructions,
}

impl GateQuantity {
    /// All quantities.
    const ALL: [Self; 3] = [Self::Exits, Self::ToVmm, Self::Instructions];

    /// The quantity in words.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Exits => "exits",
            Self::ToVmm => "exits to the VMM",
            Self::Instructions => "instructions",
        }
    }

    fn of(self, figures: &GateFigures) -> Option<BootRange> {
        match self {
            Self::Exits => figures.exits,
            Self::ToVmm => figures.to_vmm,
            // The instructions vary too much.
            Self::Instructions if figures.instructions.is_wide() => None,
            Self::Instructions => Some(figures.instructions),
        }
    }

    fn least_change(self, row: &str, budget: BootRange) -> f64 {
        match self {
            Self::Exits | Self::ToVmm => LEAST_EXITS,
            Self::Instructions if has_two_threads(row) => {
                LEAST_OF_TWO.max(LEAST_SHARE_OF_TWO * budget.median())
            }
            Self::Instructions => LEAST_SHARE * budget.median(),
        }
    }

    /// The highest median that is still within the budget.
    fn allowed(self, row: &str, budget: BootRange, now: BootRange) -> f64 {
        let change = self.least_change(row, budget);
        let change = change.max(budget.width()).max(now.width());
        budget.most().max(budget.median() + change)
    }

    /// Whether a figure has grown.
    fn has_grown(self, row: &str, budget: BootRange, now: BootRange) -> bool {
        now.median() > self.allowed(row, budget, now)
    }
}

/// Whether a second thread takes part in a row: a vCPU that is woken, or a thread of a device.
pub(super) fn has_two_threads(row: &str) -> bool {
    let is_of_device = row.starts_with("virtio-") && !row.ends_with("-eoi");
    is_of_device || ["ipi-to-vcpu", "hlt-wake", "linux-boot"].contains(&row)
}

/// A figure that changed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct GateChange {
    /// The row of the figure.
    #[serde(flatten)]
    pub name: GateRow,
    /// The quantity that changed.
    pub quantity: GateQuantity,
    /// The budget.
    pub budget: BootRange,
    /// The highest value that was allowed.
    pub allowed: f64,
    /// What was measured.
    pub now: BootRange,
    /// For exits: each reason and address whose number changed, with the budget's number and the measured number.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub reasons: BTreeMap<String, [f64; 2]>,
}

/// A row of the budget that was not measured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct GoneRow {
    /// The row.
    #[serde(flatten)]
    pub name: GateRow,
    /// Why the row was not measured.
    pub reason: String,
}

/// A boot of a VMM that gave no results.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FailedBoot {
    /// The VMM and the kernel.
    #[serde(flatten)]
    pub place: GatePlace,
    /// The boot's seed.
    pub seed: u64,
    /// Why the boot gave no results.
    pub reason: String,
    /// The VMM's last output.
    pub last_output: Option<String>,
}

/// A VMM that was deliberately measured in a different version from the budget's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct OtherVersion {
    /// The VMM and the kernel.
    #[serde(flatten)]
    pub place: GatePlace,
    /// The budget's version.
    pub budget: String,
    /// The measured version.
    pub now: String,
}

/// The result of a gate.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct GateVerdict {
    /// Rows that were measured and are within the budget.
    pub held: usize,
    /// Figures that grew.
    pub grown: Vec<GateChange>,
    /// Rows that are gone, or whose exits were not counted.
    pub gone: Vec<GoneRow>,
    /// Boots that gave no results.
    pub failed: Vec<FailedBoot>,
    /// Figures that shrank.
    pub shrunk: Vec<GateChange>,
    /// Rows that the budget does not have.
    pub new: Vec<GateRow>,
    /// Rows of which only exits are checked, because the instructions of their boots differ too much.
    pub wide: Vec<GateRow>,
    /// VMMs whose version changed, as requested.
    pub versions: Vec<OtherVersion>,
}

impl GateVerdict {
    /// Whether nothing grew, failed or is gone.
    pub fn is_within(&self) -> bool {
        self.grown.is_empty() && self.gone.is_empty() && self.failed.is_empty()
    }

    /// Adds the boots of `kernel` in which a VMM failed, or measured no row.
    pub fn add_failed(&mut self, kernel: &str, boots: &[Report]) {
        let all = boots
            .iter()
            .flat_map(|boot| boot.vmms().iter().map(move |vmm| (boot, vmm)));
        for (boot, vmm) in all {
            let mut rows = boot.results.iter().filter(|row| row.backend == vmm.name);
            let absent = rows.clone().next();
            let reason = match vmm.status {
                Status::Ok if rows.any(Row::is_ok) => continue,
                Status::Ok => {
                    let why = absent.map(|row| format!(" ({}: {})", row.command, absence(row)));
                    format!("no row was measured{}", why.unwrap_or_default())
                }
                _ => vmm
                    .reason
                    .clone()
                    .unwrap_or_else(|| "it gave no results".to_owned()),
            };
            self.failed.push(FailedBoot {
                place: place(kernel, &vmm.name),
                seed: boot.seed,
                reason,
                last_output: vmm.last_output.clone(),
            });
        }
    }

    /// Compares what was measured on `kernel` with the baseline; without a baseline, all rows are new. A VMM for which
    /// `is_replaced` returns true may have a different version than in the baseline.
    ///
    /// # Errors
    ///
    /// If the figures are not comparable: a different kernel, CPU, unit or version. The verdict is then unchanged.
    pub fn hold(
        &mut self,
        kernel: &str,
        baseline: Option<&Report>,
        now: &Report,
        is_replaced: impl Fn(&str) -> bool,
    ) -> Result<(), CompareError> {
        let name = |key: &RowKey| GateRow {
            place: place(kernel, &key.backend),
            row: key.command.clone(),
        };
        let Some(baseline) = baseline else {
            let rows = now.results.iter().filter(|row| row.is_ok());
            self.new.extend(rows.map(|row| name(&RowKey::of(row))));
            return Ok(());
        };
        let (old, new) = (std::slice::from_ref(baseline), std::slice::from_ref(now));
        let mut versions = Vec::new();
        let mut refused = differences(old, new, true);
        refused.retain(|difference| {
            let vmm = difference.what.strip_prefix(VERSION_OF);
            let replaced = vmm.filter(|vmm| is_replaced(vmm));
            versions.extend(replaced.map(|vmm| OtherVersion {
                place: place(kernel, vmm),
                budget: difference.old.concat(),
                now: difference.new.concat(),
            }));
            difference.refused && replaced.is_none()
        });
        if !refused.is_empty() {
            return Err(CompareError::Different(refused));
        }
        let matching = matched(old, new, Pairing::Apart)?;
        self.versions.extend(versions);
        let figures = |rows: &[&Row]| GateFigures::of(rows.first()?.measured()?);
        for row in &matching.rows {
            if let (Some(budget), Some(now)) = (figures(&row.old), figures(&row.new)) {
                self.hold_row(&name(&row.key), &budget, &now);
            }
        }
        self.new.extend(matching.only_new.iter().map(name));
        let failed = matching.failed_now.iter().map(|row| &row.key);
        for key in matching.only_old.iter().chain(failed) {
            let mut rows = now.results.iter().filter(|row| row.backend == key.backend);
            // A failed VMM is reported elsewhere, and a VMM that is no longer in the plan is not missed.
            if rows.clone().any(Row::is_ok) {
                let absent = rows.find(|row| row.command == key.command);
                self.gone.push(GoneRow {
                    name: name(key),
                    reason: absent.map_or("the VMM has no such row", absence).to_owned(),
                });
            }
        }
        Ok(())
    }

    /// Compares one row with its budget.
    fn hold_row(&mut self, name: &GateRow, budget: &GateFigures, now: &GateFigures) {
        let before = (self.grown.len(), self.gone.len());
        if budget.instructions.is_wide() || now.instructions.is_wide() {
            self.wide.push(name.clone());
        }
        if budget.exits.is_some() && now.exits.is_none() {
            self.gone.push(GoneRow {
                name: name.clone(),
                reason: "its exits were not counted".to_owned(),
            });
        }
        for quantity in GateQuantity::ALL {
            let Some((held, range)) = quantity.of(budget).zip(quantity.of(now)) else {
                continue;
            };
            let changes = if quantity.has_grown(&name.row, held, range) {
                &mut self.grown
            } else if quantity.has_grown(&name.row, range, held) {
                &mut self.shrunk
            } else {
                continue;
            };
            changes.push(GateChange {
                name: name.clone(),
                quantity,
                budget: held,
                allowed: quantity.allowed(&name.row, held, range),
                now: range,
                reasons: match quantity {
                    GateQuantity::Exits => reasons(budget, now),
                    GateQuantity::ToVmm | GateQuantity::Instructions => BTreeMap::new(),
                },
            });
        }
        self.held += usize::from(before == (self.grown.len(), self.gone.len()));
    }
}

fn place(kernel: &str, vmm: &str) -> GatePlace {
    GatePlace {
        kernel: kernel.to_owned(),
        vmm: vmm.to_owned(),
    }
}

/// Why a row was not measured.
fn absence(row: &Row) -> &str {
    row.reason().unwrap_or("it was not measured")
}

/// The reasons and addresses whose numbers changed.
fn reasons(budget: &GateFigures, now: &GateFigures) -> BTreeMap<String, [f64; 2]> {
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
