//! What each VM of a recording did: rates over time, and sums over the whole time.

use std::collections::BTreeMap;

use super::{Recording, TopLine, TopNameSource, TopVm};

/// A rate of a VM.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Rate {
    Core,
    Exits,
    ToVmm,
    Ioeventfds,
    Irqfds,
    Ioctls,
    Eois,
    PvEois,
}

impl Rate {
    pub(crate) const ALL: [Self; 8] = [
        Self::Core,
        Self::Exits,
        Self::ToVmm,
        Self::Ioeventfds,
        Self::Irqfds,
        Self::Ioctls,
        Self::Eois,
        Self::PvEois,
    ];

    /// What has been counted of the VM so far; `None` if this is not counted.
    #[expect(
        clippy::cast_precision_loss,
        reason = "rates are shown with four digits"
    )]
    fn total(self, vm: &TopVm) -> Option<f64> {
        let count = match self {
            Self::Core => return vm.cpu_seconds,
            Self::Exits => *vm.statistics.as_ref()?.get("exits")?,
            Self::ToVmm => vm.exits_to_vmm?,
            Self::Ioeventfds => vm.ioeventfds?,
            Self::Irqfds => vm.irqfds?,
            Self::Ioctls => vm.msi_ioctls? + vm.lines_raised?,
            Self::Eois => vm.eois?,
            Self::PvEois => vm.pv_eois?,
        };
        Some(count as f64)
    }
}

/// A VM over time.
#[derive(Clone, Debug, Default)]
pub(crate) struct History {
    pub(crate) pid: u32,
    pub(crate) vmm: Option<String>,
    pub(crate) name: Option<String>,
    pub(crate) vcpus: usize,
    /// How long the VM was seen, in seconds.
    pub(crate) seconds: f64,
    /// The start, end and rate of each interval. A rate that was never counted is missing.
    pub(crate) rates: BTreeMap<Rate, Vec<Interval>>,
    /// Exits to the VMM and ioeventfds, by address space and address.
    pub(crate) addresses: BTreeMap<(String, u64), AddressHistory>,
    /// How often a vCPU returned to the VMM without an address, by reason.
    pub(crate) reasons: BTreeMap<String, u64>,
    /// All exits by CPU exit reason, if they were counted.
    pub(crate) exits: BTreeMap<String, u64>,
    /// Signals of irqfds, and how many of them a worker raised, by GSI.
    pub(crate) irqfds: BTreeMap<u64, [u64; 2]>,
}

/// A rate during an interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Interval {
    pub(crate) from: f64,
    pub(crate) to: f64,
    pub(crate) rate: f64,
}

/// What was counted at an address.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct AddressHistory {
    pub(crate) name: Option<String>,
    pub(crate) exits_to_vmm: u64,
    /// `None` if ioeventfds were not counted.
    pub(crate) ioeventfds: Option<u64>,
}

/// Identifies a VM, as in `vmbell top`.
type HistoryKey = (u32, Option<u32>, usize);

/// The VMs of a recording that existed during an interval, in order of appearance.
pub(crate) fn histories(recording: &Recording) -> Vec<History> {
    let mut order: Vec<HistoryKey> = Vec::new();
    let mut all: BTreeMap<HistoryKey, History> = BTreeMap::new();
    for pair in recording.lines.windows(2) {
        let [earlier, later] = pair else { continue };
        let before: BTreeMap<HistoryKey, &TopVm> = keys(earlier).into_iter().collect();
        for (key, vm) in keys(later) {
            let history = all.entry(key).or_insert_with(|| {
                order.push(key);
                History::default()
            });
            history.add(
                before.get(&key).copied(),
                vm,
                [earlier.seconds, later.seconds],
            );
        }
    }
    let each = order.into_iter().filter_map(|key| all.remove(&key));
    each.collect()
}

fn keys(line: &TopLine) -> Vec<(HistoryKey, &TopVm)> {
    let mut keys: Vec<(HistoryKey, &TopVm)> = Vec::new();
    for vm in &line.vms {
        let is_same = |(key, _): &&(HistoryKey, &TopVm)| (key.0, key.1) == (vm.pid, vm.fd);
        let nth = keys.iter().filter(is_same).count();
        keys.push(((vm.pid, vm.fd, nth), vm));
    }
    keys
}

