//! Rate scenarios: rings back to back, measured inside the guest, which is what a ring costs the vCPU.

use std::sync::Arc;

use vmm_sys_util::eventfd::{EFD_NONBLOCK, EventFd};

use super::case::Case;
use super::guest::{Guest, Scenario};
use super::path::{Bell, Path};
use crate::{Options, Sample, SubjectError};
use vmbell::bus::{BusError, BusRange};
use vmbell::device::DoorbellCounter;
use vmbell::doorbell::{IoEventAddress, Sharing};
use vmbell::guest::Parameters;
use vmbell::hypervisor::{Hypervisor, IoEvents, Vm};
use vmbell::machine::Machine;

/// A rate scenario.
pub(super) struct Rate<H: Hypervisor> {
    path: Path,
    guest: Guest<H>,
    rung: Rung,
}

/// What the guest rings, with its count of the rings.
enum Rung {
    Device {
        counter: Arc<DoorbellCounter>,
        seen: u64,
    },
    Event(EventFd),
    Word {
        seen: u64,
    },
    /// Something below the VMM, which does not say how often it was rung.
    Unheard,
}

impl<H: Hypervisor> Rate<H> {
    pub(super) fn new(
        hypervisor: &H,
        name: &str,
        case: Case,
        options: &Options,
    ) -> Result<Self, SubjectError> {
        let Case { path, bell, .. } = case;
        let guest = Guest::new(hypervisor, name, path.rate_program(), case, options)?;
        let rung = match bell.datamatch(path) {
            Some(datamatch) => {
                let event = EventFd::new(EFD_NONBLOCK).map_err(|error| guest.failed(error))?;
                let vm = guest.machine.vm();
                vm.register_ioevent(&event, path.address(), datamatch, Sharing::Exclusive)
                    .map_err(|error| guest.failed(error))?;
                Rung::Event(event)
            }
            None if bell == Bell::Polled => Rung::Word { seen: 0 },
            None if bell == Bell::Below => Rung::Unheard,
            None => {
                if let (Bell::Coalesced, IoEventAddress::Mmio(address)) = (bell, path.address()) {
                    let vm = guest.machine.vm();
                    vm.register_coalesced(address, 8)
                        .map_err(|error| guest.failed(error))?;
                }
                let counter = Arc::new(DoorbellCounter::default());
                attach(&guest.machine, path, counter.clone())
                    .map_err(|error| guest.failed(error))?;
                Rung::Device { counter, seen: 0 }
            }
        };
        Ok(Self { path, guest, rung })
    }

    /// How many rings it has counted since the last call; `None` if it does not count.
    fn counted(&mut self) -> Result<Option<u64>, SubjectError> {
        Ok(Some(match &mut self.rung {
            Rung::Unheard => return Ok(None),
            Rung::Device { counter, seen } => {
                counter.rings() - std::mem::replace(seen, counter.rings())
            }
            Rung::Event(event) => event.read().map_err(|error| self.guest.failed(error))?,
            Rung::Word { seen } => {
                let word = self.guest.results()?.word;
                word - std::mem::replace(seen, word)
            }
        }))
    }
}

/// Puts a device at a path's address.
pub(super) fn attach<V: Vm>(
    machine: &Machine<V>,
    path: Path,
    device: Arc<dyn vmbell::bus::BusDevice>,
) -> Result<(), BusError> {
    let address = path.address();
    let range = BusRange::new(address.value(), 8)?;
    match address {
        IoEventAddress::Pio(_) => machine.pio.insert(range, device),
        IoEventAddress::Mmio(_) => machine.mmio.insert(range, device),
        IoEventAddress::Hypercall(_) => machine.hypercall.insert(range, device),
    }
}

impl<H: Hypervisor> Scenario for Rate<H> {
    type Hypervisor = H;

    fn guest(&self) -> &Guest<H> {
        &self.guest
    }

    fn measure(&mut self, ops: u64) -> Result<Sample, SubjectError> {
        let address = self.path.address().value();
        let parameters = Parameters {
            count: ops,
            address,
            value: self.path.value(),
            pause: 0,
        };
        let run = self.guest.run(&parameters)?;
        if let Some(counted) = self.counted()? {
            self.guest.agree("what was rung", counted, ops)?;
        }
        let elapsed_ns = self.guest.clock.ns(run.ticks);
        Ok(run.sample(ops, elapsed_ns))
    }
}
