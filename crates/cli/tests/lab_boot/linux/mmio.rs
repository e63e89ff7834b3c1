//! Devices on MMIO registers, which the DSDT names.

use super::*;

#[test]
#[ignore = "boots the lab: cargo xtask lab"]
fn linux_drives_devices_on_mmio_registers_by_each_way_of_notification_and_interrupt() {
    let disk: Vec<u8> = (0..1_u32 << 20)
        .map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8)
        .collect();
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
ping -c 3 -W 10 10.7.0.1 | grep received
for device in /sys/bus/virtio/devices/*; do readlink -f $device; done | grep -o LNRO0005:0.
grep virtio /proc/interrupts | while read line number rest; do echo line: $number $rest; done
stty -echo
poweroff -f
";
    let files = Files::new(script, &disk);
    let runs = [(1, ""), (2, ",notify=exit,interrupt=call,packed=on")].map(|(smp, way)| {
        let way = format!(",transport=mmio{way}");
        files.run(&format!(
            "--smp {smp} --device virtio-rng{way} --device virtio-blk,file=/guest/disk{way} \
             --device virtio-net,tap=tap0{way}"
        ))
    });
    let script = format!(
        "busybox() {{ /guest/busybox \"$@\"; }}
         busybox tunctl -t tap0 && busybox ifconfig tap0 10.7.0.1 up
         cp /guest/disk /disk && {} && cp /disk /guest/disk && {}",
        runs[0], runs[1]
    );
    fs::copy(&PARTS.1, files.folder.path().join("busybox")).unwrap();
    let options = ["--module", "tun", "--with", "/bin/cp"];
    let output = output(&mut files.in_l1(&options, &script));
    let said = said(&output);
    assert_eq!(line(said, "cpus: "), ["1", "2"], "{said}");
    assert_eq!(line(said, "random: "), ["64 bytes"; 2], "{said}");
    let sum = format!("{} -", hash_bytes(&disk));
    assert_eq!(line(said, "disk: "), [sum.as_str(); 2], "{said}");
    let (written, read) = (line(said, "written: "), line(said, "read: "));
    assert_eq!((written.len(), &written), (2, &read), "{said}");
    let pings = "3 packets transmitted, 3 packets received, 0% packet loss";
    assert_eq!(line(said, pings).len(), 2, "{said}");
    assert_eq!(line(said, "LNRO0005:").len(), 6, "{said}");
    // Each device has interrupted, by its pin: a count for each CPU, then the controller.
    let has_interrupted = |line: &&&str| {
        let mut counts = line.split(' ').map_while(|count| count.parse::<u64>().ok());
        line.contains("IO-APIC") && line.contains("edge") && counts.any(|count| count > 0)
    };
    let lines = line(said, "line: ");
    assert_eq!(lines.iter().filter(has_interrupted).count(), 6, "{said}");
}

#[test]
#[ignore = "boots the lab: cargo xtask lab"]
fn device_that_has_no_pin_left_is_refused_with_the_transport_that_needs_none() {
    let files = Files::new("poweroff -f\n", &[]);
    let many = files.run(&"--device virtio-rng,transport=mmio ".repeat(10));
    let script = format!("{many} 2>&1; echo status: $?");
    let output = output(&mut files.in_l1(&[], &script));
    let said = said(&output);
    assert_eq!(line(said, "status: "), ["126"], "{said}");
    let pins = "no free pins left for a virtio-rng on MMIO: put it on PCI (transport=pci)";
    assert!(said.contains(pins), "{said}");
}
