//! The counts of a guest's exits and events, for the bench and for tests. Any thread reads them.

use std::io;

use kvm_ioctls::IoEventAddress as KvmAddress;

use super::arch::support;
use super::vm::KvmVm;
use crate::measure::{EventCounts, EventSource, ExitCounts, Measure};
use crate::{Capability, Error};

impl Measure for KvmVm {
    fn exit_counts(&self) -> ExitCounts {
        let [light, heavy] = self.exits();
        let counts_light =
            support::support(&self.guest.system, Capability::CountsLightExits).is_yes();
        ExitCounts {
            light: counts_light.then_some(light),
            heavy,
        }
    }

    fn events(&self) -> io::Result<EventCounts> {
        let mut sums = EventCounts::new();
        for statistics in self.created_vcpus.all() {
            for (name, value) in statistics.all()? {
                *sums.entry(name).or_default() += value;
            }
        }
        Ok(sums)
    }

    fn event_source(&self) -> EventSource {
        EventSource::new("statistics of the vcpus", "exits", true)
    }

    fn processes(&self) -> Vec<u32> {
        Vec::new()
    }

    fn register_coalesced(&self, address: u64, len: u32) -> Result<(), Error> {
        self.descriptor()
            .register_coalesced_mmio(KvmAddress::Mmio(address), len)
            .map_err(Error::system(
                "let kvm keep writes back (KVM_REGISTER_COALESCED_MMIO)",
            ))?;
        self.guest.coalesced.begin();
        Ok(())
    }
}
