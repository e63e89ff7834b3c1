//! What operations cost on this host, as `vmbell bench` measured them, and the cost of operations that were counted.

use std::collections::BTreeMap;

use crate::address::Address;
use crate::names::Space;
use crate::rates::per_second;

/// The local APIC's EOI register, in its page and as an MSR.
const APIC_EOI: u64 = 0xfee0_00b0;
const X2APIC_EOI: u64 = 0x80b;

/// The median of each row of a report, in nanoseconds of vCPU time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Costs {
    rows: BTreeMap<String, f64>,
}

impl Costs {
    /// Takes rows by their names.
    pub fn new(rows: impl IntoIterator<Item = (String, f64)>) -> Self {
        Self {
            rows: rows.into_iter().collect(),
        }
    }

    /// A row's time; `None` if it was not measured.
    pub fn nanoseconds(&self, row: &str) -> Option<f64> {
        self.rows.get(row).copied()
    }

    /// CPU time that vCPUs spent in the kernel for the accesses to an address, in cores: 1 is one core. `None` if no row
    /// measured such an access.
    pub fn cores(&self, address: &Address, seconds: f64) -> Option<f64> {
        let parts = [
            (address.to_vmm, exit_row(address.space)),
            (address.rings, ring_row(address)),
            (address.by_kvm, kvm_row(address)),
        ];
        let mut sum = 0.0;
        for (count, row) in parts {
            if count > 0 {
                sum += per_second(count, seconds) * self.nanoseconds(row?)? / 1e9;
            }
        }
        Some(sum)
    }
}

/// The row of a write that the VMM handles.
pub(crate) const fn exit_row(space: Space) -> Option<&'static str> {
    match space {
        Space::Port => Some("portio-no-eventfd"),
        Space::Mmio => Some("mmio-no-eventfd"),
        Space::Msr | Space::Bus(_) => None,
    }
}

/// The row of a write that signals an eventfd registered with the write's length.
pub(crate) const fn doorbell_row(space: Space) -> Option<&'static str> {
    match space {
        Space::Port => Some("portio-wildcard-eventfd"),
        Space::Mmio => Some("mmio-wildcard-eventfd"),
        Space::Msr | Space::Bus(_) => None,
    }
}

/// The row of a write to memory that signals an eventfd registered for any length.
pub(crate) const ANY_LENGTH_ROW: &str = "mmio-any-length-eventfd";

/// The row of this address's writes that signal an eventfd.
fn ring_row(address: &Address) -> Option<&'static str> {
    match address.is_fast_mmio() {
        true => Some(ANY_LENGTH_ROW),
        false => doorbell_row(address.space),
    }
}

/// The row of an access that KVM answers.
const fn kvm_row(address: &Address) -> Option<&'static str> {
    match (address.space, address.address) {
        (Space::Port, _) => Some("outl_to_kernel"),
        (Space::Mmio, APIC_EOI) => Some("eoi-apic"),
        (Space::Msr, X2APIC_EOI) => Some("eoi-x2apic"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn costs() -> Costs {
        let rows = [
            ("portio-no-eventfd", 3000.0),
            ("portio-wildcard-eventfd", 1000.0),
            ("mmio-no-eventfd", 5000.0),
            ("eoi-x2apic", 2000.0),
        ];
        Costs::new(rows.map(|(name, time)| (name.to_owned(), time)))
    }

    fn address(space: Space, address: u64, counts: [u64; 3]) -> Address {
        let [to_vmm, rings, by_kvm] = counts;
        Address {
            space,
            address,
            to_vmm,
            vmm_time: 0,
            rings,
            by_kvm,
            accesses: BTreeSet::new(),
            eventfds: Vec::new(),
            name: None,
        }
    }

    fn cores(space: Space, at: u64, counts: [u64; 3]) -> Option<f64> {
        let cores = costs().cores(&address(space, at, counts), 2.0)?;
        Some((cores * 1e6).round() / 1e6)
    }

    #[test]
    fn a_write_without_a_size_costs_what_an_ioeventfd_of_any_length_costs() {
        let rows = [
            ("mmio-wildcard-eventfd", 4000.0),
            ("mmio-any-length-eventfd", 1000.0),
        ];
        let costs = Costs::new(rows.map(|(name, time)| (name.to_owned(), time)));
        let cores = |size| {
            let ringing = Address {
                accesses: BTreeSet::from([(true, size)]),
                ..address(Space::Mmio, 0xd000_0050, [0, 1000, 0])
            };
            costs.cores(&ringing, 1.0)
        };
        assert_eq!(cores(0), Some(0.001));
        assert_eq!(cores(4), Some(0.004));
    }

    #[test]
    fn an_address_takes_its_rates_times_the_rows() {
        let port = cores(Space::Port, 0xc050, [2000, 4000, 0]);
        assert_eq!(port, Some(0.003 + 0.002));
        assert_eq!(cores(Space::Msr, 0x80b, [0, 0, 1000]), Some(0.001));
        assert_eq!(cores(Space::Mmio, 0xd000_0050, [0, 0, 0]), Some(0.0));
    }

    #[test]
    fn what_no_row_measured_costs_an_unknown_time_and_not_none() {
        // The report has no row for MMIO ioeventfds, and bench has none for other MSRs.
        assert_eq!(cores(Space::Mmio, 0xd000_0050, [1000, 1, 0]), None);
        assert_eq!(cores(Space::Msr, 0x6e0, [0, 0, 1]), None);
        assert_eq!(cores(Space::Msr, 0x80b, [1, 0, 1]), None);
    }
}
