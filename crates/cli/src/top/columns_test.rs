use super::*;
use crate::top::text::tests::vm;

fn sorted(column: VmColumn, vms: &[Vm]) -> Vec<u32> {
    let mut vms: Vec<&Vm> = vms.iter().collect();
    vms.sort_by(|one, other| column.compare(one, other));
    vms.iter().map(|vm| vm.pid).collect()
}

#[test]
fn counts_sort_down_names_sort_up_and_what_is_not_known_is_last() {
    let mut vms = [vm(), vm(), vm()];
    for (vm, (pid, name, count)) in
        vms.iter_mut()
            .zip([(1, "b", Some(5)), (2, "c", None), (3, "a", Some(7))])
    {
        vm.pid = pid;
        vm.name = Some(name.to_owned());
        vm.cpu = count;
        vm.counts.clear();
        vm.counts.extend(count.map(|count| (Metric::Rings, count)));
    }
    assert_eq!(sorted(VmColumn::Rings, &vms), [3, 1, 2]);
    assert_eq!(sorted(VmColumn::Core, &vms), [3, 1, 2]);
    assert_eq!(sorted(VmColumn::Name, &vms), [3, 1, 2]);
    assert_eq!(sorted(VmColumn::PvEois, &vms), [1, 2, 3]);
    assert_eq!(sorted(VmColumn::Pid, &vms), [1, 2, 3]);
}
