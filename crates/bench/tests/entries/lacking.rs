//! A row whose backend lacks what it needs is skipped with the reason, before anything is made.

use std::sync::Arc;

use vmbell_bench::scenario::{self, ScanValues};
use vmbell_bench::stat::{self, InterruptPace};
use vmbell_bench::{BenchEntry, Record};
use vmbell_hypervisor::{Capability, Error, Hypervisor, Support, Vm, VmConfig};
use vmbell_report::{Group, Status};

use crate::measure::{measured, named};

/// A backend that has these capabilities, and makes no guest.
#[derive(Debug)]
struct Having(&'static [Capability]);

impl Hypervisor for Having {
    fn name(&self) -> &'static str {
        "lacking"
    }

    fn support(&self, capability: Capability) -> Support {
        match self.0.contains(&capability) {
            true => Support::Yes,
            false => Support::No(format!("there is no {}", capability.name())),
        }
    }

    fn create_vm(&self, _config: &VmConfig) -> Result<Arc<dyn Vm>, Error> {
        Err(self.require(Capability::Run).unwrap_err())
    }
}

/// Tries to measure these entries.
fn tried(entries: &[BenchEntry]) -> Record {
    measured(entries, &[0, 0], [1, 1], kit::wait::HANG)
}

#[test]
fn a_backend_that_has_nothing_skips_every_row() {
    let nothing: Arc<dyn Hypervisor> = Arc::new(Having(&[]));
    let mut entries = scenario::entries(&nothing, &ScanValues::default());
    entries.extend(stat::entries(&nothing, InterruptPace::Lockstep));
    assert!(entries.len() > 50, "{}", entries.len());
    for series in tried(&entries).series {
        let reason = series.reason.unwrap_or_default();
        assert_eq!(series.status, Status::Skipped, "{}: {reason}", series.name);
        // The devices of these rows are not on every host, and are looked for first.
        let is_of_device = ["passthrough-", "platform-"]
            .iter()
            .any(|begin| series.name.starts_with(begin));
        assert!(
            is_of_device || reason.starts_with("there is no "),
            "{}: {reason}",
            series.name
        );
    }
}

#[test]
fn a_row_names_the_first_capability_that_is_lacking() {
    const INTERRUPTS: &[Capability] = &[Capability::Interrupts];
    const ENDS: &[Capability] = &[Capability::Interrupts, Capability::EndOfInterrupt];
    for (has, name, lacks) in [
        (&[][..], "mmio-wildcard-eventfd", Capability::MmioDoorbell),
        (&[], "irqfd-edge-to-running", Capability::Interrupts),
        (&[], "level-forwarded", Capability::Interrupts),
        (INTERRUPTS, "level-resample", Capability::EndOfInterrupt),
        (INTERRUPTS, "level-forwarded", Capability::EndOfInterrupt),
        (ENDS, "level-forwarded", Capability::ForwardedLines),
    ] {
        let backend: Arc<dyn Hypervisor> = Arc::new(Having(has));
        let record = tried(&named(&backend, &ScanValues::default(), &[name]));
        let [series] = record.series.as_slice() else {
            panic!("{name}: {} rows", record.series.len());
        };
        assert_eq!(
            (series.group, series.status),
            (Group::Scenario, Status::Skipped)
        );
        let reason = format!("there is no {}", lacks.name());
        assert_eq!(
            series.reason.as_deref(),
            Some(&*reason),
            "{name} with {has:?}"
        );
    }
}
