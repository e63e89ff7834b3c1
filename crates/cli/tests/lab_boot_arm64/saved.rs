//! An arm64 machine that is saved.

use super::boots::late::output_with_a_late_main_loop;
use super::boots::states::{SAVED, States, beginning, figures_do_not_depend_on_the_beginning};
use super::boots::{output, text};

#[test]
#[ignore = "boots the lab: cargo xtask lab --arch aarch64"]
fn figures_are_those_of_a_boot_with_and_without_a_seed() {
    figures_do_not_depend_on_the_beginning(1, &["mmio-no-eventfd", "mmio-wildcard-eventfd"]);
}

#[test]
#[ignore = "boots the lab: cargo xtask lab --arch aarch64"]
fn timers_come_on_each_cpu_of_a_machine_that_was_saved() {
    let script = "taskset 1 sleep 1; taskset 2 sleep 1; echo right";
    for kernel in [&[][..], &["--kernel", "debian:newest"]] {
        let folder = tempfile::tempdir().unwrap();
        let states = States::in_cache(folder.path().to_owned(), Some(folder));
        for _ in 0..2 {
            let mut command = states.lab(&["--functional", "--vcpus", "2"]);
            let output = output(command.args(kernel).args(["--", "/bin/sh", "-c", script]));
            assert_eq!(text(&output.stdout), "right\n", "{}", text(&output.stderr));
            assert_eq!(beginning(&output), SAVED, "{}", text(&output.stderr));
        }
    }
}

#[test]
#[ignore = "boots the lab: cargo xtask lab --arch aarch64"]
fn a_machine_for_which_qemu_skipped_time_is_not_saved() {
    // If time was skipped, a newer kernel would wait for a timer that never fires.
    for kernel in [&[][..], &["--kernel", "debian:newest"]] {
        let folder = tempfile::tempdir().unwrap();
        let states = States::in_cache(folder.path().to_owned(), Some(folder));
        let mut command = states.lab(&["--deterministic"]);
        command.args(kernel);
        let output =
            output_with_a_late_main_loop(command.args(["--", "/bin/sh", "-c", "echo right"]));
        assert_eq!(text(&output.stdout), "right\n");
        assert_eq!(beginning(&output), "booted (it could not be saved)");
        let said = text(&output.stderr);
        assert!(
            said.contains("QEMU skipped time when it stopped the machine"),
            "{said}"
        );
        assert_eq!(states.names(), [""; 0]);
    }
}
