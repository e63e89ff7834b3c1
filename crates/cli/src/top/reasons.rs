//! The table of exits by the CPU's reasons: of each VM, and of each of its vCPUs.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use super::text::rate;
use vmbell_top::model::{Reason, Vm};

/// How many reasons are in a row.
const REASONS: usize = 12;
/// How long a line is.
const WIDTH: usize = 80;
/// Where reasons begin.
const INDENT: usize = 12;

/// The rates of the reasons, those that are most frequent in the VM first. Of a VM's vCPUs the `most` that exit most have a row
/// each, and so have all of them together if there are several.
pub(super) fn table(vms: &[Vm], seconds: f64, most: usize) -> String {
    let mut out = String::new();
    for vm in vms {
        let vcpus = vcpus(vm);
        let mut shown: Vec<u32> = vcpus.iter().map(|(_, vcpu)| *vcpu).take(most).collect();
        shown.sort_unstable();
        if vcpus.len() != 1 {
            let all = |reason: &Reason| reason.count();
            out += &row(vm, "all", &all, seconds);
        }
        for vcpu in &shown {
            let of_vcpu = |reason: &Reason| reason.by_vcpu.get(vcpu).copied().unwrap_or_default();
            out += &row(vm, &vcpu.to_string(), &of_vcpu, seconds);
        }
        let rest: BTreeSet<u32> = vcpus.iter().skip(most).map(|(_, vcpu)| *vcpu).collect();
        if !rest.is_empty() {
            let of_rest = |reason: &Reason| {
                let each = reason.by_vcpu.iter();
                let each = each.filter(|(vcpu, _)| rest.contains(vcpu));
                each.map(|(_, count)| count).sum()
            };
            out += &row(vm, &format!("+{}", rest.len()), &of_rest, seconds);
        }
    }
    if out.is_empty() {
        return out;
    }
    format!("\n{:>7} {:>4} EXITS/s BY REASON\n", "PID", "vCPU") + &out
}

/// The vCPUs that exited, with their exits; that with the most is the first.
fn vcpus(vm: &Vm) -> Vec<(u64, u32)> {
    let mut sums: BTreeMap<u32, u64> = BTreeMap::new();
    for (vcpu, count) in vm.exits.iter().flat_map(|reason| &reason.by_vcpu) {
        *sums.entry(*vcpu).or_default() += count;
    }
    let mut vcpus: Vec<_> = sums.into_iter().map(|(vcpu, sum)| (sum, vcpu)).collect();
    vcpus.sort_by_key(|(sum, vcpu)| (std::cmp::Reverse(*sum), *vcpu));
    vcpus
}

/// The lines of a row; none if nothing was counted.
fn row(vm: &Vm, vcpu: &str, count: &dyn Fn(&Reason) -> u64, seconds: f64) -> String {
    let counts = vm.exits.iter().map(|reason| (&*reason.name, count(reason)));
    let counts: Vec<(&str, u64)> = counts.filter(|(_, count)| *count > 0).collect();
    let others: u64 = counts.iter().skip(REASONS).map(|(_, count)| count).sum();
    let others = (others > 0).then_some(("others", others));
    let mut out = String::new();
    let mut line = format!("{:>7} {vcpu:>4}", vm.pid);
    for (name, count) in counts.into_iter().take(REASONS).chain(others) {
        let text = format!("{name} {}", rate(Some(count), seconds));
        let gap = if line.len() == INDENT { 1 } else { 2 };
        if line.len() + gap + text.len() > WIDTH {
            let _ = writeln!(out, "{line}");
            line = format!("{:INDENT$} {text}", "");
        } else {
            let _ = write!(line, "{:gap$}{text}", "");
        }
    }
    if line.len() > INDENT {
        let _ = writeln!(out, "{line}");
    }
    out
}

#[cfg(test)]
mod tests {
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

    #[test]
    fn the_only_vcpu_that_exited_is_the_whole_vm() {
        let one = vm(vec![
            reason("npf", &[(2, 1411)]),
            reason("interrupt", &[(2, 14)]),
        ]);
        let expected = "\n    PID vCPU EXITS/s BY REASON\n   4711    2 npf 1411  interrupt 14\n";
        assert_eq!(table(&[one, vm(Vec::new())], 1.0, 8), expected);
        assert_eq!(table(&[vm(Vec::new())], 1.0, 8), "");
    }

    #[test]
    fn each_vcpu_has_a_row_after_that_of_the_vm_with_the_reasons_in_the_same_order() {
        let two = vm(vec![
            reason("npf", &[(0, 60), (1, 30)]),
            reason("hlt", &[(1, 40)]),
        ]);
        let expected = "
    PID vCPU EXITS/s BY REASON
   4711  all npf 45  hlt 20
   4711    0 npf 30
   4711    1 npf 15  hlt 20
";
        assert_eq!(table(&[two], 2.0, 8), expected);
    }

    #[test]
    fn vcpus_that_exit_less_than_the_first_ones_are_summed() {
        let four = vm(vec![reason("npf", &[(0, 1), (1, 30), (2, 2), (3, 40)])]);
        let expected = "
    PID vCPU EXITS/s BY REASON
   4711  all npf 73
   4711    1 npf 30
   4711    3 npf 40
   4711   +2 npf 3.0
";
        assert_eq!(table(&[four], 1.0, 2), expected);
    }

    #[test]
    fn reasons_fill_lines_and_rare_ones_are_summed() {
        let reasons = (0..14).map(|index| reason(&format!("reason-{index}"), &[(0, 100 - index)]));
        let table = table(&[vm(reasons.collect())], 1.0, 8);
        assert!(
            table.starts_with(
                "\n    PID vCPU EXITS/s BY REASON\n   4711    0 reason-0 100  reason-1 99"
            ),
            "{table}"
        );
        assert!(table.lines().all(|line| line.len() <= WIDTH), "{table}");
        let continued = format!("\n{:INDENT$} reason-", "");
        assert!(table.contains(&continued), "{table}");
        // 88 and 87.
        assert!(table.ends_with("  reason-11 89  others 175\n"), "{table}");
    }
}
