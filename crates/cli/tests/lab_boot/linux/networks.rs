//! Linux's networks: over each path of notification and interrupt, with unusable taps, and in `vmbell bench net`.

use super::super::boots::bodies::network;
use super::super::boots::linux::{Guest, KERNEL, line};
use super::L1;

#[test]
#[ignore = "boots the lab: cargo xtask lab"]
fn linux_has_a_network_by_each_way_of_notification_and_interrupt() {
    // The other combinations of CPUs and rings are tested with MMIO registers; vhost-net has only split rings.
    let ways = [
        (2, ""),
        (1, ",notify=exit,interrupt=call,packed=on,offload=off"),
        (1, ",vhost=on"),
        (2, ",vhost=on,notify=exit,interrupt=call,offload=off"),
        (2, ",vhost=on,transport=mmio"),
    ];
    network(&L1, &ways, 600_000, "");
}

#[test]
#[ignore = "boots the lab: cargo xtask lab"]
fn taps_that_cannot_be_used_are_told_with_what_helps_and_that_does_help() {
    let guest = Guest::new("echo guest: ready\nread line\nend poweroff\n");
    let run = |tap: &str| Guest::command(&format!("--device virtio-net,tap={tap}"));
    // A user who may use KVM but has no other rights.
    let user = "setpriv --reuid 1000 --regid 1000 --clear-groups";
    let script = format!(
        "# The interfaces of the script's network.
         mount -t sysfs sysfs /sys && trap 'umount /sys' EXIT || exit
         mkfifo keys && exec 3<>keys
         : >console; {held} >console <keys & pid=$!
         until grep -q 'guest: ready' console; do kill -0 $pid || exit 1; sleep 0.1; done
         echo busy: $({held} 2>&1 </dev/null)
         echo >&3; wait $pid; echo first: $?
         echo kind: $({lo} 2>&1 </dev/null)
         chmod 666 /dev/kvm
         echo closed: $({user} {mine} 2>&1 </dev/null)
         chmod 666 /dev/net/tun
         ip tuntap add dev theirs mode tap user 2000
         {user} {theirs} 2>foreign </dev/null
         {user} {mine} 2>missing </dev/null
         for message in foreign missing; do
             echo $message: $(cat $message)
             # The message's own command.
             sed 's/^[^`]*`//; s/`.*//' $message >command && . ./command; echo command: $?
         done
         echo | {user} {both} >console; echo both: $?",
        held = run("tap0"),
        lo = run("lo"),
        mine = run("mine"),
        theirs = run("theirs"),
        both = run("mine --device virtio-net,tap=theirs"),
    );
    let ran = guest.in_l1(&L1, &script);
    let said = ran.said();
    let is_told = |begin: &str, message: &str| {
        let line = line(said, begin).concat();
        assert!(line.contains(message), "{message}\n{said}");
    };
    is_told("busy: ", "tap0 is in use by another program");
    is_told("kind: ", "lo is an interface of another kind");
    is_told("closed: ", "`chmod 666 /dev/net/tun` as root");
    is_told("foreign: ", "may not use theirs, which is there");
    is_told("missing: ", "there is no interface mine");
    for (begin, statuses) in [
        ("first: ", &["0"][..]),
        ("command: ", &["0", "0"]),
        ("both: ", &["0"]),
    ] {
        assert_eq!(line(said, begin), statuses, "{said}");
    }
}

/// The command without its kernel. It has all files except netperf.
const NET: &str = "$VMBELL bench net --runs 1 --modules /modules --busybox /bin/busybox --netserver /bin/busybox --netperf /bin/busybox";

/// The interfaces in the script's network; `/sys` shows those of L1's first network.
const INTERFACES: &str = "echo interfaces: $(sed -n 's/^ *\\(.*\\):.*/\\1/p' /proc/net/dev)";

#[test]
#[ignore = "boots the lab: cargo xtask lab"]
fn guest_that_does_not_start_and_wire_that_is_in_use_are_told_and_leave_no_interface() {
    let script = format!(
        "{NET} vmbell-exit --kernel /bin/sh 2>&1; echo status: $?
         {NET} vmbell-assigned --kernel /bin/sh --card 0000:00:07.0 --wire lo 2>&1; echo used: $?
         {INTERFACES}
         echo buffers: $(ls /sys/kernel/tracing/instances)"
    );
    let ran = L1.run(&script, &[]);
    let said = ran.said();
    assert_eq!(line(said, "status: "), ["1"], "{said}");
    assert_eq!(line(said, "used: "), ["1"], "{said}");
    let used = "lo is in use: it has the address 127.0.0.1";
    assert!(said.contains(used), "{said}");
    assert_eq!(line(said, "interfaces: "), ["lo"], "{said}");
    assert_eq!(line(said, "buffers:"), [""], "{said}");
    assert!(said.contains("did not start: the VMM ended"), "{said}");
    assert!(said.contains("its last output: error: "), "{said}");
}

#[test]
#[ignore = "boots the lab: cargo xtask lab"]
fn boot_that_is_late_in_an_emulator_is_repeated_twice_and_counted() {
    // By then, no emulated guest has reached its first program.
    let script = format!(
        "{NET} vmbell-exit --kernel {KERNEL} --run-timeout 300ms 2>&1; echo status: $?
         {INTERFACES}"
    );
    let ran = L1.run(&script, &[]);
    let said = ran.said();
    assert_eq!(line(said, "status: "), ["1"], "{said}");
    assert_eq!(line(said, "interfaces: "), ["lo"], "{said}");
    // The report's lines are wrapped.
    let words: Vec<&str> = said.split_whitespace().collect();
    let report = words.join(" ");
    let failed = "failed: the guest's first program did not start: it took longer than 300ms";
    assert!(report.contains(failed), "{said}");
    let repeated = "a boot hung and was repeated: the guest's first program did not start: it took \
                    longer than 300ms (the last of 2)";
    assert!(report.contains(repeated), "{said}");
}
