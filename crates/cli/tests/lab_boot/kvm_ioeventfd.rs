//! The module kvm_ioeventfd on three of Debian's kernels: KVM's behaviour, groups, rings, unloading, and the cost of a
//! doorbell.

use super::boots::{lab, output, text};
use super::selftests::pass_on;

#[test]
#[ignore = "boots the lab: cargo xtask lab"]
fn groups_come_and_go_on_three_kernels_and_ioeventfds_are_kvms_on_the_oldest_and_the_newest() {
    // Without the module, these tests are skipped.
    let tests = ["ioeventfd_groups_test", "ioeventfd_ring_test"];
    pass_on(&["debian:6.12"], &["--kvm-ioeventfd"], &tests);
    let tests = ["ioeventfd_test", tests[0], tests[1]];
    pass_on(
        &["debian:6.1", "debian:newest"],
        &["--kvm-ioeventfd"],
        &tests,
    );
}

#[test]
#[ignore = "boots the lab: cargo xtask lab"]
fn a_value_costs_the_same_next_to_a_thousand_doorbells() {
    let mut lab = lab(&["--kernel", "debian:6.12", "--kvm-ioeventfd", "--unpatched"]);
    lab.args(["--deterministic", "--", "vmbell", "bench", "--only"])
        .args(["portio-datamatch-eventfd"]);
    let output = output(lab.args(["--ops", "200", "--doorbells", "1,10,1000,4096"]));
    let (shown, said) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{said}");
    assert!(said.contains("1 CPU, kvm_ioeventfd\n"), "{said}");
    let table = comparison(shown, "debian:6.12");
    assert!(
        table.contains(" debian:6.12, kvm_ioeventfd  ratio\n"),
        "{table}"
    );
    // Each pair of cells is without and with the module.
    let [alone, ten, thousand, most] = ["1", "10", "1000", "4096"].map(|doorbells| {
        let row = format!("portio-datamatch-eventfd,doorbells={doorbells}");
        cells(table, &row).map(|cell| cell.parse::<f64>().unwrap())
    });
    assert!(alone[1] <= alone[0] + 20.0, "{table}");
    assert!(thousand[0] > 10.0 * alone[0], "{table}");
    for next_to_others in [ten, thousand] {
        assert!(next_to_others[1] <= 1.15 * alone[1], "{table}");
    }
    assert!(most[1] <= 1.5 * alone[1], "{table}");
}

/// The table of both kernels, which follows the report of each.
fn comparison<'s>(shown: &'s str, kernel: &str) -> &'s str {
    let title = format!("\ninstructions, and their ratios to those of {kernel}\n");
    shown.split_once(&title).unwrap().1
}

/// The row's values without and with the module.
fn cells<'t>(table: &'t str, row: &str) -> [&'t str; 2] {
    let mut lines = table.lines().map(str::split_whitespace);
    let mut line = lines.find(|line| line.clone().next() == Some(row)).unwrap();
    line.next();
    [(); 2].map(|()| line.next().unwrap())
}

#[test]
#[ignore = "boots the lab: cargo xtask lab"]
fn a_payload_costs_little_more_than_its_signal_and_no_exit_to_the_vmm() {
    let mut lab = lab(&["--kernel", "debian:6.12", "--kvm-ioeventfd", "--unpatched"]);
    lab.args(["--deterministic", "--", "vmbell", "bench", "--only"])
        .args(["portio-no-eventfd", "mmio-no-eventfd", "*-wildcard-eventfd"]);
    let output = output(lab.args(["*-payload-eventfd", "--ops", "200"]));
    let (shown, said) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{said}");
    let table = comparison(shown, "debian:6.12");
    for way in ["portio", "mmio"] {
        let with_module = |row: &str| -> f64 {
            let [_, cost] = cells(table, &format!("{way}-{row}"));
            cost.parse().unwrap()
        };
        let (exit, plain) = (with_module("no-eventfd"), with_module("wildcard-eventfd"));
        let [stock, payload] = cells(table, &format!("{way}-payload-eventfd"));
        assert_eq!(stock, "-", "{table}");
        let payload: f64 = payload.parse().unwrap();
        assert!(payload <= 1.05 * plain && payload < exit, "{table}");
    }
}

#[test]
#[ignore = "boots the lab: cargo xtask lab"]
fn a_removal_after_a_registration_does_not_wait_for_its_grace_period() {
    let mut lab = lab(&[
        "--kernel",
        "debian:newest",
        "--kvm-ioeventfd",
        "--unpatched",
    ]);
    lab.args(["--deterministic", "--", "vmbell", "bench", "--only"]);
    let output = output(lab.args(["ioeventfd-deassign-first", "--ops", "50"]));
    let (shown, said) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{said}");
    let table = comparison(shown, "debian:newest");
    let [stock, module] =
        cells(table, "ioeventfd-deassign-first").map(|cell| cell.parse::<f64>().unwrap());
    assert!(stock > 50.0 * module, "{table}");
}

#[test]
#[ignore = "boots the lab: cargo xtask lab"]
fn the_backend_has_mixed_groups_with_the_module() {
    let mut lab = lab(&["--kernel", "debian:6.12", "--kvm-ioeventfd"]);
    let output = output(lab.args(["--", "vmbell", "probe", "-v"]));
    let (shown, said) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{shown}{said}");
    // The backend kvm's rows are first.
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
