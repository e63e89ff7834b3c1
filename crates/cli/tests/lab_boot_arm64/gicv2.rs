//! What `vmbell run` does and refuses on an arm64 L1 with a GICv2.

use super::boots::bodies::network;
use super::boots::linux::line;
use super::boots::session::Session;

/// An L1 with a GICv2, and a program for another architecture.
static L1: Session = Session::new(
    &[
        "--vcpus",
        "1",
        "--gic",
        "2",
        "--module",
        "tun",
        "--module",
        "vhost_net",
    ],
    || {
        let other = env!("CARGO_BIN_EXE_vmbell");
        vec![format!("{other}:/bin/other-cpu")]
    },
);

#[test]
#[ignore = "boots the lab: cargo xtask lab --arch aarch64"]
fn linux_has_a_network_with_a_gicv2_by_each_way_of_notification_and_interrupt() {
    let ways = [
        (2, ""),
        (1, ",notify=exit,interrupt=call"),
        (2, ",vhost=on"),
        (1, ",vhost=on,notify=exit,interrupt=call,offload=off"),
    ];
    let gic = "echo gic: $(grep -m 1 -o -e GIC-0 -e GICv3 /proc/interrupts)";
    let said = network(&L1, &ways, 200_000, gic);
    assert_eq!(line(&said, "gic: "), ["GIC-0"; 4], "{said}");
}

#[test]
#[ignore = "boots the lab: cargo xtask lab --arch aarch64"]
fn what_an_arm64_machine_cannot_run_is_refused_with_what_to_do() {
    let script = r#"
        gzip -c /guest/kernel >packed
        "$VMBELL" run /bin/other-cpu 2>&1; echo $?
        "$VMBELL" run packed 2>&1; echo $?
        "$VMBELL" run /guest/kernel --initrd /guest/kernel -m 64M 2>&1; echo $?
        "$VMBELL" run /guest/kernel -m 32M 2>&1; echo $?
        "$VMBELL" run /guest/kernel --device vfio-pci,host=0000:00:01.0 2>&1; echo $?
        "$VMBELL" run /guest/kernel --cpu-features -x2apic 2>&1; echo $?
        "$VMBELL" run /guest/kernel --pv-eoi off 2>&1; echo $?
        "$VMBELL" run /guest/kernel --machine micro 2>&1; echo $?
        "$VMBELL" run /guest/kernel --dump-dtb /tree 2>&1; echo $?
        "$VMBELL" run /guest/kernel --vcpus 9 2>&1; echo $?
    "#;
    let ran = L1.run(script, &[]);
    let said = ran.said();
    let mut lines = said.lines();
    for part in [
        "/bin/other-cpu: built for another CPU, but this is an arm64 machine",
        "packed: compressed, which this machine does not boot: give the file that `gzip -dc <'packed' >Image` makes",
        "give the machine more memory (--memory)",
        "/guest/kernel: needs ",
        "an arm64 guest can have chr-testdev, those of virtio, and vhost-user-blk",
        "--cpu-features hides CPUID features",
        "--pv-eoi is for x86-64 guests only",
        "--machine micro is for x86-64 guests only",
        "--dump-dtb writes the nodes of vfio-platform devices",
        "vcpus is 9, must be from 1 to 8",
    ] {
        let (error, status) = (lines.next().unwrap(), lines.next().unwrap());
        assert!(
            error.starts_with("error: ") && error.contains(part),
            "{said}"
        );
        assert_eq!(status, "126", "{said}");
    }
}
