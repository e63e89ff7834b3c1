//! The columns of the table of VMs: what each shows of a VM, and how it sorts.

use std::cmp::Ordering;
use std::fmt::Write;

use super::text::{core, rate};
use vmbell_report::{pad, shortened_in_the_middle, width};
use vmbell_top::bpf::Metric;
use vmbell_top::model::Vm;

/// The least width of the names of VMs: with it, the table has [`TABLE`] columns.
pub(super) const NAME: usize = 10;
const TABLE: usize = 80;

/// The width that the names of VMs take: as much as they need, if they fit into lines of this width.
pub(super) fn name_width(vms: &[Vm], line: Option<usize>) -> usize {
    let widest = vms.iter().map(|vm| width(&name(vm))).max();
    let room = line.map_or(usize::MAX, |line| NAME + line.saturating_sub(TABLE));
    widest.unwrap_or_default().clamp(NAME, room)
}

/// A column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum VmColumn {
    Pid,
    Name,
    Vcpus,
    Core,
    Exits,
    ToVmm,
    Rings,
    Irqfds,
    Ioctls,
    Eois,
    PvEois,
}

impl VmColumn {
    /// All, in the order of the table.
    pub(super) const ALL: [Self; 11] = [
        Self::Pid,
        Self::Name,
        Self::Vcpus,
        Self::Core,
        Self::Exits,
        Self::ToVmm,
        Self::Rings,
        Self::Irqfds,
        Self::Ioctls,
        Self::Eois,
        Self::PvEois,
    ];

    pub(super) const fn title(self) -> &'static str {
        match self {
            Self::Pid => "PID",
            Self::Name => "VM",
            Self::Vcpus => "vCPU",
            Self::Core => "CORE",
            Self::Exits => "EXITS/s",
            Self::ToVmm => "VMM/s",
            Self::Rings => "RINGS/s",
            Self::Irqfds => "IRQFD/s",
            Self::Ioctls => "IOCTL/s",
            Self::Eois => "EOI/s",
            Self::PvEois => "PV",
        }
    }

    const fn width(self, name: usize) -> usize {
        match self {
            Self::Name => name,
            Self::Vcpus | Self::PvEois => 4,
            Self::Core | Self::Eois => 5,
            _ => 7,
        }
    }

    /// The text in the column's width; the name has `name` cells of a terminal.
    pub(super) fn aligned(self, text: &str, name: usize) -> String {
        let width = self.width(name);
        match self {
            Self::Name => pad(&shortened_in_the_middle(text, width), width),
            _ => format!("{text:>width$}"),
        }
    }

    /// What the column shows of a VM.
    pub(super) fn cell(self, vm: &Vm, seconds: f64) -> String {
        match self {
            Self::Pid => vm.pid.to_string(),
            Self::Name => name(vm),
            Self::Vcpus if vm.vcpus.is_empty() => "-".to_owned(),
            Self::Vcpus => vm.vcpus.len().to_string(),
            Self::Core => core(vm.cpu, seconds),
            Self::PvEois => match vm.pv_eoi_share() {
                Some(share) => format!("{:.0}%", share * 100.0),
                None => "-".to_owned(),
            },
            Self::Eois if vm.eois_by_cpu => "hw".to_owned(),
            _ => rate(self.count(vm), seconds),
        }
    }

    fn count(self, vm: &Vm) -> Option<u64> {
        let count = |metric| vm.counts.get(&metric).copied();
        match self {
            Self::Exits => vm.statistics.as_ref()?.get("exits").copied(),
            Self::ToVmm => count(Metric::ToVmm),
            Self::Rings => count(Metric::Rings),
            Self::Irqfds => count(Metric::Irqfds),
            Self::Ioctls => Some(count(Metric::Messages)? + count(Metric::Lines)?),
            Self::Eois => count(Metric::Eois),
            Self::Core => vm.cpu,
            Self::Vcpus => u64::try_from(vm.vcpus.len()).ok(),
            Self::Pid | Self::Name | Self::PvEois => None,
        }
    }

    /// The order of two VMs: names and PIDs go up, counts go down, and what is not known is last.
    pub(super) fn compare(self, one: &Vm, other: &Vm) -> Ordering {
        let order = match self {
            Self::Pid => Ordering::Equal,
            Self::Name => name(one).cmp(&name(other)),
            Self::PvEois => {
                let share = |vm: &Vm| vm.pv_eoi_share().unwrap_or(-1.0);
                share(other).total_cmp(&share(one))
            }
            _ => self.count(other).cmp(&self.count(one)),
        };
        order.then((one.pid, one.fd).cmp(&(other.pid, other.fd)))
    }
}

/// The titles in a line, or what they show of a VM; names have `name` cells of a terminal.
pub(super) fn line(name: usize, text: impl Fn(VmColumn) -> String) -> String {
    let mut line = String::new();
    for column in VmColumn::ALL {
        let space = if line.is_empty() { "" } else { " " };
        let _ = write!(line, "{space}{}", column.aligned(&text(column), name));
    }
    line
}

/// The VMM and the VM's name.
pub(super) fn name(vm: &Vm) -> String {
    let mut name = vm.vmm.clone().unwrap_or_default();
    if let Some(own) = &vm.name {
        let _ = write!(name, ":{own}");
    }
    if vm.has_ended {
        name.insert_str(0, "(ended) ");
    }
    name
}

#[cfg(test)]
#[path = "columns_test.rs"]
mod tests;
