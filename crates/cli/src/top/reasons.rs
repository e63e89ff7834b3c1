//! The table of exits by the CPU's reasons, for each VM and its vCPUs.

use std::collections::{BTreeMap, BTreeSet};

use super::cells::{of_pids, rate};
use vmbell_report::{Cell, Column, Table};
use vmbell_top::model::{Reason, Vm};

/// The maximum number of reasons in a row.
const REASONS: usize = 12;

/// The rates of exits by reason, most frequent in the VM first. If a VM has several vCPUs, the first row has the sum of
/// all. Up to `most` vCPUs, those with the most exits, have a row each, and one row has the sum of the others.
pub(super) fn table(vms: &[Vm], seconds: f64, most: usize) -> Table {
    let mut rows: Vec<(u32, String, String)> = Vec::new();
    for vm in vms {
        let mut add = |vcpu: String, count: &dyn Fn(&Reason) -> u64| {
            let reasons = listed(vm, count, seconds);
            rows.extend(reasons.map(|reasons| (vm.pid, vcpu, reasons)));
        };
        let vcpus = vcpus(vm);
        let mut shown: Vec<u32> = vcpus.iter().map(|(_, vcpu)| *vcpu).take(most).collect();
        shown.sort_unstable();
        if vcpus.len() != 1 {
            add("all".to_owned(), &Reason::count);
        }
        for vcpu in &shown {
            add(vcpu.to_string(), &|reason| {
                reason.by_vcpu.get(vcpu).copied().unwrap_or_default()
            });
        }
        let rest: BTreeSet<u32> = vcpus.iter().skip(most).map(|(_, vcpu)| *vcpu).collect();
        if !rest.is_empty() {
            add(format!("+{}", rest.len()), &|reason| {
                let each = reason.by_vcpu.iter();
                let each = each.filter(|(vcpu, _)| rest.contains(vcpu));
                each.map(|(_, count)| count).sum()
            });
        }
    }
    let mut table = of_pids(rows.iter().map(|(pid, ..)| *pid));
    let vcpus = rows.iter().map(|(_, vcpu, _)| Some(Cell::from(vcpu)));
    table.add(Column::numbers("vCPU"), vcpus);
    let reasons = rows.iter().map(|(.., reasons)| Some(Cell::from(reasons)));
    table.add(Column::words("EXITS/s BY REASON"), reasons);
    table
}

/// The vCPUs that exited, with their exits, the most first.
fn vcpus(vm: &Vm) -> Vec<(u64, u32)> {
    let mut sums: BTreeMap<u32, u64> = BTreeMap::new();
    for (vcpu, count) in vm.exits.iter().flat_map(|reason| &reason.by_vcpu) {
        *sums.entry(*vcpu).or_default() += count;
    }
    let mut vcpus: Vec<_> = sums.into_iter().map(|(vcpu, sum)| (sum, vcpu)).collect();
    vcpus.sort_by_key(|(sum, vcpu)| (std::cmp::Reverse(*sum), *vcpu));
    vcpus
}

/// The reasons with their rates; `None` if nothing was counted. No-break spaces keep a reason and its rate on one line.
fn listed(vm: &Vm, count: &dyn Fn(&Reason) -> u64, seconds: f64) -> Option<String> {
    let counts = vm.exits.iter().map(|reason| (&*reason.name, count(reason)));
    let counts: Vec<(&str, u64)> = counts.filter(|(_, count)| *count > 0).collect();
    let others: u64 = counts.iter().skip(REASONS).map(|(_, count)| count).sum();
    let others = (others > 0).then_some(("others", others));
    let each = counts.into_iter().take(REASONS).chain(others);
    let each: Vec<String> = each
        .map(|(name, count)| format!("{name}\u{a0}{}", rate(Some(count), seconds)))
        .collect();
    (!each.is_empty()).then(|| each.join(", "))
}

#[cfg(test)]
mod tests {
    use vmbell_report::{Block, Screen, terminal};

    use super::*;

    fn reason(name: &str, by_vcpu: &[(u32, u64)]) -> Reason {
        Reason {
            name: name.to_owned(),
            by_vcpu: by_vcpu.iter().copied().collect(),
        }
    }

    fn vm(exits: Vec<Reason>) -> Vm {
        Vm {
            pid: 4711,
            exits,
            ..Vm::default()
        }
    }

    /// The rows as text, without the titles.
    fn rows(vms: &[Vm], seconds: f64, most: usize) -> Vec<String> {
        let table = Block::Table(table(vms, seconds, most));
        let text = terminal(&[table], Screen::default());
        text.lines().skip(1).map(str::to_owned).collect()
    }

    #[test]
    fn the_only_vcpu_that_exited_is_the_whole_vm() {
        let one = vm(vec![
            reason("npf", &[(2, 1411)]),
            reason("interrupt", &[(2, 14)]),
        ]);
        assert_eq!(
            rows(&[one, vm(Vec::new())], 1.0, 8),
            ["4711     2  npf 1411, interrupt 14"]
        );
        assert!(table(&[vm(Vec::new())], 1.0, 8).is_empty());
    }

    #[test]
    fn each_vcpu_has_a_row_after_that_of_the_vm_with_the_reasons_in_the_same_order() {
        let two = vm(vec![
            reason("npf", &[(0, 60), (1, 30)]),
            reason("hlt", &[(1, 40)]),
        ]);
        assert_eq!(
            rows(&[two], 2.0, 8),
            [
                "4711   all  npf 45, hlt 20",
                "4711     0  npf 30",
                "4711     1  npf 15, hlt 20"
            ]
        );
    }

    #[test]
    fn vcpus_that_exit_less_than_the_first_ones_are_summed() {
        let four = vm(vec![reason("npf", &[(0, 1), (1, 30), (2, 2), (3, 40)])]);
        assert_eq!(
            rows(&[four], 1.0, 2),
            [
                "4711   all  npf 73",
                "4711     1  npf 30",
                "4711     3  npf 40",
                "4711    +2  npf 3.0"
            ]
        );
    }

    #[test]
    fn lines_end_between_reasons_and_rare_ones_are_summed() {
        let reasons = (0..14).map(|index| reason(&format!("reason-{index}"), &[(0, 100 - index)]));
        let table = Block::Table(table(&[vm(reasons.collect())], 1.0, 8));
        let width = Some(80);
        let text = terminal(
            &[table],
            Screen {
                width,
                color: false,
            },
        );
        assert!(text.lines().all(|line| line.len() <= 80), "{text}");
        for line in text.lines().skip(2) {
            assert!(line.trim_start().starts_with("reason-"), "{text}");
        }
        // 88 and 87.
        assert!(text.ends_with(", reason-11 89, others 175\n"), "{text}");
    }
}
