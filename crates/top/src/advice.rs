//! Advice: where a VM uses a KVM mechanism that costs more than another, by the rows of this host's report.
//!
//! Wrong advice is worse than none. So advice is given only if both compared rows were measured, if it saves at least
//! 10 ms of CPU time or latency per second, and if nothing contradicts it.

use crate::address::Address;
use crate::bpf::Metric;
use crate::costs::{self, Costs};
use crate::model::Vm;
use crate::names;
use crate::names::{Name, NameSource, Space};
use crate::rates::per_second;

/// An ioeventfd of any length counts as cheaper if it costs at most this share of an ioeventfd with a length. On VMX
/// the share is about a third; where KVM decodes the store for both, the difference is noise.
const CHEAPER: f64 = 0.75;

/// The smallest saving worth a line: a hundredth of a core, or of the elapsed time.
const LEAST: f64 = 0.01;

/// The condition of length 0: KVM_IOEVENTFD refuses it with KVM_IOEVENTFD_FLAG_DATAMATCH.
const WITHOUT_DATAMATCH: &str = ", if it needs no datamatch";

/// A piece of advice for a VM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Advice {
    /// The VMM's process.
    pub pid: u32,
    /// What the advice is about.
    pub kind: AdviceKind,
    /// The advice, with its figures and the rows that they are from.
    pub text: String,
}

/// What advice is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AdviceKind {
    /// A notification that exits to the VMM.
    UseIoeventfd,
    /// An ioeventfd with a length, whose stores KVM decodes.
    UseAnyLength,
    /// Interrupts whose EOI exits.
    UsePvEoi,
    /// Messages that the VMM sends by a system call.
    UseIrqfd,
    /// Irqfds whose interrupts a kernel worker raises.
    AvoidWorker,
}

/// The advice on counts from this number of seconds.
pub fn advice(vms: &[Vm], costs: &Costs, seconds: f64) -> Vec<Advice> {
    let mut all = Vec::new();
    for vm in vms.iter().filter(|vm| !vm.has_ended) {
        let mut add = |kind, text: Option<String>| {
            let pid = vm.pid;
            all.extend(text.map(|text| Advice { pid, kind, text }));
        };
        for address in &vm.addresses {
            add(
                AdviceKind::UseIoeventfd,
                use_ioeventfd(address, costs, seconds),
            );
            add(
                AdviceKind::UseAnyLength,
                use_any_length(address, costs, seconds),
            );
        }
        add(AdviceKind::UsePvEoi, use_pv_eoi(vm, costs, seconds));
        add(AdviceKind::UseIrqfd, use_irqfd(vm, costs, seconds));
        for irqfd in &vm.irqfds {
            let text = avoid_worker(irqfd.gsi, irqfd.by_worker, costs, seconds);
            add(AdviceKind::AvoidWorker, text);
        }
    }
    all
}

/// Two rows, and what events at a given rate cost according to each row.
struct Saving {
    rate: f64,
    now: CostRow,
    other: CostRow,
}

struct CostRow {
    name: &'static str,
    nanoseconds: f64,
    cores: f64,
}

impl Saving {
    /// Compares two rows. `None` unless both were measured and the second saves enough.
    fn of(
        count: u64,
        seconds: f64,
        costs: &Costs,
        [now, other]: [&'static str; 2],
    ) -> Option<Self> {
        let rate = per_second(count, seconds);
        let row = |name| {
            let nanoseconds = costs.nanoseconds(name)?;
            let cores = rate * nanoseconds / 1e9;
            Some(CostRow {
                name,
                nanoseconds,
                cores,
            })
        };
        let (now, other) = (row(now)?, row(other)?);
        let is_enough = now.cores - other.cores >= LEAST;
        is_enough.then_some(Self { rate, now, other })
    }

    /// Describes the rate, and the CPU time that the events take now.
    fn now(&self, what: &str) -> String {
        format!("{:.0} {what} a second take {}", self.rate, self.now.cores())
    }

    /// Describes the rate, and how long each event takes now.
    fn each_now(&self, what: &str) -> String {
        let (rate, each) = (self.rate, self.now.each());
        format!("{rate:.0} {what} a second, each handled after {each}")
    }
}

impl CostRow {
    /// Returns the text for a row whose whole time is spent on the vCPU.
    fn cores(&self) -> String {
        let (cores, each) = (self.cores, self.nanoseconds / 1e3);
        format!("{cores:.2} core ({}, {each:.2} us)", self.name)
    }

