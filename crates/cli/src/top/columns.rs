//! The columns of the table of VMs: what each shows, and how it sorts.

use std::cmp::Ordering;
use std::fmt::Write;

use super::cells::{core, rate};
use vmbell_report::{Align, Cell, Column, Table};
use vmbell_top::bpf::Metric;
use vmbell_top::model::Vm;

/// The minimum width for names of VMs. With it, the table has 80 columns.
pub(super) const NAME: usize = 10;

/// The table of VMs in this order. Narrow tables always keep the column `kept`.
pub(super) fn table(vms: &[&Vm], seconds: f64, kept: VmColumn) -> Table {
    let column = |column: VmColumn| Column {
        cells: vms
            .iter()
            .map(|vm| Cell::from(column.cell(vm, seconds)))
            .collect(),
        rank: if column == kept { 0 } else { column.rank() },
        align: match column {
            VmColumn::Name => Align::Left,
            _ => Align::Right,
        },
        is_shortened: column == VmColumn::Name,
        ..Column::words(column.title()).at_least(column.width())
    };
    Table {
        columns: VmColumn::ALL.map(column).into(),
        is_dense: true,
        ..Table::default()
    }
}

/// The VMs in the default order of the screen and the tables: by CPU use, highest first.
pub(super) fn sorted(vms: &[Vm]) -> Vec<Vm> {
    let mut vms = vms.to_vec();
    vms.sort_by(|one, other| VmColumn::FIRST.compare(one, other));
    vms
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
    /// All columns, in the order of the table.
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

    /// The column that the screen sorts by at first.
    pub(super) const FIRST: Self = Self::Core;

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

    /// The width of its numbers, so that columns do not move when the numbers grow.
    const fn width(self) -> usize {
        match self {
            Self::Name => NAME,
            Self::Vcpus | Self::PvEois => 4,
            Self::Core | Self::Eois => 5,
            _ => 7,
        }
    }

    /// The order in which columns are left out on narrow lines.
    const fn rank(self) -> u8 {
        match self {
            Self::Vcpus => 5,
            Self::PvEois => 4,
            Self::Eois => 3,
            Self::Ioctls => 2,
            Self::Irqfds => 1,
            _ => 0,
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

    /// The order of two VMs: names and PIDs ascend, counts descend, and unknown values come last.
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
