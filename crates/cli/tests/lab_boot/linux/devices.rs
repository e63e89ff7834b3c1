//! Linux drives our devices over each path of notification and interrupt, on PCI and with MMIO registers.

use vmbell_lab::cache::hash_bytes;

use super::super::boots::bodies::vsock;
use super::super::boots::linux::{Guest, bytes, line};
use super::L1;

/// Whether a line of /proc/interrupts has a nonzero count. The counts of each CPU come first, then the interrupt's
/// description.
fn has_come(interrupt: &str) -> bool {
    let counts = interrupt.split(' ');
    let mut counts = counts.map_while(|count| count.parse::<u64>().ok());
    counts.any(|count| count > 0)
}

#[test]
#[ignore = "boots the lab: cargo xtask lab"]
fn linux_drives_our_devices_by_each_way_of_notification_and_interrupt() {
    let disk = bytes(1 << 20);
    let script = "
echo cpus: $(nproc)
for file in physical_package_id core_id thread_siblings_list; do
    echo $file: $(cat /sys/devices/system/cpu/cpu*/topology/$file)
done
echo serial: $(cat /sys/block/vda/serial)
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
end poweroff
";
    let devices = |way: &str| {
        format!(
            "--device virtio-rng{way} --device virtio-blk,file=used,serial=disk,,1{way} \
             --device virtio-console{way}"
        )
    };
    // Every guest finds the disk as the host made it. Two CPUs and packed rings are tested with MMIO registers, and
    // with the console that is typed into. The micro model has the same devices.
    let runs = [
        (1, ""),
        (2, ",notify=exit,interrupt=call"),
        (1, ",packed=on"),
        (4, ""),
    ];
    let runs = runs.into_iter().zip(["pc", "pc", "pc", "micro"]);
    let runs: Vec<String> = runs
        .map(|((vcpus, way), machine)| {
            let options = format!("--machine {machine} --vcpus {vcpus} {}", devices(way));
            let run = Guest::command(&options);
            format!("cp disk used && {run}")
        })
        .collect();
    let guest = Guest::new(script).with_file("disk", disk.as_slice());
    let ran = guest.in_l1(&L1, &runs.join(" && "));
    let said = ran.said();
    assert_eq!(line(said, "cpus: "), ["1", "2", "1", "4"], "{said}");
    // One package with a core for each CPU.
    let packages = ["0", "0 0", "0", "0 0 0 0"];
    assert_eq!(line(said, "physical_package_id: "), packages, "{said}");
    let own = ["0", "0 1", "0", "0 1 2 3"];
    for file in ["core_id: ", "thread_siblings_list: "] {
        assert_eq!(line(said, file), own, "{said}");
    }
    assert_eq!(line(said, "serial: "), ["disk,1"; 4], "{said}");
    let packed = ["0 0 0", "0 0 0", "1 1 1", "0 0 0"];
    assert_eq!(line(said, "packed: "), packed, "{said}");
    assert_eq!(line(said, "rng: "), ["virtio_rng.0"; 4], "{said}");
    assert_eq!(line(said, "random: "), ["64 bytes"; 4], "{said}");
    let sum = format!("{} -", hash_bytes(&disk));
    assert_eq!(line(said, "disk: "), [sum.as_str(); 4], "{said}");
    let (written, read) = (line(said, "written: "), line(said, "read: "));
    assert_eq!((written.len(), &written), (4, &read), "{said}");
    assert_eq!(line(said, "console: "), ["ready"; 4], "{said}");
    // Each device's queue has interrupted through MSI-X.
    let vectors = line(said, "vector: ").into_iter();
    let vectors = vectors.filter(|vector| vector.contains("PCI-MSIX") && has_come(vector));
    assert_eq!(vectors.count(), 12, "{said}");
}

