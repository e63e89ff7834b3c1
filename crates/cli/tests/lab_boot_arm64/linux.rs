//! Linux as the guest of `vmbell run` on arm64, and other features of the command there.

use vmbell_lab::cache::hash_bytes;

use super::boots::bodies::{types, vsock};
use super::boots::linux::{Guest, KERNEL, bytes, line};
use super::boots::session::Session;

/// An L1 with a GICv3.
static L1: Session = Session::new(&["--vcpus", "1", "--module", "vhost_vsock"], Vec::new);

#[test]
#[ignore = "boots the lab: cargo xtask lab --arch aarch64"]
fn each_command_works_there_or_says_what_arm64_lacks() {
    let script = r#"
        "$VMBELL" list | grep -c -e '^mmio-no-eventfd' -e '^floor-kvm-run-mmio' -e portio
        "$VMBELL" probe | grep -m 1 -o 'usermode backend is for x86-64, but this is aarch64'
        "$VMBELL" bench eoi --deterministic -n 20 | grep -e '^interrupts taken' -e 'no paravirtual EOI' | tr -s ' '
        "$VMBELL" bench rings --one-thread --bufs 100 --runs 2 --quiet >/dev/null; echo rings $?
        "$VMBELL" run no-image 2>&1; echo $?
        "$VMBELL" bench floor-kvm-run-pio 2>&1; echo $?
        "$VMBELL" bench --backend usermode mmio-no-eventfd 2>&1; echo $?
    "#;
    let ran = L1.run(script, &[]);
    let expected = "2\nusermode backend is for x86-64, but this is aarch64\ninterrupts taken 20\n\
        pv-eoi-off: arm64 has no paravirtual EOI, so there is nothing to compare with\nrings 0\n\
        error: no-image: cannot read the image: No such file or directory (os error 2)\n126\n\
        error: 'floor-kvm-run-pio' needs port I/O, which this architecture does not have: 'mmio-*' rings there \
        (see `vmbell list`)\n2\n\
        error: the usermode backend cannot run a guest here: the usermode backend is for x86-64, but this is \
        aarch64\n1\n";
    assert_eq!(ran.said(), expected);
}

#[test]
#[ignore = "boots the lab: cargo xtask lab --arch aarch64"]
fn linux_drives_our_devices_by_each_way_of_notification_and_interrupt() {
    let disk = bytes(1 << 20);
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
    let ways = [(1, ""), (2, ",notify=exit,interrupt=call,packed=on")];
    // Every guest finds the disk as the host made it.
    let runs = ways.map(|(vcpus, way)| {
        let run = Guest::command(&format!(
            "--vcpus {vcpus} --device virtio-rng{way} --device virtio-blk,file=used{way}"
        ));
        format!("cp disk used && {run}")
    });
    let guest = Guest::new(script).with_file("disk", disk.as_slice());
    let ran = guest.in_l1(&L1, &runs.join(" && "));
    let said = ran.said();
    assert_eq!(line(said, "cpus: "), ["1", "2"], "{said}");
    assert_eq!(line(said, "rng: "), ["virtio_rng.0"; 2], "{said}");
    assert_eq!(line(said, "random: "), ["64 bytes"; 2], "{said}");
    let sum = format!("{} -", hash_bytes(&disk));
    assert_eq!(line(said, "disk: "), [sum.as_str(); 2], "{said}");
    let (written, read) = (line(said, "written: "), line(said, "read: "));
    assert_eq!((written.len(), &written), (2, &read), "{said}");
    // Each device has interrupted through its line: a count for each CPU, then the controller.
    let has_interrupted = |line: &&&str| {
        let mut counts = line.split(' ').map_while(|count| count.parse::<u64>().ok());
        line.contains("Edge") && counts.any(|count| count > 0)
    };
    let lines = line(said, "line: ");
    assert_eq!(lines.iter().filter(has_interrupted).count(), 4, "{said}");
}

#[test]
#[ignore = "boots the lab: cargo xtask lab --arch aarch64"]
fn programs_of_a_guest_and_its_host_talk_over_vsock_in_both_directions() {
    vsock(&L1, &[(1, ""), (2, ",notify=exit,interrupt=call")]);
}

#[test]
#[ignore = "boots the lab: cargo xtask lab --arch aarch64"]
fn standard_input_is_the_console_of_linux_and_a_time_limit_ends_all_vcpus() {
    types(&L1, "ttyS0", "");
    let script = format!(
        "$VMBELL run {KERNEL} --vcpus 2 --timeout 1s --append quiet </dev/null >/dev/null 2>error
         echo limited: $? $(cat error)"
    );
    let ran = L1.run(&script, &[]);
    let said = ran.said();
    let limited = ["124 error: the guest did not end within 1s"];
    assert_eq!(line(said, "limited: "), limited, "{said}");
}

#[test]
#[ignore = "boots the lab: cargo xtask lab --arch aarch64"]
fn a_guest_with_el2_is_refused_where_the_cpu_has_no_nested_virtualization() {
    let script = format!("$VMBELL run {KERNEL} --virtualization 2>&1; echo status: $?");
    let ran = L1.run(&script, &[]);
    let said = ran.said();
    let why = "kvm gives its guests no EL2, which needs a CPU with FEAT_NV2, Linux 6.16";
    assert!(said.contains(why), "{said}");
    assert_eq!(line(said, "status: "), ["126"], "{said}");
}
