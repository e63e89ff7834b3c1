//! A disk that another process serves: the storage daemon of the lab's QEMU.

use std::path::Path;

use vmbell_lab::cache::hash_bytes;

use super::super::boots::linux::{Guest, bytes, line};
use super::super::boots::text;
use super::{L1, qemu};

const SOCKET: &str = "disk.sock";

/// The command that serves `disk` at the socket, and waits until it is ready.
fn daemon() -> String {
    // QEMU's words up to the program; the daemon is next to that.
    let words = qemu().words();
    let words = words.iter().map(|word| word.to_str().unwrap());
    let words = words.take_while(|word| *word != "-L").collect::<Vec<_>>();
    let (program, loader) = words.split_last().unwrap();
    let program = Path::new(program).with_file_name("qemu-storage-daemon");
    format!(
        "rm -f {SOCKET}
         {} {} --blockdev driver=file,node-name=disk,filename=disk \
             --export type=vhost-user-blk,id=disk,node-name=disk,writable=on,addr.type=unix,addr.path={SOCKET} &
         daemon=$!
         until [ -S {SOCKET} ]; do sleep 0.1; kill -0 $daemon || exit 1; done",
        loader.join(" "),
        program.display()
    )
}

#[test]
#[ignore = "boots the lab: cargo xtask lab"]
fn linux_has_a_disk_of_another_process_by_each_way_of_notification_and_interrupt() {
    let disk = bytes(1 << 20);
    let script = "
echo disk: $(sha256sum < /dev/vda)
dd if=/dev/vda of=/dev/vda bs=4096 count=16 skip=16 conv=fsync,notrunc 2>/dev/null
end poweroff
";
    let device = format!("--device vhost-user-blk,socket={SOCKET}");
    let ways = [
        (1, ""),
        (2, ",notify=exit,interrupt=call"),
        (2, ",transport=mmio"),
    ];
    let runs = ways.map(|(vcpus, way)| Guest::command(&format!("--vcpus {vcpus} {device}{way}")));
    let script_of_l1 = format!("{}\n{}", daemon(), runs.join(" && "));
    let guest = Guest::new(script).with_file("disk", disk.as_slice());
    let ran = guest.in_l1(&L1, &script_of_l1);
    let said = ran.said();
    // The other guests find what the first one wrote.
    let mut written = disk.clone();
    written.copy_within(16 * 4096..32 * 4096, 0);
    let sums = [&disk, &written, &written].map(|disk| format!("{} -", hash_bytes(disk)));
    assert_eq!(line(said, "disk: "), sums, "{said}");
}

#[test]
#[ignore = "boots the lab: cargo xtask lab"]
fn guest_and_user_are_told_of_a_back_end_that_dies_and_nothing_hangs() {
    let script = "
echo before: $(dd if=/dev/vda bs=512 count=1 2>/dev/null | wc -c)
echo reads
until [ $(( $(cat /sys/bus/virtio/devices/virtio0/status) & 64 )) = 64 ]; do sleep 0.1; done
echo needs a reset: $(cat /sys/bus/virtio/devices/virtio0/status)
end poweroff
";
    let run = Guest::command(&format!("--device vhost-user-blk,socket={SOCKET}"));
    let script_of_l1 = format!(
        "truncate -s 1M disk
         {}
         {run} >console 2>&1 </dev/null & pid=$!
         until grep -q reads console; do sleep 0.2; kill -0 $pid || exit 1; done
         kill -KILL $daemon
         wait $pid; echo status: $?
         cat console
         {run}; echo status: $?",
        daemon()
    );
    let ran = Guest::new(script).in_l1(&L1, &script_of_l1);
    let said = ran.said();
    assert_eq!(line(said, "before: "), ["512"], "{said}");
    assert_eq!(line(said, "status: "), ["0", "126"], "{said}");
    assert_eq!(line(said, "needs a reset: "), ["0x0000004f"], "{said}");
    let gone = format!("warning: the back end at {SOCKET} has gone");
    assert_eq!(line(said, &gone).len(), 1, "{said}");
    let errors = ran.left("stderr");
    let errors = text(&errors);
    let cannot = format!("cannot connect to {SOCKET}");
    assert!(errors.contains(&cannot), "{errors}");
}

#[test]
#[ignore = "boots the lab: cargo xtask lab"]
fn a_signal_ends_a_run_whose_back_end_leaves_a_request_unanswered() {
    let script = "
echo running
read word
dd if=/dev/vda of=/dev/null bs=4096 count=1 skip=200 2>/dev/null &
until grep -q '^State:.D' /proc/$!/status; do sleep 0.1; done
echo waiting
wait
echo answered
end poweroff
";
    let run = Guest::command(&format!("--device vhost-user-blk,socket={SOCKET}"));
    let script_of_l1 = format!(
        "truncate -s 1M disk
         {}
         says() {{ until grep -q $1 console; do sleep 0.2; kill -0 $pid || exit 1; done; }}
         mkfifo keys
         {run} >console 2>&1 <keys & pid=$!
         exec 3>keys
         says running
         kill -STOP $daemon
         echo >&3
         says waiting
         kill -TERM $pid
         wait $pid; echo status: $?
         kill -KILL $daemon
         cat console",
        daemon()
    );
    let ran = Guest::new(script).in_l1(&L1, &script_of_l1);
    let said = ran.said();
    assert_eq!(line(said, "status: "), ["143"], "{said}");
    assert_eq!(line(said, "answered").len(), 0, "{said}");
}
