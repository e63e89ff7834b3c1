//! Scenarios in which a vCPU interrupts all others, as a kernel does to make them flush their TLBs.
//!
//! The others are halted. Each answers in its handler, and the last one interrupts the sender, which is also halted. So
//! no vCPU polls, and the vCPUs need not have a CPU each.

use std::ops::RangeInclusive;
use std::sync::Arc;

use super::super::guest::{GuestScenario, ScenarioFailure, ScenarioGuest};
use super::super::scan::{OtherVcpu, ScanValues, at_value, run_with_others, values};
use super::super::wiring::{InterruptSource, Wiring};
use crate::{BenchEntry, RunSample, Subject, SubjectError, SubjectOptions, cpuid};
use vm_memory::{Bytes, GuestAddress};
use vmbell_guest::{PARAMETERS, Parameters, offset, programs};
use vmbell_hypervisor::{Capability, Hypervisor, Irqchip, Support, VmConfig};
use vmbell_report::Group;

/// The number of vCPUs unless it is scanned.
const VCPUS: u32 = 4;
/// The possible numbers of vCPUs. On arm64 one write names at most 16.
const POSSIBLE: RangeInclusive<u32> = 2..=MOST;
const MOST: u32 = if cfg!(target_arch = "aarch64") {
    16
} else {
    64
};

/// How the sender names the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Naming {
    /// One write for each vCPU.
    Unicast,
    /// One write for all but the sender.
    Shorthand,
    /// One hypercall for all (Linux Documentation/virt/kvm/x86/hypercalls.rst, `KVM_HC_SEND_IPI`).
    Hypercall,
}

impl Naming {
    const ALL: [Self; 3] = [Self::Unicast, Self::Shorthand, Self::Hypercall];

    const fn name(self) -> &'static str {
        match self {
            Self::Unicast => "ipi-all-unicast",
            Self::Shorthand => "ipi-all-shorthand",
            Self::Hypercall => "ipi-all-hypercall",
        }
    }

    const fn description(self) -> &'static str {
        match self {
            Self::Unicast => {
                "a vCPU interrupts all others, which halt, one after the other, until the last has answered"
            }
            Self::Shorthand => "the same by one write for all of them",
            Self::Hypercall => "the same by one hypercall for all of them",
        }
    }

    fn is_offered(self, hypervisor: &dyn Hypervisor) -> bool {
        let has_hypercall = || {
            let instruction = Capability::HypercallInstruction;
            cfg!(target_arch = "x86_64") && hypervisor.support(instruction).is_yes()
        };
        self != Self::Hypercall || has_hypercall()
    }

    /// The naming as the program's parameter.
    fn value(self) -> u64 {
        match self {
            Self::Unicast => 0,
            Self::Shorthand => 1,
            Self::Hypercall => 2 + u64::from(cpuid::is_amd()),
        }
    }
}

/// The entries of this backend: one for each way to name the target vCPUs. With a scan, there is one entry for each
/// such way and number of vCPUs.
pub(super) fn entries(hypervisor: &Arc<dyn Hypervisor>, scan: &ScanValues) -> Vec<BenchEntry> {
    let first = scan.vcpus.iter().find(|vcpus| POSSIBLE.contains(vcpus));
    let entry = |naming: Naming, vcpus: Option<u32>| {
        let hypervisor = Arc::clone(hypervisor);
        let make = move |options: &SubjectOptions| -> Result<Box<dyn Subject>, SubjectError> {
            let vcpus = vcpus.unwrap_or(VCPUS);
            Ok(Box::new(InterruptAll::new(
                &*hypervisor,
                naming,
                vcpus,
                options,
            )?))
        };
        let (name, description) = (naming.name(), naming.description());
        let entry = BenchEntry::new(Group::Scenario, name, description, make);
        let unscanned = (naming != Naming::Unicast).then_some(Naming::Unicast.name());
        at_value(entry, ("vcpus", vcpus), first.copied(), unscanned)
    };
    let offered = Naming::ALL
        .into_iter()
        .filter(|naming| naming.is_offered(&**hypervisor));
    let of = |naming| {
        values(&scan.vcpus)
            .into_iter()
            .map(move |vcpus| (naming, vcpus))
    };
    let entries = offered.flat_map(of);
    entries
        .map(|(naming, vcpus)| entry(naming, vcpus))
        .collect()
}

/// A guest with its sender and the others.
struct InterruptAll {
    naming: Naming,
    guest: ScenarioGuest,
    others: Vec<OtherVcpu>,
}

impl InterruptAll {
    fn new(
        hypervisor: &dyn Hypervisor,
        naming: Naming,
        vcpus: u32,
        options: &SubjectOptions,
    ) -> Result<Self, SubjectError> {
        if let Support::No(reason) = hypervisor.support(Capability::Interrupts) {
            return Err(SubjectError::Skipped(reason));
        }
        if !POSSIBLE.contains(&vcpus) {
            let why = format!("needs 2 to {MOST} vCPUs, not {vcpus}");
            return Err(SubjectError::Skipped(why));
        }
        let cpu = |index: u32| options.cpus[index as usize % options.cpus.len()];
        let config = VmConfig {
            irqchip: Irqchip::Full,
            vcpus,
            vcpu_cpus: (0..vcpus).map(cpu).collect(),
            ..VmConfig::default()
        };
        let (name, program) = (naming.name(), programs::ipi_all());
        let guest = ScenarioGuest::with_config(hypervisor, name, program, config, options)?;
        let vm = guest.machine.vm().as_ref();
        // As in `ipi`, no vCPU has a PV EOI word.
        let interrupts = Wiring::new(vm, InterruptSource::Itself, name)?.interrupts;
        let prepare = || -> Result<Vec<OtherVcpu>, ScenarioFailure> {
            interrupts.write(vm.memory(), PARAMETERS)?;
            let pending = GuestAddress(PARAMETERS.0 + offset::PENDING as u64);
            vm.memory().write_obj(u64::from(vcpus - 1), pending)?;
            (1..vcpus)
                .map(|index| {
                    let mut other = OtherVcpu::new(&guest, program, (index, cpu(index)))?;
                    other.take_interrupts(&interrupts)?;
                    Ok(other)
                })
                .collect()
        };
        let others = prepare().map_err(|error| guest.failed(error))?;
        Ok(Self {
            naming,
            guest,
            others,
        })
    }
}

impl GuestScenario for InterruptAll {
    fn guest(&self) -> &ScenarioGuest {
        &self.guest
    }

    fn measure(&mut self, ops: u64) -> Result<RunSample, SubjectError> {
        let others = self.others.len() as u64;
        let sender = Parameters {
            count: ops,
            address: others,
            value: self.naming.value(),
            pause: 0,
        };
        let other = Parameters {
            count: ops,
            address: PARAMETERS.0,
            ..Parameters::default()
        };
        let first = (&mut self.guest, &sender);
        let (run, _) = run_with_others(first, (&mut self.others, &other))?;
        let elapsed_ns = self.guest.clock.ns(run.ticks);
        Ok(RunSample {
            // The others also exit to say that they are done.
            heavy: run.heavy.saturating_sub(others),
            ..run.sample(ops, elapsed_ns)
        })
    }
}
