//! What a backend's rows mean, in at most three sentences: what a person wants to know about a host before any table.
//!
//! A sentence is left out if its rows were not measured. Sentences are made from the report's rows, so a report from an
//! older version gets the sentences of this version.

use crate::{Ratio, Report, Row, Timing, units};

/// The sentences about doorbells, interrupts and virtqueues; empty if times mean nothing here.
pub(crate) fn answer(report: &Report, backend: &str) -> Vec<String> {
    let is_meaningless = report.timing == Timing::Emulated || report.emulates_kernel_mode(backend);
    if report.paths().is_none() || is_meaningless {
        return Vec::new();
    }
    let rows = BackendRows { report, backend };
    let sentences = [rows.doorbell(), rows.interrupt(), rows.virtqueue()];
    sentences.into_iter().flatten().collect()
}

/// The rows that say what a doorbell costs: with an ioeventfd and without, in order of preference.
const DOORBELLS: [[&str; 2]; 2] = [
    ["portio-wildcard-eventfd", "portio-no-eventfd"],
    ["mmio-wildcard-eventfd", "mmio-no-eventfd"],
];

/// The row of a doorbell that [`answer`] is about.
pub(crate) fn doorbell<'r>(report: &'r Report, backend: &'r str) -> Option<&'r Row> {
    let rows = BackendRows { report, backend };
    let measured = |[new, old]: [&str; 2]| Some((rows.cost(new)?, rows.cost(old)?).0.row);
    DOORBELLS.into_iter().find_map(measured)
}

/// The measured rows of one backend.
struct BackendRows<'r> {
    report: &'r Report,
    backend: &'r str,
}

/// The cost of a row.
struct Cost<'r> {
    row: &'r Row,
    ns: f64,
    /// Whether the cost is below `ns`, and nothing more is known.
    is_bound: bool,
    text: String,
}

impl<'r> BackendRows<'r> {
    fn cost(&self, name: &str) -> Option<Cost<'r>> {
        let mut rows = self.report.results.iter();
        let is_it = |row: &&Row| row.command == name && row.backend == self.backend;
        let row = rows.find(is_it)?;
        let bound = row.bound();
        let ns = bound.or(row.median())?;
        let text = match self.report.timing {
            Timing::Instructions => format!("{} instructions", units::count(ns)),
            Timing::Native | Timing::Emulated => units::time(ns),
        };
        let text = match bound {
            Some(_) => format!("less than {text}"),
            None => text,
        };
        Some(Cost {
            row,
            ns,
            is_bound: bound.is_some(),
            text,
        })
    }

    /// Compares the rows `new` and `old`: `2.80 µs, 4.2x cheaper than WHAT (11.8 µs)`. The ratio is that of the tables, unless
    /// the tables compare `new` with another row.
    fn against(&self, new: &str, old: &str, what: &str) -> Option<String> {
        let (new, old) = (self.cost(new)?, self.cost(old)?);
        let ratio = new.row.ratio();
        let ratio = ratio.filter(|ratio| ratio.reference == old.row.command);
        let is_unclear = ratio.is_some_and(Ratio::is_unclear);
        let value = ratio.map_or(new.ns / old.ns, |ratio| ratio.value);
        let change = units::change(value, self.report.timing);
        let change = match change.as_str() {
            _ if is_unclear && new.ns < old.ns => "not clearly less than".to_owned(),
            _ if is_unclear => "not clearly more than".to_owned(),
            "the same" => "as much as".to_owned(),
            _ if new.is_bound => format!("more than {change} than"),
            change => format!("{change} than"),
        };
        Some(format!("{}, {change} {what} ({})", new.text, old.text))
    }

    fn doorbell(&self) -> Option<String> {
        let compared = |[new, old]: [&str; 2]| self.against(new, old, "an exit to the VMM");
        let text = DOORBELLS.into_iter().find_map(compared)?;
        Some(format!("A doorbell (ioeventfd) costs {text}."))
    }

    fn interrupt(&self) -> Option<String> {
        let reaches = self.cost("irqfd-edge-to-halted").map(|halted| {
            let running = self
                .cost("irqfd-edge-to-running")
                .map_or_else(String::new, |running| {
                    format!(" and a running one in {}", running.text)
                });
            format!(
                "An interrupt (irqfd) reaches a halted vCPU in {}{running}",
                halted.text
            )
        });
        let end = self.against("eoi-pv", "eoi-x2apic", "the EOI register");
        match (reaches, end) {
            (Some(reaches), Some(end)) => Some(format!("{reaches}; PV EOI ends it in {end}.")),
            (Some(reaches), None) => Some(format!("{reaches}.")),
            (None, Some(end)) => Some(format!("PV EOI ends an interrupt in {end}.")),
            (None, None) => None,
        }
    }

    fn virtqueue(&self) -> Option<String> {
        let (new, old) = (
            "virtqueue-roundtrip-ioeventfd-irqfd",
            "virtqueue-roundtrip-device-model",
        );
        let text = self.against(new, old, "by exits to the VMM")?;
        Some(format!(
            "A virtqueue buffer makes a round trip by ioeventfd and irqfd in {text}."
        ))
    }
}

#[cfg(test)]
#[path = "answer_test.rs"]
mod tests;
