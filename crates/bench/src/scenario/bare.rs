//! The least that a backend's exit costs, and its ioeventfd: a loop around the exit, with no bus and no device.

use std::sync::Arc;
use std::time::Instant;

use super::guest::ScenarioFailure;
use crate::affinity::Pinned;
use crate::select::HAS_PORTS;
use crate::subject::nanoseconds;
use crate::{
    BenchEntry, CommandLimit, RunSample, Subject, SubjectError, SubjectOptions, SubjectSetting,
};
use vmbell_hypervisor::measure::{BareExit, BareLoop};
use vmbell_hypervisor::{Capability, Hypervisor, VmConfig};
use vmbell_report::Group;
use vmbell_vmm::Deadline;

/// The entries; none if the backend has no such loop.
pub(super) fn entries(hypervisor: &Arc<dyn Hypervisor>) -> Vec<BenchEntry> {
    if !hypervisor.support(Capability::BareLoop).is_yes() {
        return Vec::new();
    }
    let kinds = [
        (
            BareExit::Pio,
            "run-pio",
            "an out of 4 bytes that leaves the guest",
        ),
        (
            BareExit::Mmio,
            "run-mmio",
            "a store of 4 bytes that leaves the guest",
        ),
        (
            BareExit::Ioeventfd,
            "ioeventfd",
            "a store of 4 bytes that signals an eventfd without a reader",
        ),
    ];
    let entry = |(exit, kind, what)| {
        let backend = hypervisor.name();
        let name = format!("floor-{backend}-{kind}");
        let text = format!("{what}: a bare loop around {backend}'s exit");
        let (hypervisor, subject) = (Arc::clone(hypervisor), name.clone());
        let make = move |options: &SubjectOptions| -> Result<Box<dyn Subject>, SubjectError> {
            let bare = hypervisor
                .create_vm(&VmConfig::default())
                .and_then(|vm| vm.measure().bare_loop(exit))
                .map_err(|error| SubjectError::failed(&subject, error))?;
            Ok(Box::new(BareScenario {
                name: subject.clone(),
                cpu: options.first_cpu(),
                limit: options.limit.clone(),
                exit,
                bare,
            }))
        };
        BenchEntry::new(Group::Floor, name, text, make).on_backend(backend)
    };
    let is_here = |(exit, ..): &(BareExit, _, _)| HAS_PORTS || *exit != BareExit::Pio;
    kinds.into_iter().filter(is_here).map(entry).collect()
}

struct BareScenario {
    name: String,
    cpu: usize,
    limit: CommandLimit,
    exit: BareExit,
    bare: Box<dyn BareLoop>,
}

impl Subject for BareScenario {
    fn name(&self) -> &str {
        &self.name
    }

    fn setting(&self) -> SubjectSetting {
        SubjectSetting {
            cpus: vec![self.cpu],
            ..SubjectSetting::default()
        }
    }

    fn run(&mut self, ops: u64) -> Result<RunSample, SubjectError> {
        let failed = |error: ScenarioFailure| SubjectError::failed(&self.name, error);
        let _pinned = Pinned::to(&[self.cpu]).map_err(|error| failed(error.into()))?;
        let limit = self.limit.clone();
        let _deadline = Deadline::when(move || limit.is_run_over(), self.bare.kick_handle())
            .map_err(|error| failed(error.into()))?;
        let started = Instant::now();
        self.bare.run(ops).map_err(|error| {
            if self.limit.is_run_over() {
                let subject = self.name.clone();
                return SubjectError::TimedOut { subject };
            }
            failed(error.into())
        })?;
        let elapsed = started.elapsed();
        Ok(RunSample {
            ops,
            elapsed_ns: nanoseconds(elapsed),
            heavy: match self.exit {
                BareExit::Pio | BareExit::Mmio => ops,
                BareExit::Ioeventfd => 0,
            },
            ..RunSample::default()
        })
    }
}
