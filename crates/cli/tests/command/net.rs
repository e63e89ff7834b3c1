//! `vmbell bench net`, as far as it goes without a guest.

use predicates::prelude::*;

use super::common::vmbell;

#[test]
fn ways_and_patterns_are_listed_with_what_they_are() {
    let named = |text: &'static str| predicate::str::contains(text);
    vmbell(&["list", "net"])
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

#[test]
fn names_that_are_unknown_are_refused_with_those_that_are() {
    for (words, said) in [
        (&["bench", "net", "vmbell-exits"][..], "vmbell-exit"),
        (
            &["bench", "net", "--pattern", "rr,bulk"],
            "there are rr, in-default, ",
        ),
        (&["bench", "net", "--bytes", "3G"], "must be below 2G"),
        (&["bench", "net", "--transactions", "0"], "0 is not in 1.."),
    ] {
        vmbell(words)
            .assert()
            .code(2)
            .stderr(predicate::str::contains(said));
    }
}
