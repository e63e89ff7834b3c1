//! Which row is compared with which other row.
//!
//! Every path of a kind (port I/O, MMIO, hypercall) is compared with that kind's device model: the path without an
//! eventfd, through the VMM, under the spin policy of the command line. A ratio is always new over old, so below 1 is
//! faster.

use super::{HOST, SampleSeries};
use vmbell_report::Status;
use vmbell_statistics::bootstrap::{RatioOfMedians, ratio_of_medians};

/// Separates the values of scanned parameters from a scenario's name.
const PARAMETER: char = ',';

/// The end of the names of all device model rows, including notify latencies.
const DEVICE_MODEL: &str = "-no-eventfd";

/// What the ratios of `all` are relative to, in words: `device model`, `first value` (of a scan) or `reference`.
pub fn references(all: &[SampleSeries]) -> &'static str {
    let mut references = all.iter().filter_map(|series| series.reference.as_deref());
    if references.clone().all(|name| name.ends_with(DEVICE_MODEL)) {
        "device model"
    } else if references.all(|name| name.contains(PARAMETER)) {
        "first value"
    } else {
        "reference"
    }
}

/// The row `name` of a backend or of the host, if it was measured.
pub fn measured<'s>(
    all: &'s [SampleSeries],
    name: &str,
    backend: &str,
) -> Option<&'s SampleSeries> {
    all.iter().find(|series| {
        let is_there = series.backend == backend || series.backend == HOST;
        series.name == name && is_there && series.status == Status::Ok
    })
}

/// The ratio of the times of `new` and of the same backend's row `old`; `None` unless both were measured.
pub fn ratio(
    all: &[SampleSeries],
    new: &SampleSeries,
    old: &str,
    seed: u64,
) -> Option<RatioOfMedians> {
    ratio_of(all, new, old, seed, |series| Some(series.ns_per_op()))
}

/// The ratio of what `pick` takes from `new` and from the same backend's row `old`: one number for each run.
pub fn ratio_of(
    all: &[SampleSeries],
    new: &SampleSeries,
    old: &str,
    seed: u64,
    pick: impl Fn(&SampleSeries) -> Option<Vec<f64>>,
) -> Option<RatioOfMedians> {
    if new.status != Status::Ok {
        return None;
    }
    let old = measured(all, old, new.backend)?;
    ratio_of_medians(&pick(new)?, &pick(old)?, seed)
}

/// One of the usual questions about two rows, answered by their ratio.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Question {
    /// The name of the row in the numerator.
    pub new: &'static str,
    /// The name of the row in the denominator.
    pub old: &'static str,
    /// What the ratio compares, in words.
    pub text: &'static str,
}

/// The rows for a first look at a host, their reference rows, and the floors that show whether the host itself is slow.
#[cfg(not(target_arch = "aarch64"))]
pub const FIRST: [&str; 18] = [
    "portio-no-eventfd",
    "portio-wildcard-eventfd",
    "portio-datamatch-eventfd",
    "mmio-no-eventfd",
    "mmio-wildcard-eventfd",
    "notify-portio-no-eventfd",
    "notify-portio-wildcard-eventfd",
    "irqfd-edge-to-running",
    "irqfd-edge-to-halted",
    "eoi-x2apic",
    "eoi-pv",
    "level-userspace-unmask",
    "level-resample",
    "virtqueue-roundtrip-device-model",
    "virtqueue-roundtrip-ioeventfd-irqfd",
    "floor-eventfd-write",
    "floor-futex-cross-core",
    "floor-signal",
];

/// The rows for a first look at an arm64 host, which has neither ports nor PV EOI.
#[cfg(target_arch = "aarch64")]
pub const FIRST: [&str; 17] = [
    "mmio-no-eventfd",
    "mmio-wildcard-eventfd",
    "mmio-datamatch-eventfd",
    "hypercall-no-eventfd",
    "vmcall",
    "notify-mmio-no-eventfd",
    "notify-mmio-wildcard-eventfd",
    "irqfd-edge-to-running",
    "irqfd-edge-to-halted",
    "eoi-gic",
    "level-userspace-unmask",
    "level-resample",
    "virtqueue-roundtrip-device-model",
    "virtqueue-roundtrip-ioeventfd-irqfd",
    "floor-eventfd-write",
    "floor-futex-cross-core",
    "floor-signal",
];

/// The questions, the most interesting first; a report shows the first few whose rows were measured.
pub const QUESTIONS: [Question; 10] = [
    Question {
        new: "portio-wildcard-eventfd",
        old: "portio-no-eventfd",
        text: "an eventfd on a port, instead of the device model",
    },
    Question {
        new: "mmio-wildcard-eventfd",
        old: "mmio-no-eventfd",
        text: "an eventfd on MMIO, instead of the device model",
    },
    Question {
        new: "portio-wildcard-eventfd+int3",
        old: "portio-wildcard-eventfd",
        text: "the port's site patched to int3, instead of trapping raw",
    },
    Question {
        new: "hypercall-wildcard-eventfd",
        old: "floor-eventfd-write",
        text: "a direct call that rings an eventfd, against the bare eventfd write",
    },
    Question {
        new: "doorbell-word",
        old: "floor-eventfd-write",
        text: "a doorbell word in shared memory, against the bare eventfd write",
    },
    Question {
        new: "eoi-pv",
        old: "eoi-x2apic",
        text: "the end of an interrupt by a bit in memory, instead of by wrmsr",
    },
    Question {
        new: "level-resample",
        old: "level-userspace-unmask",
        text: "a level line taken down by its EOI, instead of by the VMM",
    },
    Question {
        new: "level-forwarded",
        old: "level-resample",
        text: "a level line whose device looks for the guest's bit, instead of a notification of the EOI",
    },
    Question {
        new: "msi-to-running",
        old: "floor-signal",
        text: "an interrupt to a guest that runs, against a signal to a thread that does",
    },
    Question {
        new: "irqfd-edge-to-halted",
        old: "floor-futex-cross-core",
        text: "an interrupt to a guest that halts, against a round trip between sleepers",
    },
];

#[cfg(test)]
#[path = "compare_test.rs"]
mod tests;
