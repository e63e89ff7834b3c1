//! A disk that another process serves: the storage daemon of the lab's QEMU.

use vmbell_lab::qemu::Qemu;

use super::*;

const SOCKET: &str = "/disk.sock";

fn qemu() -> Qemu {
    let cache = Cache::user().unwrap();
    let host = Arch::host().unwrap();
    let mut provision = Provision::new(host, &X86_64, &cache, Progress::new(true));
    let qemu = provision.qemu(None).unwrap();
    provision.finish().unwrap();
    qemu
}

/// The command that serves `/guest/disk` at the socket, and waits until it does.
fn daemon(qemu: &Qemu) -> String {
    // Those of QEMU, up to the program, which has the daemon beside it.
    let words = qemu.words();
    let words = words.iter().map(|word| word.to_str().unwrap());
    let words = words.take_while(|word| *word != "-L").collect::<Vec<_>>();
    let (program, loader) = words.split_last().unwrap();
    let program = Path::new(program).with_file_name("qemu-storage-daemon");
    format!(
        "rm -f {SOCKET}
         {} {} --blockdev driver=file,node-name=disk,filename=/guest/disk \
             --export type=vhost-user-blk,id=disk,node-name=disk,writable=on,addr.type=unix,addr.path={SOCKET} &
         daemon=$!
         until [ -S {SOCKET} ]; do sleep 0.1; kill -0 $daemon || exit 1; done",
        loader.join(" "),
        program.display()
    )
}

fn options(qemu: &Qemu) -> Vec<String> {
    let tools = ["grep", "sleep", "rm"].map(|tool| PathBuf::from(format!("/bin/{tool}")));
    let with = qemu.files().into_iter().chain(tools);
    with.flat_map(|file| ["--with".to_owned(), file.to_str().unwrap().to_owned()])
        .collect()
}

#[test]
#[ignore = "boots the lab: cargo xtask lab"]
fn linux_has_a_disk_of_another_process_by_each_way_of_notification_and_interrupt() {
    let qemu = qemu();
    let disk: Vec<u8> = (0..1_u32 << 20)
        .map(|at| at.wrapping_mul(2_654_435_761).to_le_bytes()[3])
        .collect();
    let script = "
echo disk: $(sha256sum < /dev/vda)
dd if=/dev/vda of=/dev/vda bs=4096 count=16 skip=16 conv=fsync,notrunc 2>/dev/null
poweroff -f
";
    let files = Files::new(script, &disk);
    let device = format!("--device vhost-user-blk,socket={SOCKET}");
    let ways = [
        (1, ""),
        (2, ",notify=exit,interrupt=call"),
        (2, ",transport=mmio"),
    ];
    let runs = ways.map(|(smp, way)| files.run(&format!("--smp {smp} {device}{way}")));
    let script = format!(
        "{}\n{}; status=$?\nkill $daemon; exit $status",
        daemon(&qemu),
        runs.join(" && ")
    );
    let options = options(&qemu);
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    let output = output(&mut files.in_l1(&options, &script));
    let said = said(&output);
    // What the first guest has written is what the others find.
    let mut written = disk.clone();
    written.copy_within(16 * 4096..32 * 4096, 0);
    let sums = [&disk, &written, &written].map(|disk| format!("{} -", hash_bytes(disk)));
    assert_eq!(line(said, "disk: "), sums, "{said}");
}

#[test]
#[ignore = "boots the lab: cargo xtask lab"]
fn guest_and_user_are_told_of_a_back_end_that_dies_and_nothing_hangs() {
    let qemu = qemu();
    let script = "
echo before: $(dd if=/dev/vda bs=512 count=1 2>/dev/null | wc -c)
echo reads
until [ $(( $(cat /sys/bus/virtio/devices/virtio0/status) & 64 )) = 64 ]; do sleep 0.1; done
echo needs a reset: $(cat /sys/bus/virtio/devices/virtio0/status)
poweroff -f
";
    let files = Files::new(script, &vec![0; 1 << 20]);
    let run = files.run(&format!("--device vhost-user-blk,socket={SOCKET}"));
    let script = format!(
        "{}
         {run} >/console 2>&1 </dev/null & pid=$!
         until grep -q reads /console; do sleep 0.2; kill -0 $pid || exit 1; done
         kill -KILL $daemon
         wait $pid; echo status: $?
         while read line; do echo \"$line\"; done </console
         {run}; echo status: $?",
        daemon(&qemu)
    );
    let options = options(&qemu);
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    let output = output(&mut files.in_l1(&options, &script));
    let said = said(&output);
    assert_eq!(line(said, "before: "), ["512"], "{said}");
    assert_eq!(line(said, "status: "), ["0", "126"], "{said}");
    assert_eq!(line(said, "needs a reset: "), ["0x0000004f"], "{said}");
    let gone = format!("warning: the back end at {SOCKET} has gone");
    assert_eq!(line(said, &gone).len(), 1, "{said}");
    let errors = text(&output.stderr);
    assert!(
        errors.contains(&format!("cannot connect to {SOCKET}")),
        "{errors}"
    );
}
