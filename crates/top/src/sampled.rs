//! The samples of a VM: how often its vCPUs were in the VMM, by address.

use std::collections::BTreeMap;

use crate::address::{Address, named};
use crate::names::{self, Space};
use crate::sampler::{SampledPlace, Samples};

/// Where the vCPUs of a VM were seen.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sampled {
    /// How often the vCPUs were looked at.
    pub samples: u64,
    /// Accesses during which they were in the VMM, most frequent first. `to_vmm` is how often they were seen there.
    pub addresses: Vec<Address>,
    /// How often the vCPUs were in the VMM for a different reason.
    pub reasons: BTreeMap<String, u64>,
}

impl Sampled {
    /// Returns the samples of a process.
    pub(crate) fn of(samples: &Samples, pid: u32) -> Self {
        let mut sampled = Self::default();
        let mut addresses: BTreeMap<(Space, u64), Address> = BTreeMap::new();
        for ((of, place), count) in &samples.counts {
            if *of != pid || *count == 0 {
                continue;
            }
            sampled.samples += count;
            let reason = match *place {
                SampledPlace::Kvm => continue,
                SampledPlace::Access {
                    space,
                    address,
                    is_write,
                    size,
                } => {
                    let address = addresses
                        .entry((space, address))
                        .or_insert_with(|| Address::new(space, address));
                    address.to_vmm += count;
                    address.accesses.insert((is_write, size));
                    continue;
                }
                SampledPlace::Reason(reason) => names::exit_reason(reason.into())
                    .map_or_else(|| format!("reason {reason}"), str::to_owned),
                SampledPlace::Other => "other places".to_owned(),
            };
            *sampled.reasons.entry(reason).or_default() += count;
        }
        sampled.addresses = named(addresses);
        sampled
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeSet, HashMap};

    use super::*;

    #[test]
    fn samples_of_an_address_are_one_row_with_its_name_and_those_in_kvm_are_in_none() {
        let notify = |is_write| SampledPlace::Access {
            space: Space::Mmio,
            address: 0xd000_1050,
            is_write,
            size: 4,
        };
        let samples = Samples {
            counts: HashMap::from([
                ((7, SampledPlace::Kvm), 60),
                ((7, notify(true)), 20),
                ((7, notify(false)), 0),
                ((7, SampledPlace::Reason(5)), 12),
                ((7, SampledPlace::Reason(99)), 5),
                ((7, SampledPlace::Other), 3),
                ((8, SampledPlace::Other), 7),
            ]),
            refused: 0,
        };
        let sampled = Sampled::of(&samples, 7);
        assert_eq!(sampled.samples, 100);
        let [address] = &sampled.addresses[..] else {
            panic!("{sampled:?}");
        };
        assert_eq!(address.to_vmm, 20);
        assert_eq!(address.accesses, BTreeSet::from([(true, 4)]));
        assert_eq!(address.name.as_ref().unwrap().text, "virtio-mmio notify");
        let reasons = [("hlt", 12), ("other places", 3), ("reason 99", 5)];
        let reasons = reasons.map(|(name, count)| (name.to_owned(), count));
        assert_eq!(sampled.reasons, BTreeMap::from(reasons));
    }
}