    /// Returns the text for a row whose time is a latency.
    fn each(&self) -> String {
        format!("{:.2} us ({})", self.nanoseconds / 1e3, self.name)
    }
}

fn use_ioeventfd(address: &Address, costs: &Costs, seconds: f64) -> Option<String> {
    if !looks_like_a_notification(address) {
        return None;
    }
    let name = &address.name.as_ref()?.text;
    // Ioeventfds of several queues at one address need a datamatch, with which KVM refuses length 0.
    let is_shared = name == names::QUEUE_NOTIFY;
    let (doorbell, length, condition) = match address.space {
        Space::Mmio if has_fast_mmio(costs) && !is_shared => {
            (costs::ANY_LENGTH_ROW, " of any length", WITHOUT_DATAMATCH)
        }
        space => (costs::doorbell_row(space)?, "", ""),
    };
    let rows = [costs::exit_row(address.space)?, doorbell];
    let saving = Saving::of(address.to_vmm, seconds, costs, rows)?;
    let (space, notify) = match address.space {
        Space::Port => ("port", "notify-portio-wildcard-eventfd"),
        _ => ("mmio", "notify-mmio-wildcard-eventfd"),
    };
    let wakeup = match costs.nanoseconds(notify) {
        Some(time) => format!(
            "and a sleeping thread of the VMM runs {:.2} us after the write ({notify})",
            time / 1e3
        ),
        None => format!("and the time to wake the VMM's thread, which {notify} measures"),
    };
    Some(format!(
        "{space} {:#x}, {name}?: {} of vCPUs; with an ioeventfd{length} {}{condition}, {wakeup}",
        address.address,
        saving.now("exits"),
        saving.other.cores()
    ))
}

/// Whether this host's KVM signals an ioeventfd of any length without decoding the store, by the rows.
fn has_fast_mmio(costs: &Costs) -> bool {
    let with_length = costs::doorbell_row(Space::Mmio).and_then(|row| costs.nanoseconds(row));
    let any_length = costs.nanoseconds(costs::ANY_LENGTH_ROW);
    with_length
        .zip(any_length)
        .is_some_and(|(with_length, any_length)| any_length <= with_length * CHEAPER)
}

fn use_any_length(address: &Address, costs: &Costs, seconds: f64) -> Option<String> {
    if address.space != Space::Mmio || address.is_fast_mmio() || !has_fast_mmio(costs) {
        return None;
    }
    // KVM tells several ioeventfds at one address apart by their datamatch.
    if address.eventfds.len() != 1 {
        return None;
    }
    let rows = [costs::doorbell_row(address.space)?, costs::ANY_LENGTH_ROW];
    let saving = Saving::of(address.rings, seconds, costs, rows)?;
    Some(format!(
        "mmio {:#x}: {}; registered for any length (length 0) {}, because KVM on VMX then does not decode the store{WITHOUT_DATAMATCH}",
        address.address,
        saving.now("ioeventfds"),
        saving.other.cores()
    ))
}

/// Whether all accesses are writes of one size that fits a virtio notification, at an address without a fixed device of
/// a PC.
fn looks_like_a_notification(address: &Address) -> bool {
    let is_notification = |name: &Name| name.source == NameSource::Guess;
    let is_write_only = address.accesses.iter().all(|(is_write, _)| *is_write);
    address.accesses.len() == 1
        && is_write_only
        && address.by_kvm == 0
        && address.name.as_ref().is_some_and(is_notification)
}

fn use_pv_eoi(vm: &Vm, costs: &Costs, seconds: f64) -> Option<String> {
    let count = |metric| vm.counts.get(&metric).copied();
    let (all, pv) = (count(Metric::Eois)?, count(Metric::PvEois)?);
    // PV EOI does not cover level-triggered interrupts, and is not used where the CPU ends interrupts itself.
    let lines = count(Metric::Lines)?;
    if pv > 0 || vm.eois_by_cpu || lines > all / 2 {
        return None;
    }
    let saving = Saving::of(all, seconds, costs, ["eoi-x2apic", "eoi-pv"])?;
    Some(format!(
        "{}; with PV EOI {}: the guest does not use it, or its CPUID has no KVM_FEATURE_PV_EOI",
        saving.now("EOIs"),
        saving.other.cores()
    ))
}

fn use_irqfd(vm: &Vm, costs: &Costs, seconds: f64) -> Option<String> {
    let count = |metric| vm.counts.get(&metric).copied();
    if count(Metric::Irqfds)? > 0 {
        return None;
    }
    let rows = ["msi-to-running", "irqfd-edge-to-running"];
    let saving = Saving::of(count(Metric::Messages)?, seconds, costs, rows)?;
    Some(format!(
        "{}; with irqfds after {}",
        saving.each_now("MSIs by KVM_SIGNAL_MSI"),
        saving.other.each()
    ))
}

fn avoid_worker(gsi: u64, count: u64, costs: &Costs, seconds: f64) -> Option<String> {
    let rows = ["irqfd-level-to-running", "irqfd-edge-to-running"];
    let saving = Saving::of(count, seconds, costs, rows)?;
    Some(format!(
        "GSI {gsi}: {}, as a worker of the kernel raises it; by an MSI to one vCPU after {}",
        saving.each_now("interrupts"),
        saving.other.each()
    ))
}

#[cfg(test)]
#[path = "advice_test.rs"]
mod tests;
