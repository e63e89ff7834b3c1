//! `--export-openmetrics`: each VM's totals for the monitoring of a fleet, rewritten with each table.
//!
//! Totals never decrease while a VM lives. Only the most frequent addresses of a VM have their own series; `other` sums
//! the rest. If an address becomes frequent later, its series begins with what it counts from then on.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;

use super::addresses;
use super::cells::cpu_seconds;
use super::screen::{VmKey, keys};
use vmbell_report::{Export, Label, MetricsText};
use vmbell_top::bpf::Metric;
use vmbell_top::model::Vm;
use vmbell_top::names::Space;
use vmbell_top::rates;

/// The number of a VM's addresses with their own series.
const ADDRESSES: usize = 10;

/// A VM's counts: family, description and metric.
const COUNTS: [(&str, &str, Metric); 8] = [
    (
        "vmbell_vm_exits_to_vmm",
        "Returns of KVM_RUN to the VMM.",
        Metric::ToVmm,
    ),
    (
        "vmbell_vm_ioeventfds",
        "Writes that signalled an ioeventfd.",
        Metric::Rings,
    ),
    (
        "vmbell_vm_irqfds",
        "Interrupts raised by irqfds.",
        Metric::Irqfds,
    ),
    (
        "vmbell_vm_msi_ioctls",
        "Interrupts raised by KVM_SIGNAL_MSI.",
        Metric::Messages,
    ),
    (
        "vmbell_vm_lines_raised",
        "Interrupt lines that went up.",
        Metric::Lines,
    ),
    (
        "vmbell_vm_kicks",
        "Wakeups and interruptions of vCPUs.",
        Metric::Kicks,
    ),
    ("vmbell_vm_eois", "Ends of interrupts.", Metric::Eois),
    (
        "vmbell_vm_pv_eois",
        "Ends of interrupts that were PV EOI's bit in memory.",
        Metric::PvEois,
    ),
];

/// What is exported in addition to the VMs.
#[derive(Clone, Debug, Default)]
pub(super) struct TopMetrics {
    /// The sources in use.
    pub(super) sources: Vec<&'static str>,
    /// Events that were not counted; `None` without BPF programs.
    pub(super) lost: Option<u64>,
    pub(super) unreadable: usize,
    /// The CPU time of this process.
    pub(super) own: Duration,
}

/// The file, and the totals of each address's series at the last write.
#[derive(Debug)]
pub(super) struct Metrics {
    path: PathBuf,
    vms: HashMap<VmKey, Addresses>,
}

/// The addresses of a VM.
#[derive(Clone, Debug, Default)]
struct Addresses {
    each: BTreeMap<(Space, u64), Series>,
    /// What was counted at addresses while they had no series: exits to the VMM, and ioeventfd signals.
    others: [u64; 2],
}

/// What was counted at an address: exits to the VMM, and ioeventfd signals.
#[derive(Clone, Copy, Debug, Default)]
struct Series {
    all: [u64; 2],
    /// What was counted while the address had a series.
    own: [u64; 2],
    is_shown: bool,
}

impl Metrics {
    /// Fails if the file could not be written.
    pub(super) fn new(path: PathBuf) -> Result<Self> {
        drop(Export::open(&path)?);
        let vms = HashMap::new();
        Ok(Self { path, vms })
    }

    /// Rewrites the file with the counts since the command's start.
    pub(super) fn write(&mut self, vms: &[Vm], command: &TopMetrics) -> Result<()> {
        let text = self.text(vms, command);
        Export::open(&self.path)?.finish(&text)?;
        Ok(())
    }

    fn text(&mut self, vms: &[Vm], command: &TopMetrics) -> String {
        let vms = keys(vms);
        let before = std::mem::take(&mut self.vms);
        for (key, vm) in &vms {
            let mut addresses = before.get(key).cloned().unwrap_or_default();
            addresses.count(vm);
            self.vms.insert(*key, addresses);
        }
        let mut text = MetricsText::default();
        of_command(&mut text, command);
        let vms: Vec<(Labels, VmKey, &Vm)> = vms
            .into_iter()
            .map(|(key, vm)| (Labels::new(key, vm), key, vm))
            .collect();
        let total = |name: &str| format!("{name}_total");
        text.family("vmbell_vm_vcpus", "gauge", "vCPUs.");
        for (labels, _, vm) in &vms {
            text.sample("vmbell_vm_vcpus", &labels.with(&[]), vm.vcpus.len());
        }
        let mut counters: Vec<Counter<'_>> = vec![
            (
                "vmbell_vm_cpu_seconds",
                "CPU time of the vCPUs' threads.",
                &|vm| Some(cpu_seconds(vm.cpu?).to_string()),
            ),
            (
                "vmbell_vm_exits",
                "VM exits of all kinds, since the VM's start.",
                &|vm| Some(vm.statistics.as_ref()?.get("exits")?.to_string()),
            ),
        ];
        let of =
            COUNTS.map(|(_, _, metric)| move |vm: &Vm| Some(vm.counts.get(&metric)?.to_string()));
        counters.extend(COUNTS.iter().zip(&of).map(|((name, help, _), of)| {
            let of: &dyn Fn(&Vm) -> Option<String> = of;
            (*name, *help, of)
        }));
        for (name, help, value) in counters {
            text.family(name, "counter", help);
            for (labels, _, vm) in &vms {
                if let Some(value) = value(vm) {
                    text.sample(&total(name), &labels.with(&[]), value);
                }
            }
        }
        for (index, (name, help, metric)) in ADDRESS_FAMILIES.into_iter().enumerate() {
            text.family(name, "counter", help);
            let is_counted = |vm: &Vm| vm.counts.contains_key(&metric);
            for (labels, key, _) in vms.iter().filter(|(_, _, vm)| is_counted(vm)) {
                for (space, address, counts) in self.vms[key].shown() {
                    let more = [("space", &*space), ("address", &*address)];
                    text.sample(&total(name), &labels.with(&more), counts[index]);
                }
            }
        }
        let name = "vmbell_vm_other_exits_to_vmm";
        text.family(name, "counter", "Returns of KVM_RUN without an address.");
        for (labels, _, vm) in &vms {
            for (reason, count) in &vm.reasons {
                text.sample(&total(name), &labels.with(&[("reason", reason)]), count);
            }
        }
        let name = "vmbell_vm_exits_by_reason";
        text.family(name, "counter", "VM exits by vCPU and the CPU's reasons.");
        for (labels, _, vm) in &vms {
            for reason in &vm.exits {
                for (vcpu, count) in &reason.by_vcpu {
                    let vcpu = vcpu.to_string();
                    let more = [("vcpu", &*vcpu), ("reason", &*reason.name)];
                    text.sample(&total(name), &labels.with(&more), count);
                }
            }
        }
        text.finish()
    }
}

