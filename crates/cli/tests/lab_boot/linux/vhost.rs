//! `vmbell top` with a guest of QEMU whose network card is served by the kernel (vhost-net).

use serde_json::{Value, json};

use super::super::boots::linux::{Guest, line};
use super::super::boots::text;
use super::{L1, in_qemu, qemu};

#[test]
#[ignore = "boots the lab: cargo xtask lab"]
fn top_shows_that_vhost_waits_for_the_queue_of_qemu_and_signals_its_interrupts() {
    let script = "
ifconfig eth0 10.7.0.2 up
until ping -c 1 -W 5 10.7.0.1 >/dev/null; do :; done
echo ready
while ping -c 100 -q 10.7.0.1 >/dev/null; do :; done
";
    let script_of_l1 = format!(
        "tunctl -t tap0 && ifconfig tap0 10.7.0.1 up
         {}
         echo pid: $pid
         $VMBELL top --once -d 4 --pid $pid
         $VMBELL top --json -n 1 -d 4 --pid $pid >out/lines
         echo worker: $(grep -l ^vhost-$pid$ /proc/$pid/task/*/comm)
         kill -KILL $pid; wait $pid; true",
        in_qemu(
            "-cpu host -netdev tap,id=net,ifname=tap0,script=no,downscript=no,vhost=on \
             -device virtio-net-pci,netdev=net,romfile="
        )
    );
    let guest = Guest::new(script).with_file("qemu", qemu().script());
    let ran = guest.in_l1(&L1, &script_of_l1);
    let (said, all) = (ran.said(), ran.all());
    let pid = line(said, "pid: ")[0];
    let worker = line(said, "worker: ")[0].split('/').nth(4).unwrap();
    let lines = ran.left("lines");
    let last = text(&lines).lines().last().unwrap();
    let json: Value = serde_json::from_str(last).unwrap();
    let [vm] = &json["vms"].as_array().unwrap()[..] else {
        panic!("{json}");
    };
    let worker: u32 = worker.parse().unwrap();
    // The queue to the card is notified. Neither its notifications nor its interrupts go through QEMU.
    let rings = vm["addresses"].as_array().unwrap().iter();
    let rings: Vec<&Value> = rings.filter(|one| one["ioeventfds"] != 0).collect();
    let [ring] = rings[..] else {
        panic!("{vm}");
    };
    let eventfd = &ring["eventfds"][0];
    assert_eq!(
        eventfd["waiter"],
        json!({"name": "vhost", "thread": worker})
    );
    let signallers = vm["irqfds_by_gsi"].as_array().unwrap().iter();
    let signallers: Vec<&Value> = signallers.map(|one| &one["first_signaller"]).collect();
    assert!(
        !signallers.is_empty() && signallers.iter().all(|by| **by == worker),
        "{vm}"
    );
    for shown in [
        format!(
            "virtio-pci notify?, fd {} to vhost ({worker})\n",
            eventfd["fd"]
        ),
        format!(" vhost-{pid} ({worker})\n"),
    ] {
        assert!(said.contains(&shown), "{shown}{all}");
    }
}
