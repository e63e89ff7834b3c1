//! Rate scenarios: notifications back to back, measured inside the guest. They show what each costs the vCPU.

use std::sync::Arc;

use vmm_sys_util::eventfd::{EFD_NONBLOCK, EventFd};

use super::case::PathCase;
use super::guest::{GuestScenario, ScenarioGuest};
use super::path::{RingConsumer, RingInstruction};
use super::scan::{OtherVcpu, ScanPoint, run_with_others};
use super::wiring::attach;
use crate::{RunSample, SubjectError, SubjectOptions};
use vmbell::doorbell::{IoEventAddress, Sharing};
use vmbell_devices::DoorbellCounter;
use vmbell_guest::Parameters;
use vmbell_hypervisor::{Doorbell, Hypervisor};

/// A rate scenario.
pub(super) struct RateScenario {
    path: RingInstruction,
    guest: ScenarioGuest,
    rung: Rung,
    /// Further vCPUs that ring at the same time.
    others: Vec<OtherVcpu>,
    /// Additional doorbells. Dropped after the guest, so that they need not be removed one by one.
    _beside: Vec<Doorbell>,
}

/// What the guest rings, with its count of notifications.
enum Rung {
    Device {
        counter: Arc<DoorbellCounter>,
        seen: u64,
    },
    Doorbell(Doorbell),
    Word {
        seen: u64,
    },
    /// Something below the VMM, which does not count notifications.
    Unheard,
}

impl RateScenario {
    pub(super) fn new(
        hypervisor: &dyn Hypervisor,
        name: &str,
        case: PathCase,
        scale: ScanPoint,
        options: &SubjectOptions,
    ) -> Result<Self, SubjectError> {
        let PathCase { path, bell, .. } = case;
        let vcpus = scale.vcpus.unwrap_or(1);
        // The first vCPU's thread uses the first CPU, and each further vCPU uses the next one.
        let cpu = |index: u32| options.cpus[index as usize % options.cpus.len()];
        let cpus = (0..vcpus).map(cpu).collect();
        let guest = ScenarioGuest::new(hypervisor, name, path.rate_program(), case, cpus, options)?;
        let others = (1..vcpus)
            .map(|index| OtherVcpu::new(&guest, path.rate_program(), (index, cpu(index))))
            .collect::<Result<_, _>>()
            .map_err(|error| guest.failed(error))?;
        let beside = scale
            .register(guest.machine.vm().as_ref(), (path, bell))
            .map_err(|error| guest.failed(error))?;
        let rung = match bell.datamatch(path) {
            Some(datamatch) => {
                let event = EventFd::new(EFD_NONBLOCK).map_err(|error| guest.failed(error))?;
                let vm = guest.machine.vm();
                let (event, address) = (Arc::new(event), path.address());
                let doorbell = match bell {
                    RingConsumer::Payload => vm.register_payload(&event, address, datamatch.len()),
                    _ => vm.register_ioevent(&event, address, datamatch, Sharing::Exclusive),
                };
                Rung::Doorbell(doorbell.map_err(|error| guest.failed(error))?)
            }
            None if bell == RingConsumer::Polled => Rung::Word { seen: 0 },
            None if bell == RingConsumer::Below => Rung::Unheard,
            None => {
                if let (RingConsumer::Coalesced, IoEventAddress::Mmio(address)) =
                    (bell, path.address())
                {
                    let vm = guest.machine.vm();
                    vm.measure()
                        .register_coalesced(address, 8)
                        .map_err(|error| guest.failed(error))?;
                }
                let counter = Arc::new(DoorbellCounter::default());
                attach(&guest.machine, path.address(), counter.clone())
                    .map_err(|error| guest.failed(error))?;
                Rung::Device { counter, seen: 0 }
            }
        };
        Ok(Self {
            path,
            guest,
            rung,
            others,
            _beside: beside,
        })
    }

    /// The number of rings counted since the last call; `None` if they are not counted.
    fn counted(&mut self) -> Result<Option<u64>, SubjectError> {
        Ok(Some(match &mut self.rung {
            Rung::Unheard => return Ok(None),
            Rung::Device { counter, seen } => {
                counter.rings() - std::mem::replace(seen, counter.rings())
            }
            Rung::Doorbell(doorbell) => {
                let rings = doorbell.event().read();
                rings.map_err(|error| self.guest.failed(error))?
            }
            Rung::Word { seen } => {
                let word = self.guest.results()?.word;
                word - std::mem::replace(seen, word)
            }
        }))
    }
}

impl GuestScenario for RateScenario {
    fn guest(&self) -> &ScenarioGuest {
        &self.guest
    }

    fn measure(&mut self, ops: u64) -> Result<RunSample, SubjectError> {
        let address = self.path.address().value();
        let parameters = Parameters {
            count: ops,
            address,
            value: self.path.value(),
            pause: 0,
        };
        let vcpus = 1 + self.others.len() as u64;
        let machine = Arc::clone(&self.guest.machine);
        let before = machine.vm().measure().exit_counts();
        let first = (&mut self.guest, &parameters);
        let (run, others) = run_with_others(first, (&mut self.others, &parameters))?;
        let slowest = run.ticks.max(others);
        if let Some(counted) = self.counted()? {
            self.guest.agree("what was rung", counted, ops * vcpus)?;
        }
        if let Rung::Doorbell(doorbell) = &self.rung
            && let Some(stored) = doorbell.payload()
            && stored != self.path.value()
        {
            let rung = self.path.value();
            let error = format!("the guest rang with {rung:#x}, and {stored:#x} was stored");
            return Err(self.guest.failed(error));
        }
        let elapsed_ns = self.guest.clock.ns(slowest);
        let after = machine.vm().measure().exit_counts();
        // One operation is one notification by each vCPU. All vCPUs notify at once, so the measured time is that of one
        // notification on one vCPU. The exit with which each vCPU says that it is done is not an operation.
        let heavy = (after.heavy - before.heavy).saturating_sub(vcpus);
        Ok(RunSample {
            light: after
                .light
                .zip(before.light)
                .map(|(after, before)| (after - before) / vcpus),
            heavy: heavy / vcpus,
            ..run.sample(ops, elapsed_ns)
        })
    }
}
