//! Linux as the guest of `vmbell run`: the kernel of L1 boots once more, with busybox, and drives our devices.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::LazyLock;

use vmbell_lab::arch::Arch;
use vmbell_lab::board::X86_64;
use vmbell_lab::cache::{Cache, hash_bytes};
use vmbell_lab::initramfs::{Archive, Closure, LibrarySearch};
use vmbell_lab::kernel::ModuleTree;
use vmbell_lab::{Kernel, Progress, Provision};

use super::{lab, output, text};

#[path = "linux/assigned.rs"]
mod assigned;
#[path = "linux/kicks.rs"]
mod kicks;
#[path = "linux/mmio.rs"]
mod mmio;
#[path = "linux/net.rs"]
mod net;
#[path = "linux/trouble.rs"]
mod trouble;
#[path = "linux/vhost.rs"]
mod vhost;
#[path = "linux/vhost_user.rs"]
mod vhost_user;

const SECTOR: usize = 512;

/// The kernel and the only program of the guests, which the lab downloads.
static PARTS: LazyLock<(Kernel, PathBuf)> = LazyLock::new(|| {
    let cache = Cache::user().unwrap();
    let host = Arch::host().unwrap();
    let mut provision = Provision::new(host, &X86_64, &cache, Progress::new(true));
    let kernel = provision.kernel(None).unwrap();
    let shell = provision.shell(false).unwrap().unwrap();
    provision.finish().unwrap();
    (kernel, shell)
});

/// What every guest's first program does before the test's part. A power-off waits for the console's output, into which the
/// kernel would write its own last words.
const BEGIN: &str = "#!/bin/sh
/bin/busybox --install -s /bin
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs dev /dev
poweroff() { stty -echo && /bin/busybox poweroff $1; }
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

/// A first file system with the drivers, a script as its first program, and further programs in their folders.
fn initrd(script: &str, programs: &[&Path]) -> Vec<u8> {
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
    let arch = Arch::host().unwrap();
    for program in programs {
        let needs = Closure::of(program, arch.name, &LibrarySearch::host(arch.triplet)).unwrap();
        for file in needs.files.iter().map(PathBuf::as_path).chain([*program]) {
            archive.host_path(file).unwrap();
        }
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
        Self::with_programs(script, disk, &[])
    }

    fn with_programs(script: &str, disk: &[u8], programs: &[&Path]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("initrd"), initrd(script, programs)).unwrap();
        fs::write(folder.path().join("disk"), disk).unwrap();
        Self { folder }
    }

    /// The command that runs the guest, which ends its own `timeout` seconds later at the latest.
    fn run(&self, more: &str) -> String {
        let vmbell = env!("CARGO_BIN_EXE_vmbell");
        // QEMU 7.2's SVM switches vector state off at exits: docs/linux.md. Tests of the kernel's algorithms would
        // keep its CPU busy for a second.
        format!(
            "{vmbell} run /vmlinux --initrd /guest/initrd -m 256M --timeout 120s \
             --append 'console=ttyS0 panic=-1 quiet noxsave cryptomgr.notests' {more}"
        )
    }

    /// Runs a script of L1's shell.
    fn in_l1(&self, options: &[&str], script: &str) -> Command {
        let kernel = format!("{}:/vmlinux", PARTS.0.image.display());
        let guest = format!("{}:/guest", self.folder.path().display());
        let mut command = lab(&["--memory", "1536M", "--with", &kernel, "--with", &guest]);
        command.args(["--with", env!("CARGO_BIN_EXE_vmbell")]);
        command.args(options).args(["--", "/bin/sh", "-c", script]);
        command
    }
}

fn said(output: &Output) -> &str {
    let said = text(&output.stdout);
    assert!(output.status.success(), "{said}");
    said
}

/// The rest of the line that begins so.
fn line<'t>(said: &'t str, begin: &str) -> Vec<&'t str> {
    said.lines()
        .filter_map(|line| line.strip_prefix(begin))
        .map(str::trim_end)
        .collect()
}

#[test]
#[ignore = "boots the lab: cargo xtask lab"]
fn linux_drives_our_devices_by_each_way_of_notification_and_interrupt() {
    let disk: Vec<u8> = (0..4_u32 << 20)
        .map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8)
        .collect();
    let script = "
