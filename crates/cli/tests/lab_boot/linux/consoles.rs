//! What a user types into a Linux guest.

use super::super::boots::bodies::types;
use super::super::boots::linux::{Guest, line};
use super::L1;

#[test]
#[ignore = "boots the lab: cargo xtask lab"]
fn standard_input_is_the_console_of_linux_and_a_reboot_ends_the_run() {
    types(&L1, "ttyS0", "");
}

#[test]
#[ignore = "boots the lab: cargo xtask lab"]
fn standard_input_is_a_virtio_console_of_linux_if_it_has_one() {
    types(&L1, "hvc0", "--vcpus 2 --device virtio-console,packed=on");
}

#[test]
#[ignore = "boots the lab: cargo xtask lab"]
fn serial_port_of_the_micro_model_is_a_console_too() {
    types(&L1, "ttyS0", "--machine micro --vcpus 2");
}

#[test]
#[ignore = "boots the lab: cargo xtask lab"]
fn a_signal_and_ctrl_a_x_end_the_run_and_the_terminal_is_as_before() {
    let run = Guest::command("");
    // In script(1), which creates a terminal, standard input is what the user types.
    let inside = format!(
        "stty -a >before; {run}; echo typed status: $?; stty -a >after; cmp before after && echo same: terminal"
    );
    let script = format!(
        "{run} </dev/null >console & pid=$!
         until grep -q 'guest: ready' console; do kill -0 $pid || exit 1; sleep 0.1; done
         kill -TERM $pid; wait $pid; echo signal status: $?
         export SHELL=/bin/sh; script -qec '/bin/sh inside' /dev/null <keys"
    );
    let guest = Guest::new("echo guest: ready\nexec sh\n")
        .with_file("keys", "echo typed\r\u{1}x")
        .with_file("inside", inside);
    let ran = guest.in_l1(&L1, &script);
    let said = ran.said();
    assert_eq!(line(said, "signal status: "), ["143"], "{said}");
    assert!(said.contains("typed status: 130"), "{said}");
    assert!(said.contains("same: terminal"), "{said}");
}
