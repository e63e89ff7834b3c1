//! What Linux and its user see when a file or an interface of the host is not as it should be.

use std::fs;
use std::process::Command;

use super::super::{output, text};
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
    let tools = ["--with", "/usr/bin/setpriv", "--with", "/usr/bin/ip"];
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

#[test]
#[ignore = "boots the lab: cargo xtask lab"]
fn disk_whose_file_shrinks_has_errors_where_it_is_gone_and_the_guest_goes_on() {
    let guest = "
read_at() { dd if=/dev/vda of=/dev/null bs=4096 skip=$1 count=1 iflag=direct 2>/dev/null; }
write_at() { dd if=/dev/zero of=/dev/vda bs=4096 seek=$1 count=1 oflag=direct conv=notrunc 2>/dev/null; }
read_at 1000 && echo before: has all
echo guest: ready
while read_at 1000; do sleep 0.1; done
write_at 1000 || echo write: fails
read_at 10 && write_at 10 && echo kept: is there
poweroff -f
";
    let files = with_tools(guest, &vec![1; 4 << 20]);
    let script = format!(
        "{TOOLS}
         {run} >/console </dev/null & pid=$!
         until busybox grep -q 'guest: ready' /console; do kill -0 $pid || exit 1; busybox sleep 0.1; done
         busybox truncate -s 1M /guest/disk
         wait $pid; echo status: $?; busybox cat /console; busybox stat -c 'size: %s' /guest/disk",
        run = files.run("--device virtio-blk,file=/guest/disk"),
    );
    let output = output(&mut files.in_l1(&[], &script));
    let said = said(&output);
    for (begin, rest) in [
        ("before: ", "has all"),
        ("write: ", "fails"),
        ("kept: ", "is there"),
        ("status: ", "0"),
        ("size: ", "1048576"),
    ] {
        assert_eq!(line(said, begin), [rest], "{said}");
    }
}

#[test]
#[ignore = "boots the lab: cargo xtask lab"]
fn file_system_is_whole_and_has_what_was_synced_after_vmbell_was_killed_in_mid_write() {
    // The first guest writes until it is killed; a second one finds what the first had synced.
    let guest = "
mount -t ext4 /dev/vda /mnt || poweroff -f
if [ -e /mnt/0 ]; then
    cd /mnt && for file in *; do [ -f $file ] && echo found: $(md5sum $file); done
    cd / && umount /mnt && echo unmounted: $?
    poweroff -f
fi
number=0
while :; do
    dd if=/dev/urandom of=/mnt/$number bs=4096 count=16 conv=fsync 2>/dev/null
    echo synced: $(cd /mnt && md5sum $number)
    number=$((number + 1))
done
";
    let files = with_tools(guest, &[]);
    let disk = files.folder.path().join("disk");
    fs::File::create(&disk).unwrap().set_len(64 << 20).unwrap();
    check(
        Command::new("/usr/sbin/mkfs.ext4").arg("-q").arg(&disk),
        &[0],
    );
    let run = files.run("--device virtio-blk,file=/guest/disk");
    let script = format!(
        "{TOOLS}
         {run} >/out/first </dev/null & pid=$!
         until busybox grep -q 'synced: .* 20' /out/first; do busybox sleep 0.1; kill -0 $pid || exit 1; done
         kill -KILL $pid; wait $pid; busybox cp /guest/disk /out/killed
         {run} >/out/second </dev/null; echo status: $?; busybox cp /guest/disk /out/after"
    );
    let out = files.folder.path().join("out");
    let output = output(&mut files.in_l1(&["--out", out.to_str().unwrap()], &script));
    let said = said(&output);
    assert_eq!(line(said, "status: "), ["0"], "{said}");
    let [first, second] =
        ["first", "second"].map(|name| fs::read_to_string(out.join(name)).unwrap());
    assert_eq!(line(&second, "unmounted: "), ["0"], "{second}");
    let (synced, found) = (line(&first, "synced: "), line(&second, "found: "));
    // The last line may have been cut.
    let whole = &synced[..synced.len() - 1];
    assert!(whole.len() >= 20, "{first}");
    for file in whole {
        assert!(found.contains(file), "{file} of {synced:?} in {found:?}");
    }
    // The journal makes the disk whole as the kill left it, too (1: something was mended), and leaves nothing to do.
    check(
        Command::new("/usr/sbin/e2fsck")
            .arg("-fp")
            .arg(out.join("killed")),
        &[0, 1],
    );
    for disk in ["killed", "after"] {
        check(
            Command::new("/usr/sbin/e2fsck")
                .arg("-fn")
                .arg(out.join(disk)),
            &[0],
        );
    }
}

/// Runs a program of this machine, which has to end with one of these statuses.
fn check(command: &mut Command, statuses: &[i32]) {
    let output = command.output().unwrap();
    let (said, errors) = (text(&output.stdout), text(&output.stderr));
    let is_good = output
        .status
        .code()
        .is_some_and(|code| statuses.contains(&code));
    assert!(is_good, "{command:?}: {said}{errors}");
}