echo cpus: $(nproc)
# Bit 34 of each device's features: packed rings.
echo packed: $(cut -c 35 /sys/bus/virtio/devices/*/features)
echo rng: $(cat /sys/class/misc/hw_random/rng_current)
echo random: $(dd if=/dev/hwrng bs=64 count=1 2>/dev/null | wc -c) bytes
echo disk: $(sha256sum < /dev/vda)
mke2fs /dev/vda >/dev/null && mount -t ext2 /dev/vda /mnt
dd if=/dev/hwrng of=/mnt/file bs=512 count=64 2>/dev/null
echo written: $(md5sum < /mnt/file)
umount /mnt && mount -t ext2 -o ro /dev/vda /mnt
echo read: $(md5sum < /mnt/file)
# Both consoles go to one place: the other one is empty first.
stty -echo && echo console: ready >/dev/hvc0
grep virtio /proc/interrupts | while read line number rest; do echo vector: $number $rest; done
poweroff -f
";
    let files = Files::new(script, &disk);
    let devices = |way: &str| {
        format!(
            "--device virtio-rng{way} --device virtio-blk,file=/guest/disk{way} --device virtio-console{way}"
        )
    };
    // Every guest finds the disk as the host made it. Two CPUs and packed rings have those on MMIO registers, and the
    // console that is typed into.
    let runs = [
        (1, ""),
        (2, ",notify=exit,interrupt=call"),
        (1, ",packed=on"),
    ]
    .map(|(smp, way)| {
        let run = files.run(&format!("--smp {smp} {}", devices(way)));
        format!("cp /disk /guest/disk && {run}")
    });
    let script = format!("cp /guest/disk /disk && {}", runs.join(" && "));
    let output = output(&mut files.in_l1(&["--with", "/bin/cp"], &script));
    let said = said(&output);
    assert_eq!(line(said, "cpus: "), ["1", "2", "1"], "{said}");
    assert_eq!(
        line(said, "packed: "),
        ["0 0 0", "0 0 0", "1 1 1"],
        "{said}"
    );
    assert_eq!(line(said, "rng: "), ["virtio_rng.0"; 3], "{said}");
    assert_eq!(line(said, "random: "), ["64 bytes"; 3], "{said}");
    let sum = format!("{} -", hash_bytes(&disk));
    assert_eq!(line(said, "disk: "), [sum.as_str(); 3], "{said}");
    let (written, read) = (line(said, "written: "), line(said, "read: "));
    assert_eq!((written.len(), &written), (3, &read), "{said}");
    assert_eq!(line(said, "console: "), ["ready"; 3], "{said}");
    // Each device's queue has interrupted, by MSI-X: a count for each CPU, then the kind.
    let has_interrupted = |vector: &&&str| {
        let mut counts = vector
            .split(' ')
            .map_while(|count| count.parse::<u64>().ok());
        vector.contains("PCI-MSIX") && counts.any(|count| count > 0)
    };
    let vectors = line(said, "vector: ");
    assert_eq!(vectors.iter().filter(has_interrupted).count(), 9, "{said}");
}

/// A guest's shell reads what is typed, as much as a line has room for.
fn types(console: &str, device: &str) {
    let files = Files::new(
        &format!("exec sh </dev/{console} >/dev/{console} 2>&1\n"),
        &[],
    );
    let keys = format!("echo {} $((6 * 7))\nreboot -f\n", "long-".repeat(60));
    fs::write(files.folder.path().join("keys"), &keys).unwrap();
    let keys = fs::File::open(files.folder.path().join("keys")).unwrap();
    let script = files.run(device);
    let output = output(files.in_l1(&["-i"], &script).stdin(Stdio::from(keys)));
    let said = said(&output);
    let answer = format!("{} 42", "long-".repeat(60));
    assert!(said.lines().any(|line| line.trim_end() == answer), "{said}");
}

#[test]
#[ignore = "boots the lab: cargo xtask lab"]
fn standard_input_is_the_console_of_linux_and_a_reboot_ends_the_run() {
    types("ttyS0", "");
}

#[test]
#[ignore = "boots the lab: cargo xtask lab"]
fn standard_input_is_a_virtio_console_of_linux_if_it_has_one() {
    types("hvc0", "--smp 2 --device virtio-console,packed=on");
}

#[test]
#[ignore = "boots the lab: cargo xtask lab"]
fn what_was_flushed_is_on_the_disk_after_vmbell_was_killed() {
    let script = "
number=0
while :; do
    printf '%08d' $number | dd of=/dev/vda bs=512 seek=$number count=1 conv=sync,notrunc,fsync 2>/dev/null || exit
    echo flushed: $number
    number=$((number + 1))
done
";
    let files = Files::new(script, &vec![0; 4 << 20]);
    let run = files.run("--device virtio-blk,file=/guest/disk");
    let script = format!(
        "{run} >/out/console </dev/null & pid=$!
         until grep -q 'flushed: 50' /out/console; do sleep 0.2; kill -0 $pid || exit 1; done
         kill -KILL $pid; wait $pid; cp /guest/disk /out/disk"
    );
    let out = files.folder.path().join("out");
    let tools = ["grep", "sleep", "cp"].map(|tool| format!("/bin/{tool}"));
    let mut options = vec!["--out", out.to_str().unwrap()];
    options.extend(tools.iter().flat_map(|tool| ["--with", tool]));
    let output = output(&mut files.in_l1(&options, &script));
    said(&output);
    let console = fs::read_to_string(out.join("console")).unwrap();
    let last = line(&console, "flushed: ")
        .last()
        .and_then(|number| number.parse().ok());
    let last: usize = last.unwrap_or_else(|| panic!("{console}"));
    assert!(last >= 50, "{console}");
    let disk = fs::read(out.join("disk")).unwrap();
    for number in 0..=last {
        let sector = &disk[number * SECTOR..][..8];
        assert_eq!(text(sector), format!("{number:08}"));
    }
}

#[test]
#[ignore = "boots the lab: cargo xtask lab"]
fn a_signal_and_ctrl_a_x_end_the_run_and_the_terminal_is_as_before() {
    let files = Files::new("exec sh\n", &[]);
    // Inside of script(1), which makes a terminal, standard input is what the user types.
    fs::write(files.folder.path().join("keys"), "echo typed\r\u{1}x").unwrap();
    let run = files.run("");
    let inside = format!(
        "stty -a >/before; {run}; echo typed status: $?; stty -a >/after; cmp /before /after && echo same: terminal"
    );
    fs::write(files.folder.path().join("inside"), inside).unwrap();
    let script = format!(
        "{run} </dev/null & pid=$!; sleep 1; kill -TERM $pid; wait $pid; echo signal status: $?
         script -qec '/bin/sh /guest/inside' /dev/null </guest/keys"
    );
    let tools = ["/usr/bin/script", "/bin/stty", "/usr/bin/cmp", "/bin/sleep"];
    let mut options = vec!["--env", "SHELL=/bin/sh"];
    options.extend(tools.iter().flat_map(|tool| ["--with", tool]));
    let output = output(&mut files.in_l1(&options, &script));
    let said = said(&output);
    assert_eq!(line(said, "signal status: "), ["143"], "{said}");
    assert!(said.contains("typed status: 130"), "{said}");
    assert!(said.contains("same: terminal"), "{said}");
}

#[test]
#[ignore = "boots the lab: cargo xtask lab"]
fn linux_has_a_network_by_each_way_of_notification_and_interrupt() {
    const HOST: &str = "10.7.0.1";
    let bytes: Vec<u8> = (0..600_000_u32)
        .map(|at| at.wrapping_mul(2_654_435_761).to_le_bytes()[3])
        .collect();
    let script = format!(
        "
ifconfig eth0 10.7.0.2 up
ping -c 3 -W 10 {HOST} | grep received
nc {HOST} 5000 >/file
echo down: $(sha256sum </file)
nc {HOST} 5001 </file
echo errors: $(cat /sys/class/net/eth0/statistics/*_errors | grep -v 0)
poweroff -f
"
    );
    let files = Files::new(&script, &[]);
    fs::write(files.folder.path().join("file"), &bytes).unwrap();
    let run = |(smp, way)| files.run(&format!("--smp {smp} --device virtio-net,tap=tap0{way}"));
    // The two that are left of one and two CPUs, split and packed rings are those on MMIO registers; vhost-net has
    // split rings only.
    let ways = [
        (2, ""),
        (1, ",notify=exit,interrupt=call,packed=on,offload=off"),
        (1, ",vhost=on"),
        (2, ",vhost=on,notify=exit,interrupt=call,offload=off"),
        (2, ",vhost=on,transport=mmio"),
    ];
    let runs = ways.map(run).map(|run| {
        format!(
            "busybox nc -l -p 5000 </guest/file & busybox nc -l -p 5001 <&3 >/up & {run} && wait; \
             echo up: $(busybox sha256sum </up)"
        )
    });
    let script = format!(
        "busybox() {{ /guest/busybox \"$@\"; }}
         busybox tunctl -t tap0 && busybox ifconfig tap0 {HOST} up
         # A netcat whose input ends shuts the connection down.
         busybox mkfifo /open && exec 3<>/open
         {}",
        runs.join("\n")
    );
    fs::copy(&PARTS.1, files.folder.path().join("busybox")).unwrap();
    let output = output(&mut files.in_l1(&["--module", "tun", "--module", "vhost_net"], &script));
    let said = said(&output);
    let pings = "3 packets transmitted, 3 packets received, 0% packet loss";
    assert_eq!(line(said, pings).len(), 5, "{said}");
    let sum = format!("{} -", hash_bytes(&bytes));
    assert_eq!(line(said, "down: "), [sum.as_str(); 5], "{said}");
    assert_eq!(line(said, "up: "), [sum.as_str(); 5], "{said}");
    assert_eq!(line(said, "errors:"), [""; 5], "{said}");
}
