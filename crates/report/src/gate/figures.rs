//! The figures of a row: the minimum, median and maximum over its boots.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::units::thousandths;
use crate::{Measured, is_of_host};
use vmbell_statistics::median;

/// The events that count exits, and exits that go on to the VMM. An exit's reason follows the first name and a colon.
pub(super) const EXITS: &str = "kvm:kvm_exit";
pub(super) const TO_VMM: &str = "kvm:kvm_userspace_exit";
/// If a row's boots differ by more than this share of its median, its instructions are not checked.
const WIDE: f64 = 0.02;
/// With at least this many boots, a range ignores the lowest and the highest.
const TRIMMED: usize = 5;

/// The minimum, median and maximum over several boots.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct BootRange(pub [f64; 3]);

impl BootRange {
    /// The range over the boots; `None` without boots. With five or more, the ends are the second lowest and the second
    /// highest boot: occasionally a timer interrupt falls into most batches of a row.
    pub(super) fn of(boots: &[f64]) -> Option<Self> {
        let mut sorted = boots.to_vec();
        sorted.sort_by(f64::total_cmp);
        let left_out = usize::from(sorted.len() >= TRIMMED);
        let most = *sorted.iter().nth_back(left_out)?;
        Some(Self([
            sorted[left_out],
            thousandths(median(&sorted)?),
            most,
        ]))
    }

    /// The median.
    pub const fn median(self) -> f64 {
        self.0[1]
    }

    /// The maximum.
    pub(super) const fn most(self) -> f64 {
        self.0[2]
    }

    /// The distance between the ends of the range.
    pub(super) const fn width(self) -> f64 {
        self.0[2] - self.0[0]
    }

    /// Whether the boots are too far apart for a figure.
    pub(super) const fn is_wide(self) -> bool {
        self.width() > WIDE * self.median()
    }
}

/// The figures of a row, per operation, over its boots.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct GateFigures {
    /// Instructions of guest, kernel and VMM.
    pub instructions: BootRange,
    /// Exits that the guest causes; `None` if they were not counted.
    pub exits: Option<BootRange>,
    /// Exits that go on to the VMM.
    pub to_vmm: Option<BootRange>,
    /// Exits by the kernel's reasons: the median over boots of their means.
    pub reasons: BTreeMap<String, f64>,
    /// Accesses by address, for rows that count them: the median over boots.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub addresses: BTreeMap<String, f64>,
}

impl GateFigures {
    /// The figures of a row whose runs are boots; `None` without runs.
    pub(super) fn of(row: &Measured) -> Option<Self> {
        let range = |name| BootRange::of(&of_operation(row, name)?);
        let medians = |pick: fn(&str) -> Option<&str>| -> BTreeMap<String, f64> {
            let each = row.events.iter().filter_map(|(name, _)| {
                let count = median(&of_operation(row, name)?)?;
                Some((pick(name)?.to_owned(), thousandths(count)))
            });
            each.filter(|(_, count)| *count > 0.0).collect()
        };
        Some(Self {
            instructions: BootRange::of(&row.times.samples)?,
            exits: range(EXITS),
            to_vmm: range(TO_VMM),
            reasons: medians(reason),
            addresses: medians(|name| (!name.starts_with("kvm:")).then_some(name)),
        })
    }
}

/// The exit reason that an event counts; `None` for other events and for exits that the host causes.
fn reason(event: &str) -> Option<&str> {
    let reason = event.strip_prefix(EXITS)?.strip_prefix(':')?;
    (!is_of_host(reason)).then_some(reason)
}

/// How often an event happened per operation in each boot; `None` if it was not counted.
pub(super) fn of_operation(row: &Measured, event: &str) -> Option<Vec<f64>> {
    let runs = row.events.get(event)?.iter().zip(&row.times.ops);
    let each = runs.map(|(count, ops)| thousandths(float(*count) / float(*ops).max(1.0)));
    Some(each.collect())
}

#[allow(clippy::cast_precision_loss, reason = "far fewer events than 2^53")]
pub(super) fn float(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
#[path = "figures_test.rs"]
mod tests;