impl History {
    fn add(&mut self, before: Option<&TopVm>, vm: &TopVm, [from, to]: [f64; 2]) {
        self.pid = vm.pid;
        // A process that has ended no longer has a name.
        self.vmm = vm.vmm.clone().or(self.vmm.take());
        self.name = vm.name.clone().or(self.name.take());
        self.vcpus = self.vcpus.max(vm.vcpus.len());
        let seconds = to - from;
        if seconds <= 0.0 {
            return;
        }
        self.seconds += seconds;
        for rate in Rate::ALL {
            if let Some(total) = rate.total(vm) {
                let earlier = before.and_then(|vm| rate.total(vm)).unwrap_or(0.0);
                let count = if total < earlier {
                    total
                } else {
                    total - earlier
                };
                let rate_of_interval = Interval {
                    from,
                    to,
                    rate: count / seconds,
                };
                self.rates.entry(rate).or_default().push(rate_of_interval);
            }
        }
        let of = before.into_iter().flat_map(|vm| &vm.addresses);
        let of = of.map(|of| {
            (
                (&*of.space, of.address),
                [of.exits_to_vmm, of.ioeventfds.unwrap_or(0)],
            )
        });
        let earlier: BTreeMap<(&str, u64), [u64; 2]> = of.collect();
        for address in &vm.addresses {
            let earlier = earlier.get(&(&*address.space, address.address));
            let [exits, rings] = earlier.copied().unwrap_or_default();
            let key = (address.space.clone(), address.address);
            let place = self.addresses.entry(key).or_default();
            place.exits_to_vmm += since(address.exits_to_vmm, exits);
            if let Some(later) = address.ioeventfds {
                *place.ioeventfds.get_or_insert(0) += since(later, rings);
            }
            place.name = address.name.as_ref().map(|name| {
                let is_guess = address.name_source == Some(TopNameSource::Guess);
                format!("{name}{}", if is_guess { "?" } else { "" })
            });
        }
        add(&mut self.reasons, before.map(|vm| &vm.reasons), &vm.reasons);
        if let Some(exits) = &vm.exits_by_reason {
            let before = before.and_then(|vm| vm.exits_by_reason.as_ref());
            add(&mut self.exits, before, exits);
        }
        for irqfd in &vm.irqfds_by_gsi {
            let mut of = before.into_iter().flat_map(|vm| &vm.irqfds_by_gsi);
            let of = of.find(|of| of.gsi == irqfd.gsi);
            let [signals, by_worker] = of.map_or([0; 2], |of| [of.signals, of.by_worker]);
            let sums = self.irqfds.entry(irqfd.gsi).or_default();
            sums[0] += since(irqfd.signals, signals);
            sums[1] += since(irqfd.by_worker, by_worker);
        }
    }

    /// The mean of a rate; `None` if it was never counted.
    pub(crate) fn mean(&self, rate: Rate) -> Option<f64> {
        let intervals = self.rates.get(&rate)?;
        let sums = intervals
            .iter()
            .fold([0.0, 0.0], |[count, time], interval| {
                let seconds = interval.to - interval.from;
                [count + interval.rate * seconds, time + seconds]
            });
        (sums[1] > 0.0).then(|| sums[0] / sums[1])
    }
}

/// Adds what was counted between two lines of the recording.
fn add(
    sums: &mut BTreeMap<String, u64>,
    earlier: Option<&BTreeMap<String, u64>>,
    later: &BTreeMap<String, u64>,
) {
    for (name, count) in later {
        let earlier = earlier.and_then(|earlier| earlier.get(name).copied());
        *sums.entry(name.clone()).or_default() += since(*count, earlier.unwrap_or(0));
    }
}

fn since(later: u64, earlier: u64) -> u64 {
    later.checked_sub(earlier).unwrap_or(later)
}

#[cfg(test)]
#[path = "history_test.rs"]
mod tests;
