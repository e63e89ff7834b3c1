//! What the rows mean, in sentences: what a person wants to know of a host before any table.
//!
//! Each sentence is about one backend, and is left out if its rows were not measured.

use super::ratios::resolution_ns;
use super::{Options, Series, compare};
use vmbell_report::statistics::median;
use vmbell_report::{Backend, Timing, units};

/// The sentences, for one backend after the other.
pub fn verdict(all: &[Series], backends: &[Backend], options: &Options) -> Vec<String> {
    if options.timing == Timing::Emulated {
        return Vec::new();
    }
    let several = backends.len() > 1;
    let of = |backend: &Backend| {
        let rows = Rows {
            all,
            backend: &backend.name,
            options,
        };
        let sentences: Vec<String> = [rows.doorbell(), rows.interrupt(), rows.end(), rows.buffer()]
            .into_iter()
            .flatten()
            .collect();
        let label = match (several, backend.emulates_kernel_mode) {
            (_, true) => format!("{}, which emulates the guest's kernel mode: ", backend.name),
            (true, false) => format!("{}: ", backend.name),
            (false, false) => String::new(),
        };
        (!sentences.is_empty()).then(|| format!("{label}{}", sentences.join("; ")))
    };
    backends.iter().filter_map(of).collect()
}

/// The measured rows of one backend.
struct Rows<'r> {
    all: &'r [Series],
    backend: &'r str,
    options: &'r Options,
}

impl Rows<'_> {
    fn median(&self, name: &str) -> Option<f64> {
        median(&compare::measured(self.all, name, self.backend)?.ns_per_op())
    }

    fn value(&self, ns: f64) -> String {
        match self.options.timing {
            Timing::Instructions => format!("{} instructions", units::count(ns)),
            Timing::Native | Timing::Emulated => units::time(ns),
        }
    }

    /// `2.80 us, 0.24 of OLD (11.8 us)`, for the rows `new` and `old`.
    fn against(&self, new: &str, old: &str, what: &str) -> Option<String> {
        let bound = resolution_ns(
            compare::measured(self.all, new, self.backend)?,
            self.options,
        );
        let (new, old) = (self.median(new)?, self.median(old)?);
        let bound = bound.filter(|bound| new < *bound);
        if let Some(bound) = bound {
            let (share, bound) = (units::ratio(bound / old), self.value(bound));
            let old = self.value(old);
            return Some(format!(
                "less than {bound}, less than {share} of {what} ({old})"
            ));
        }
        let share = units::ratio(new / old);
        let share = if new < old {
            format!("{share} of")
        } else {
            format!("{share} times")
        };
        let (new, old) = (self.value(new), self.value(old));
        Some(format!("{new}, {share} {what} ({old})"))
    }

    fn doorbell(&self) -> Option<String> {
        let exit = "an exit to the VMM";
        let port = || self.against("portio-wildcard-eventfd", "portio-no-eventfd", exit);
        let memory = || self.against("mmio-wildcard-eventfd", "mmio-no-eventfd", exit);
        let text = port().or_else(memory)?;
        Some(format!("a doorbell costs {text} here"))
    }

    fn interrupt(&self) -> Option<String> {
        let halted = self.value(self.median("irqfd-edge-to-halted")?);
        let running = self
            .median("irqfd-edge-to-running")
            .map_or_else(String::new, |ns| {
                format!(" and one that runs in {}", self.value(ns))
            });
        Some(format!(
            "an interrupt reaches a guest that sleeps in {halted}{running}"
        ))
    }

    fn end(&self) -> Option<String> {
        let text = self.against("eoi-pv", "eoi-x2apic", "the register")?;
        Some(format!("the end of an interrupt by PV EOI costs {text}"))
    }

    fn buffer(&self) -> Option<String> {
        let (new, old) = (
            "virtqueue-roundtrip-ioeventfd-irqfd",
            "virtqueue-roundtrip-device-model",
        );
        let text = self.against(new, old, "the way through the device model")?;
        Some(format!("a buffer goes to a device and back in {text}"))
    }
}

#[cfg(test)]
#[path = "verdict_test.rs"]
mod tests;