/// A counter: its family, its description, and its value if known.
type Counter<'a> = (&'a str, &'a str, &'a dyn Fn(&Vm) -> Option<String>);

const ADDRESS_FAMILIES: [(&str, &str, Metric); 2] = [
    (
        "vmbell_vm_address_exits_to_vmm",
        "Returns of KVM_RUN by address.",
        Metric::ToVmm,
    ),
    (
        "vmbell_vm_address_ioeventfds",
        "Signals of ioeventfds by address.",
        Metric::Rings,
    ),
];

fn of_command(text: &mut MetricsText, command: &TopMetrics) {
    let name = "vmbell_top_source_used";
    text.family(
        name,
        "gauge",
        "1 if counts come from the source, 0 if it is missing.",
    );
    for source in ["bpf", "counters"] {
        let is_used = u8::from(command.sources.contains(&source));
        text.sample(name, &[("source", source)], is_used);
    }
    let name = "vmbell_top_unreadable_processes";
    text.family(name, "gauge", "Processes that could not be looked at.");
    text.sample(name, &[], command.unreadable);
    let name = "vmbell_top_lost_events";
    text.family(name, "counter", "Events that were not counted.");
    if let Some(lost) = command.lost {
        text.sample("vmbell_top_lost_events_total", &[], lost);
    }
    let name = "vmbell_top_cpu_seconds";
    text.family(name, "counter", "CPU time of vmbell top.");
    text.sample(
        "vmbell_top_cpu_seconds_total",
        &[],
        command.own.as_secs_f64(),
    );
}

/// The labels of a VM.
struct Labels([String; 4]);

impl Labels {
    fn new((pid, fd, nth): VmKey, vm: &Vm) -> Self {
        let fd = match (fd, nth) {
            (Some(fd), _) => fd.to_string(),
            (None, 0) => String::new(),
            // One of several VMs of a process without known descriptors.
            (None, nth) => format!("?{nth}"),
        };
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        Self([pid.to_string(), fd, text(&vm.vmm), text(&vm.name)])
    }

    fn with<'a>(&'a self, more: &[Label<'a>]) -> Vec<Label<'a>> {
        let names = ["pid", "fd", "vmm", "name"];
        let own = names.into_iter().zip(self.0.iter().map(String::as_str));
        own.chain(more.iter().copied()).collect()
    }
}

impl Addresses {
    /// Adds the counts since the last call: to the series of the most frequent addresses, or to `other`.
    fn count(&mut self, vm: &Vm) {
        for (place, address) in vm.addresses.iter().enumerate() {
            let key = (address.space, address.address);
            let series = self.each.entry(key).or_default();
            series.is_shown = place < ADDRESSES;
            let now = [address.to_vmm, address.rings];
            let to = match series.is_shown {
                true => &mut series.own,
                false => &mut self.others,
            };
            for (index, to) in to.iter_mut().enumerate() {
                *to += rates::since(now[index], series.all[index]);
            }
            series.all = now;
        }
    }

    /// The address space, address and counts of each series.
    fn shown(&self) -> Vec<(String, String, [u64; 2])> {
        let shown = self.each.iter().filter(|(_, series)| series.is_shown);
        let own = shown.map(|((space, address), series)| {
            let address = format!("{address:#x}");
            (addresses::space(*space), address, series.own)
        });
        let other = || ("other".to_owned(), "other".to_owned(), self.others);
        let has_other = self.others != [0; 2];
        own.chain(has_other.then(other)).collect()
    }
}

#[cfg(test)]
#[path = "openmetrics_test.rs"]
mod tests;
