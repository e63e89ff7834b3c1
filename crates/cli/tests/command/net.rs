//! `vmbell bench net` without a guest.

use predicates::prelude::*;

use super::common::vmbell;

#[test]
fn ways_and_patterns_are_listed_with_what_they_are() {
    let named = |text: &'static str| predicate::str::contains(text);
    vmbell("list net")
        .assert()
        .success()
        .stdout(named(
            "vmbell-ioeventfd  vmbell's device, by ioeventfd and irqfd; ",
        ))
        .stdout(named("qemu-vhost "))
        .stdout(named(
            "out-bulk          TCP_MAERTS, out of the guest, sockets of 64 KiB, ",
        ));
}
