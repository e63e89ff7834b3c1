//! The module kvm_ioeventfd on three of Debian's kernels: KVM's behaviour, groups, unloading, and what a doorbell costs.

use super::boots::{lab, output, text};
use super::selftests::pass_on;

#[test]
#[ignore = "boots the lab: cargo xtask lab"]
fn ioeventfds_are_kvms_and_groups_come_and_go_on_three_kernels() {
    let kernels = ["debian:6.1", "debian:6.12", "debian:newest"];
    // Without the module the second would be skipped.
    let tests = ["ioeventfd_test", "ioeventfd_groups_test"];
    pass_on(&kernels, &["--kvm-ioeventfd"], tests);
}

#[test]
#[ignore = "boots the lab: cargo xtask lab"]
fn a_value_costs_the_same_next_to_a_thousand_doorbells() {
    let mut lab = lab(&["--kernel", "debian:6.12", "--kvm-ioeventfd", "--unpatched"]);
    lab.args(["--deterministic", "--", "vmbell", "bench", "--only"])
        .args(["portio-wildcard-eventfd", "portio-datamatch-eventfd"]);
    let output = output(lab.args(["--ops", "200", "--doorbells", "1,1000"]));
    let (shown, said) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{said}");
    assert!(said.contains("1 CPU, kvm_ioeventfd\n"), "{said}");
    let (_, table) = shown
        .split_once("\ninstructions, and their ratios to those of debian:6.12\n")
        .unwrap();
    assert!(
        table.contains(" debian:6.12, kvm_ioeventfd   ratio\n"),
        "{table}"
    );
    // Without and with the module.
    let [alone, next_to_others] = ["1", "1000"].map(|doorbells| {
        let row = format!("portio-datamatch-eventfd,doorbells={doorbells} ");
        let line = table.lines().find_map(|line| line.strip_prefix(&row));
        let mut cells = line.unwrap().split_whitespace();
        [(); 2].map(|()| cells.next().unwrap().parse::<f64>().unwrap())
    });
    assert!(alone[1] <= alone[0] + 20.0, "{table}");
    assert!(next_to_others[0] > 10.0 * alone[0], "{table}");
    assert!(next_to_others[1] <= 1.15 * alone[1], "{table}");
}

#[test]
#[ignore = "boots the lab: cargo xtask lab"]
fn the_backend_has_mixed_groups_with_the_module() {
    let mut lab = lab(&["--kernel", "debian:6.12", "--kvm-ioeventfd"]);
    let output = output(lab.args(["--", "vmbell", "probe"]));
    let (shown, said) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{shown}{said}");
    // Those of the backend kvm are the first.
    let has = |line: &&str| line.trim_start().starts_with("mixed-groups ");
    let line = shown.lines().find(has).unwrap_or_else(|| panic!("{shown}"));
    assert!(line.ends_with(" yes"), "{shown}");
}

#[test]
#[ignore = "boots the lab: cargo xtask lab"]
fn a_kernel_that_refuses_the_module_does_not_run_the_program() {
    let mut lab = lab(&["--kernel", "debian:6.12", "--kvm-ioeventfd"]);
    // The module has no signature.
    lab.args(["--append", "module.sig_enforce=1", "--", "/bin/echo", "ran"]);
    let output = output(&mut lab);
    let (shown, said) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(125), "{shown}{said}");
    assert_eq!(shown, "");
    assert!(
        said.contains("the module kvm_ioeventfd is not loaded"),
        "{said}"
    );
}
