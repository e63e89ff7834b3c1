//! What a recording of `vmbell top` shows, in sentences: which events were lost, which VM exits to its VMM most, and where.

use super::recorded::{number, title};
use crate::history::{AddressHistory, History, Rate};
use crate::{Recording, units};

/// The share of interrupts by a kernel worker that deserves a sentence.
const MANY_BY_WORKER: f64 = 0.1;

/// The sentences, the most important one first; there is at least one.
pub(super) fn findings(recording: &Recording, histories: &[History]) -> Vec<String> {
    let lost = recording.lines.last().and_then(|line| line.lost);
    let lost = lost.filter(|lost| *lost > 0).map(|lost| {
        let events = units::plural(lost, "event");
        format!("{events} lost, so counts are too low")
    });
    let workers = histories.iter().filter_map(by_worker);
    let slow = std::iter::once(slowest(histories));
    lost.into_iter().chain(slow).chain(workers).collect()
}

/// The VM that exits to its VMM most often.
fn slowest(histories: &[History]) -> String {
    if histories.is_empty() {
        return "No VM ran on KVM in this time".to_owned();
    }
    let rates = histories
        .iter()
        .filter_map(|history| Some((history, history.mean(Rate::ToVmm)?)));
    let Some((history, rate)) = rates.max_by(|(_, one), (_, other)| one.total_cmp(other)) else {
        return "Exits to the VMM were not counted".to_owned();
    };
    if rate <= 0.0 {
        return "No VM exited to its VMM".to_owned();
    }
    let most = if histories.len() > 1 {
        " most often"
    } else {
        ""
    };
    let rate = number(Some(rate));
    let at = busiest(history).unwrap_or_default();
    format!(
        "{} exits to its VMM{most}: {rate} times a second{at}",
        title(history)
    )
}

/// The address with the most exits to the VMM: `, 98 % of them at port 0x3f8 (serial port)`.
#[expect(
    clippy::cast_precision_loss,
    reason = "a share is shown with two digits"
)]
fn busiest(history: &History) -> Option<String> {
    let exits = |(_, place): &(&(String, u64), &AddressHistory)| place.exits_to_vmm;
    let addresses = history.addresses.iter();
    let ((space, address), place) = addresses.max_by_key(exits)?;
    let of_addresses: u64 = history
        .addresses
        .values()
        .map(|place| place.exits_to_vmm)
        .sum();
    let all = of_addresses + history.reasons.values().sum::<u64>();
    let share = place.exits_to_vmm as f64 / all as f64;
    let name = place.name.as_ref();
    let name = name.map_or_else(String::new, |name| format!(" ({name})"));
    (place.exits_to_vmm > 0).then(|| {
        format!(
            ", {:.0} % of them at {space} {address:#x}{name}",
            share * 100.0
        )
    })
}

/// Interrupts of irqfds that a kernel worker raises, which is slower than raising them where they are signalled.
#[expect(
    clippy::cast_precision_loss,
    reason = "a share is shown with two digits"
)]
fn by_worker(history: &History) -> Option<String> {
    let sum = |place: usize| {
        history
            .irqfds
            .values()
            .map(|counts| counts[place])
            .sum::<u64>()
    };
    let share = sum(1) as f64 / sum(0) as f64;
    (share >= MANY_BY_WORKER).then(|| {
        format!(
            "{}: a kernel worker raises {:.0} % of the interrupts by irqfd",
            title(history),
            share * 100.0
        )
    })
}

#[cfg(test)]
#[path = "findings_test.rs"]
mod tests;
