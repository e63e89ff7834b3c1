//! What Linux and its user see when a file or an interface of the host is not as it should be.

use std::fs;

use super::super::output;
use super::{Files, PARTS, line, said};

/// The beginning of L1's scripts: busybox has their tools.
const TOOLS: &str = "busybox() { /guest/busybox \"$@\"; }\n";

fn with_tools(guest: &str, disk: &[u8]) -> Files {
    let files = Files::new(guest, disk);
    fs::copy(&PARTS.1, files.folder.path().join("busybox")).unwrap();
    files
}

#[test]
#[ignore = "boots the lab: cargo xtask lab"]
fn taps_that_cannot_be_used_are_told_with_what_helps_and_that_does_help() {
    let files = with_tools("echo guest: ready\nread line\npoweroff -f\n", &[]);
    let run = |tap: &str| files.run(&format!("--device virtio-net,tap={tap}"));
    // A user who may use KVM, and has no rights beside that.
    let user = "setpriv --reuid 1000 --regid 1000 --clear-groups";
    let script = format!(
        "{TOOLS}
         busybox mkfifo /keys && exec 3<>/keys
         : >/console; {held} >/console </keys & pid=$!
         until busybox grep -q 'guest: ready' /console; do kill -0 $pid || exit 1; busybox sleep 0.1; done
         echo busy: $({held} 2>&1 </dev/null)
         echo >&3; wait $pid; echo first: $?
         echo kind: $({lo} 2>&1 </dev/null)
         busybox chmod 666 /dev/kvm
         echo closed: $({user} {mine} 2>&1 </dev/null)
         busybox chmod 666 /dev/net/tun
         ip tuntap add dev theirs mode tap user 2000
         {user} {theirs} 2>/foreign </dev/null
         {user} {mine} 2>/missing </dev/null
         for message in foreign missing; do
             echo $message: $(busybox cat /$message)
             # The message's own command.
             busybox sed 's/^[^`]*`//; s/`.*//' /$message >/command && . /command; echo command: $?
         done
         echo | {user} {both} >/console; echo both: $?",
        held = run("tap0"),
        lo = run("lo"),
        mine = run("mine"),
        theirs = run("theirs"),
        both = run("mine --device virtio-net,tap=theirs"),
    );
    let tools = ["--with", "/usr/bin/setpriv", "--with", "/usr/sbin/ip"];
    let options = [&["--module", "tun"][..], &tools].concat();
    let output = output(&mut files.in_l1(&options, &script));
    let said = said(&output);
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
