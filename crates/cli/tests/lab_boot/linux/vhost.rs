//! Devices whose queues the kernel's workers serve.

use std::path::Path;

use super::super::example;
use super::*;

#[test]
#[ignore = "boots the lab: cargo xtask lab"]
fn programs_of_a_guest_and_its_host_talk_over_vsock_in_both_directions() {
    let talk = example("vsock");
    let script = format!(
        "
{talk} listen 7000 &
echo to the host: $(echo sent-by-the-guest | {talk} connect 2 7001)
wait
poweroff -f
"
    );
    let files = Files::with_programs(&script, &[], &[Path::new(&talk)]);
    let ways = [
        (1, ""),
        (2, ",notify=exit,interrupt=call"),
        (1, ",transport=mmio"),
    ];
    let runs = ways.map(|(smp, way)| {
        let run = files.run(&format!("--smp {smp} --device virtio-vsock,cid=3{way}"));
        // The guest's console has the output while it runs.
        format!(
            "{talk} listen 7001 & \
             {{ echo sent-by-the-host | {talk} connect 3 7000; }} >/answer & \
             {run}; wait; echo to the guest: $(cat /answer)"
        )
    });
    let script = runs.join("\n");
    let options = [
        "--module",
        "vhost_vsock",
        "--with",
        &talk,
        "--with",
        "/bin/cat",
    ];
    let output = output(&mut files.in_l1(&options, &script));
    let said = said(&output);
    assert_eq!(
        line(said, "to the host: "),
        ["tseug-eht-yb-tnes"; 3],
        "{said}"
    );
    assert_eq!(
        line(said, "to the guest: "),
        ["tsoh-eht-yb-tnes"; 3],
        "{said}"
    );
}

#[test]
#[ignore = "boots the lab: cargo xtask lab"]
fn worker_that_the_kernel_does_not_have_is_said_to_be_missing_with_what_brings_it() {
    let files = Files::new("poweroff -f\n", &[]);
    let net = files.run("--device virtio-net,tap=tap0,vhost=on");
    let vsock = files.run("--device virtio-vsock,cid=3");
    let script = format!("{net} 2>&1; echo status: $?; {vsock} 2>&1; echo status: $?");
    let output = output(&mut files.in_l1(&["--module", "tun"], &script));
    let said = said(&output);
    assert_eq!(line(said, "status: "), ["126"; 2], "{said}");
    for module in ["vhost_net", "vhost_vsock"] {
        assert!(
            said.contains(&format!("`modprobe {module}` brings it")),
            "{said}"
        );
    }
}