#[test]
#[ignore = "boots the lab: cargo xtask lab"]
fn linux_drives_devices_on_mmio_registers_by_each_way_of_notification_and_interrupt() {
    let disk = bytes(1 << 20);
    let script = "
echo cpus: $(nproc)
echo random: $(dd if=/dev/hwrng bs=64 count=1 2>/dev/null | wc -c) bytes
echo disk: $(sha256sum < /dev/vda)
dd if=/dev/hwrng of=/random bs=512 count=64 2>/dev/null
dd if=/random of=/dev/vda bs=512 conv=notrunc,fsync 2>/dev/null
echo written: $(md5sum < /random)
echo 3 > /proc/sys/vm/drop_caches
echo read: $(dd if=/dev/vda bs=512 count=64 2>/dev/null | md5sum)
ifconfig eth0 10.7.0.2 up
until ping -c 1 -W 5 10.7.0.1 >/dev/null; do :; done; echo ping: answered
for device in /sys/bus/virtio/devices/*; do readlink -f $device; done | grep -o LNRO0005:0.
grep virtio /proc/interrupts | while read line number rest; do echo line: $number $rest; done
end poweroff
";
    let runs = [(1, ""), (2, ",notify=exit,interrupt=call,packed=on")].map(|(vcpus, way)| {
        let way = format!(",transport=mmio{way}");
        let run = Guest::command(&format!(
            "--vcpus {vcpus} --device virtio-rng{way} --device virtio-blk,file=used{way} \
             --device virtio-net,tap=tap0{way}"
        ));
        format!("cp disk used && {run}")
    });
    let script_of_l1 = format!(
        "tunctl -t tap0 && ifconfig tap0 10.7.0.1 up\n{}",
        runs.join(" && ")
    );
    let guest = Guest::new(script).with_file("disk", disk.as_slice());
    let ran = guest.in_l1(&L1, &script_of_l1);
    let said = ran.said();
    assert_eq!(line(said, "cpus: "), ["1", "2"], "{said}");
    assert_eq!(line(said, "random: "), ["64 bytes"; 2], "{said}");
    let sum = format!("{} -", hash_bytes(&disk));
    assert_eq!(line(said, "disk: "), [sum.as_str(); 2], "{said}");
    let (written, read) = (line(said, "written: "), line(said, "read: "));
    assert_eq!((written.len(), &written), (2, &read), "{said}");
    assert_eq!(line(said, "ping: "), ["answered"; 2], "{said}");
    assert_eq!(line(said, "LNRO0005:").len(), 6, "{said}");
    // Each device has interrupted through its pin.
    let is_edge = |line: &&str| line.contains("IO-APIC") && line.contains("edge");
    let lines = line(said, "line: ").into_iter().filter(is_edge);
    assert_eq!(lines.filter(|line| has_come(line)).count(), 6, "{said}");
}

/// The capability for this access is vendor-specific (9) and of type 5 (virtio 1.3, 4.1.4.9). The driver writes the
/// offset of the number of queues in the BAR, and a length.
#[test]
#[ignore = "boots the lab: cargo xtask lab"]
fn window_of_the_micro_model_is_opened_inside_the_sandbox() {
    let script = r"
config=/sys/bus/pci/devices/0000:00:01.0/config
byte() { echo $(dd if=$config bs=1 skip=$1 count=1 2>/dev/null | od -An -tu1); }
put() { printf $2 | dd of=$config bs=1 seek=$1 conv=notrunc 2>/dev/null; }
at=$(byte 52)
until [ $(byte $at) = 9 ] && [ $(byte $((at + 3))) = 5 ]; do at=$(byte $((at + 1))); done
put $((at + 8)) '\022\0\0\0'
put $((at + 12)) '\002\0\0\0'
echo queues: $(dd if=$config bs=2 skip=$((at / 2 + 8)) count=1 2>/dev/null | od -An -tu2)
end poweroff
";
    let run = Guest::command("--machine micro --device virtio-rng");
    let script_of_l1 = format!("{run} 2>&1; echo status: $?");
    let ran = Guest::new(script).in_l1(&L1, &script_of_l1);
    let said = ran.said();
    assert_eq!(line(said, "queues: "), ["1"], "{said}");
    assert_eq!(line(said, "status: "), ["0"], "{said}");
}

#[test]
#[ignore = "boots the lab: cargo xtask lab"]
fn device_that_has_no_pin_left_is_refused_with_the_transport_that_needs_none() {
    let many = Guest::command(&"--device virtio-rng,transport=mmio ".repeat(10));
    let script = format!("{many} 2>&1; echo status: $?");
    let ran = Guest::new("end poweroff\n").in_l1(&L1, &script);
    let said = ran.said();
    assert_eq!(line(said, "status: "), ["126"], "{said}");
    let pins = "no free pins left for a virtio-rng on MMIO: put it on PCI (transport=pci)";
    assert!(said.contains(pins), "{said}");
}

#[test]
#[ignore = "boots the lab: cargo xtask lab"]
fn programs_of_a_guest_and_its_host_talk_over_vsock_in_both_directions() {
    let ways = [
        (1, ""),
        (2, ",notify=exit,interrupt=call"),
        (1, ",transport=mmio"),
    ];
    vsock(&L1, &ways);
}

#[test]
#[ignore = "boots the lab: cargo xtask lab"]
fn worker_that_the_kernel_does_not_have_is_said_to_be_missing_with_what_brings_it() {
    let net = Guest::command("--device virtio-net,tap=tap0,vhost=on");
    let vsock = Guest::command("--device virtio-vsock,cid=3");
    // Restored for later tests.
    let script = format!(
        "rmmod vhost_net && rmmod vhost_vsock || exit
         {net} 2>&1; echo status: $?; {vsock} 2>&1; echo status: $?
         for worker in net vsock; do insmod /lab/extra-modules/*vhost_$worker.ko || exit; done"
    );
    let ran = Guest::new("end poweroff\n").in_l1(&L1, &script);
    let said = ran.said();
    assert_eq!(line(said, "status: "), ["126"; 2], "{said}");
    for module in ["vhost_net", "vhost_vsock"] {
        let brings = format!("`modprobe {module}` brings it");
        assert!(said.contains(&brings), "{said}");
    }
}
