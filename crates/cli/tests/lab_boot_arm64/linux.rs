//! Linux as the guest of `vmbell run` on arm64: the Image of L1 boots once more, with busybox, and drives our devices.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::LazyLock;

use vmbell_lab::arch::Arch;
use vmbell_lab::board::AARCH64;
use vmbell_lab::cache::{Cache, hash_bytes};
use vmbell_lab::initramfs::Archive;
use vmbell_lab::kernel::ModuleTree;
use vmbell_lab::{Kernel, Progress, Provision};

use super::{example, guest, lab, output, text};

/// The kernel and the only program of the guests, which the lab downloads.
static PARTS: LazyLock<(Kernel, PathBuf)> = LazyLock::new(|| {
    let cache = Cache::user().unwrap();
    let host = Arch::host().unwrap();
    let mut provision = Provision::new(host, &AARCH64, &cache, Progress::new(true));
    let kernel = provision.kernel(None).unwrap();
    let shell = provision.shell(false).unwrap().unwrap();
    provision.finish().unwrap();
    (kernel, shell)
});

/// What every guest's first program does before the test's part. The kernel's last words would come in between what is
/// still on its way out: setting the terminal waits for that.
const BEGIN: &str = "#!/bin/sh
/bin/busybox --install -s /bin
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs dev /dev
end() { stty -echo && $1 -f; }
read up idle </proc/uptime
echo up: $up
for module in /modules/*; do insmod $module || echo no $module; done
";

/// The drivers of the guests.
const DRIVERS: [&str; 5] = [
    "virtio_blk",
    "virtio_mmio",
    "virtio_net",
    "virtio_rng",
    "vmw_vsock_virtio_transport",
];

/// A static program, and where a guest has it.
type With<'p> = Option<(&'p Path, &'p str)>;

/// A first file system with the drivers, a script as its first program, and perhaps a further program.
fn initrd(script: &str, with: With<'_>) -> Vec<u8> {
    let (kernel, shell) = &*PARTS;
    let mut archive = Archive::new(Vec::new());
    archive
        .host_path_at(shell, Path::new("/bin/busybox"))
        .unwrap();
    archive
        .link(Path::new("/bin/sh"), Path::new("busybox"))
        .unwrap();
    for folder in ["/proc", "/sys", "/mnt"] {
        archive.folder(Path::new(folder)).unwrap();
    }
    archive
        .character_device(Path::new("/dev/console"), 5, 1)
        .unwrap();
    let tree = ModuleTree::open(kernel.modules.as_ref().unwrap(), kernel.release()).unwrap();
    for (index, module) in tree.load_order(&DRIVERS).unwrap().iter().enumerate() {
        let path = format!("/modules/{index:02}-{}.ko", module.name);
        archive
            .file(Path::new(&path), 0o644, &module.bytes)
            .unwrap();
    }
    if let Some((program, path)) = with {
        archive.host_path_at(program, Path::new(path)).unwrap();
    }
    let script = format!("{BEGIN}{script}");
    archive
        .file(Path::new("/init"), 0o755, script.as_bytes())
        .unwrap();
    archive.finish().unwrap()
}

/// The files of a guest.
struct Files {
    folder: tempfile::TempDir,
}

impl Files {
    fn new(script: &str, disk: &[u8]) -> Self {
        Self::with_program(script, disk, None)
    }

    fn with_program(script: &str, disk: &[u8], with: With<'_>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("initrd"), initrd(script, with)).unwrap();
        fs::write(folder.path().join("disk"), disk).unwrap();
        Self { folder }
    }

    /// The command that runs the guest, which ends its own `timeout` seconds later at the latest.
    fn run(&self, more: &str) -> String {
        format!(
            "\"$0\" run /Image --initrd /guest/initrd -m 256M --timeout 120s \
             --append 'console=ttyS0 panic=-1 quiet cryptomgr.notests' {more}"
        )
    }

    /// Runs a script of L1's shell, in which `$0` is the command.
    fn in_l1(&self, options: &[&str], script: &str) -> Command {
        let kernel = format!("{}:/Image", PARTS.0.image.display());
        let folder = format!("{}:/guest", self.folder.path().display());
        let command = guest();
        let mut l1 = lab(&["--memory", "1536M", "--with", &kernel, "--with", &folder]);
        l1.args(["--with", &command]).args(options);
        l1.args(["--", "/bin/sh", "-c", script, &command]);
        l1
    }
}

fn said(output: &Output) -> &str {
    let said = text(&output.stdout);
    assert!(output.status.success(), "{said}");
    said
}

/// The rest of the lines that begin so.
fn line<'t>(said: &'t str, begin: &str) -> Vec<&'t str> {
    said.lines()
        .filter_map(|line| line.strip_prefix(begin))
        .map(str::trim_end)
        .collect()
}

/// Whether each guest came to its first program within a minute of its own clock.
fn is_up_in_time(said: &str, guests: usize) -> bool {
    let up = line(said, "up: ");
    up.len() == guests && up.iter().all(|up| up.parse::<f64>().unwrap() < 60.0)
}

#[test]
#[ignore = "boots the lab: cargo xtask lab --arch aarch64"]
fn linux_drives_our_devices_by_each_way_of_notification_and_interrupt() {
    let disk: Vec<u8> = (0..2_u32 << 20)
        .map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8)
        .collect();
    let script = "
echo cpus: $(nproc)
echo rng: $(cat /sys/class/misc/hw_random/rng_current)
echo random: $(dd if=/dev/hwrng bs=64 count=1 2>/dev/null | wc -c) bytes
echo disk: $(sha256sum < /dev/vda)
mke2fs /dev/vda >/dev/null && mount -t ext2 /dev/vda /mnt
dd if=/dev/hwrng of=/mnt/file bs=512 count=64 2>/dev/null
echo written: $(md5sum < /mnt/file)
umount /mnt && mount -t ext2 -o ro /dev/vda /mnt
echo read: $(md5sum < /mnt/file)
grep virtio /proc/interrupts | while read line number rest; do echo line: $number $rest; done
test $(nproc) = 1 && end poweroff || end reboot
";
    let files = Files::new(script, &disk);
    let devices =
        |way: &str| format!("--device virtio-rng{way} --device virtio-blk,file=/guest/disk{way}");
    let ways = ["", ",notify=exit,interrupt=call,packed=on"];
    let [one, two] = [(1, ways[0]), (2, ways[1])]
        .map(|(smp, way)| files.run(&format!("--smp {smp} {}", devices(way))));
    // Every guest finds the disk as the host made it.
    let script = format!("cp /guest/disk /disk && {one} && cp /disk /guest/disk && {two}");
    let output = output(&mut files.in_l1(&[], &script));
    let said = said(&output);
    assert!(is_up_in_time(said, 2), "{said}");
    assert_eq!(line(said, "cpus: "), ["1", "2"], "{said}");
    assert_eq!(line(said, "rng: "), ["virtio_rng.0"; 2], "{said}");
    assert_eq!(line(said, "random: "), ["64 bytes"; 2], "{said}");
    let sum = format!("{} -", hash_bytes(&disk));
    assert_eq!(line(said, "disk: "), [sum.as_str(); 2], "{said}");
    let (written, read) = (line(said, "written: "), line(said, "read: "));
    assert_eq!((written.len(), &written), (2, &read), "{said}");
    // Each device has interrupted, by its line: a count for each CPU, then the controller.
    let has_interrupted = |line: &&&str| {
        let mut counts = line.split(' ').map_while(|count| count.parse::<u64>().ok());
        line.contains("Edge") && counts.any(|count| count > 0)
    };
    let lines = line(said, "line: ");
    assert_eq!(lines.iter().filter(has_interrupted).count(), 4, "{said}");
}

#[test]
#[ignore = "boots the lab: cargo xtask lab --arch aarch64"]
fn linux_has_a_network_with_a_gicv2_by_each_way_of_notification_and_interrupt() {
    const HOST: &str = "10.7.0.1";
    let bytes: Vec<u8> = (0..200_000_u32)
        .map(|at| at.wrapping_mul(2_654_435_761).to_le_bytes()[3])
        .collect();
    let script = format!(
        "
echo gic: $(grep -m 1 -o -e GIC-0 -e GICv3 /proc/interrupts)
ifconfig eth0 10.7.0.2 up
ping -c 3 -W 10 {HOST} | grep received
nc {HOST} 5000 >/file
echo down: $(sha256sum </file)
nc {HOST} 5001 </file
echo errors: $(cat /sys/class/net/eth0/statistics/*_errors | grep -v 0)
end poweroff
"
    );
    let files = Files::new(&script, &[]);
    fs::write(files.folder.path().join("file"), &bytes).unwrap();
    let run = |smp: u32, way: &str| {
        let run = files.run(&format!("--smp {smp} --device virtio-net,tap=tap0{way}"));
        format!(
            "nc -l -p 5000 </guest/file & nc -l -p 5001 <&3 >/received & {run} && wait; \
             echo received: $(sha256sum </received)"
        )
    };
    let runs = [
        run(2, ""),
        run(1, ",notify=exit,interrupt=call"),
        run(2, ",vhost=on"),
        run(1, ",vhost=on,notify=exit,interrupt=call,offload=off"),
    ];
    let script = format!(
        "tunctl -t tap0 && ifconfig tap0 {HOST} up
         # A netcat whose input ends shuts the connection down.
         mkfifo /open && exec 3<>/open
         {}",
        runs.join("\n")
    );
    let modules = ["--module", "tun", "--module", "vhost_net"];
    let options = [&["--gic", "2"][..], &modules].concat();
    let output = output(&mut files.in_l1(&options, &script));
    let said = said(&output);
    assert!(is_up_in_time(said, 4), "{said}");
    assert_eq!(line(said, "gic: "), ["GIC-0"; 4], "{said}");
    let pings = "3 packets transmitted, 3 packets received, 0% packet loss";
    assert_eq!(line(said, pings).len(), 4, "{said}");
    let sum = format!("{} -", hash_bytes(&bytes));
    assert_eq!(line(said, "down: "), [sum.as_str(); 4], "{said}");
    assert_eq!(line(said, "received: "), [sum.as_str(); 4], "{said}");
    assert_eq!(line(said, "errors:"), [""; 4], "{said}");
}

#[test]
#[ignore = "boots the lab: cargo xtask lab --arch aarch64"]
fn programs_of_a_guest_and_its_host_talk_over_vsock_in_both_directions() {
    let talk = example("vsock");
    let script = "
/bin/talk listen 7000 &
echo to the host: $(echo sent-by-the-guest | /bin/talk connect 2 7001)
wait
end poweroff
";
    let files = Files::with_program(script, &[], Some((&talk, "/bin/talk")));
    let runs = [(1, ""), (2, ",notify=exit,interrupt=call")].map(|(smp, way)| {
        let run = files.run(&format!("--smp {smp} --device virtio-vsock,cid=3{way}"));
        format!(
            "/talk listen 7001 & {{ echo sent-by-the-host | /talk connect 3 7000; }} >/answer & \
             {run}; wait; echo to the guest: $(cat /answer)"
        )
    });
    let with = format!("{}:/talk", talk.display());
    let options = ["--module", "vhost_vsock", "--with", &with];
    let output = output(&mut files.in_l1(&options, &runs.join("\n")));
    let said = said(&output);
    let to_host = line(said, "to the host: ");
    assert_eq!(to_host, ["tseug-eht-yb-tnes"; 2], "{said}");
    let to_guest = line(said, "to the guest: ");
    assert_eq!(to_guest, ["tsoh-eht-yb-tnes"; 2], "{said}");
}

#[test]
#[ignore = "boots the lab: cargo xtask lab --arch aarch64"]
fn standard_input_is_the_console_of_linux_and_a_time_limit_ends_all_vcpus() {
    let files = Files::new("exec sh\n", &[]);
    let run = files.run("");
    let limited = "\"$0\" run /Image --smp 2 --timeout 1s --append quiet";
    let typed = "echo typed: $((6 * 7))\nreboot -f\n";
    fs::write(files.folder.path().join("keys"), typed).unwrap();
    let script = format!(
        "{run} </guest/keys || exit
         {limited} </dev/null >/dev/null 2>/error; echo limited: $? $(cat /error)"
    );
    let output = output(&mut files.in_l1(&[], &script));
    let said = said(&output);
    assert_eq!(line(said, "typed: "), ["42"], "{said}");
    let limited = ["124 error: the guest did not end within 1s"];
    assert_eq!(line(said, "limited: "), limited, "{said}");
}

#[test]
#[ignore = "boots the lab: cargo xtask lab --arch aarch64"]
fn what_an_arm64_machine_cannot_run_is_refused_with_what_to_do() {
    let files = Files::new("", &[]);
    let other = format!("{}:/other", env!("CARGO_BIN_EXE_vmbell"));
    let script = r#"
        gzip -c /Image >/packed
        "$0" run /other 2>&1; echo $?
        "$0" run /packed 2>&1; echo $?
        "$0" run /Image --initrd /Image -m 64M 2>&1; echo $?
        "$0" run /Image -m 32M 2>&1; echo $?
        "$0" run /Image --device vfio-pci,host=0000:00:01.0 2>&1; echo $?
        "$0" run /Image --cpu -x2apic 2>&1; echo $?
        "$0" run /Image --pv-eoi off 2>&1; echo $?
        "$0" run /Image --dump-dtb /tree 2>&1; echo $?
        "$0" run /Image --smp 9 2>&1; echo $?
    "#;
    let output = output(&mut files.in_l1(&["--gic", "2", "--with", &other], script));
    let said = said(&output);
    let mut lines = said.lines();
    for part in [
        "/other is for another CPU, and this is an arm64 machine",
        "/packed is compressed: give the Image, which `gzip -dc <'/packed' >Image` makes of it",
        "give the machine more memory (--memory)",
        "/Image needs ",
        "an arm64 guest can have those of virtio and vhost-user-blk",
        "--cpu hides features that CPUID shows",
        "--pv-eoi hides a feature that only x86-64's guests have",
        "--dump-dtb writes the nodes of vfio-platform devices",
        "at most 8 with a GICv2",
    ] {
        let (error, status) = (lines.next().unwrap(), lines.next().unwrap());
        assert!(
            error.starts_with("error: ") && error.contains(part),
            "{said}"
        );
        assert_eq!(status, "126", "{said}");
    }
}
