//! A network card of L1 that Linux drives as the guest: vmbell gives it away, and is not asked again.

use std::fs;

use vmbell_lab::cache::hash_bytes;

use super::super::output;
use super::{Files, PARTS, line, said};

const CARD: &str = "0000:00:07.0";

#[test]
#[ignore = "boots the lab: cargo xtask lab"]
fn linux_drives_an_assigned_network_card_and_no_packet_leaves_for_vmbell() {
    const HOST: &str = "10.8.0.1";
    const GUEST: &str = "10.8.0.2";
    let bytes: Vec<u8> = (0..2_000_000_u32)
        .map(|at| at.wrapping_mul(2_654_435_761).to_le_bytes()[3])
        .collect();
    // The guest writes nothing to its console, which would be exits, until the host connects to port 5002.
    let guest = format!(
        "
ifconfig eth0 {GUEST} up
nc -l -p 5000 >/file
nc -l -p 5001 </file
nc -l -p 5002 </dev/null
echo card: $(cat /sys/class/net/eth0/address)
echo down: $(sha256sum </file)
echo errors: $(cat /sys/class/net/eth0/statistics/*_errors | grep -v 0)
echo packets: $(cat /sys/class/net/eth0/statistics/*_packets)
grep 'virtio.*-[io].*put' /proc/interrupts | while read line count rest; do echo vector: $count $rest; done
poweroff -f
"
    );
    let files = Files::new(&guest, &[]);
    fs::write(files.folder.path().join("file"), &bytes).unwrap();
    fs::copy(&PARTS.1, files.folder.path().join("busybox")).unwrap();
    let run = files.run(&format!("--device vfio-pci,host={CARD}"));
    let script = format!(
        "busybox() {{ /guest/busybox \"$@\"; }}
         # How many events there were, with those that the buffer lost.
         count() {{
             busybox cat /sys/kernel/tracing/instances/$1/per_cpu/cpu*/stats |
                 busybox awk '/^(entries|overrun):/ {{ sum += $2 }} END {{ print sum }}'
         }}
         for event in userspace_exit exit; do
             busybox mkdir /sys/kernel/tracing/instances/$event
             echo 1 >/sys/kernel/tracing/instances/$event/events/kvm/kvm_$event/enable
         done
         # A netcat whose input ends shuts the connection down.
         busybox mkfifo /open && exec 3<>/open
         send() {{ until busybox nc {GUEST} $1 2>/dev/null; do busybox sleep 0.1; done; }}
         {run} & pid=$!
         busybox ifconfig eth0 {HOST} up
         until busybox ping -c 1 -W 1 {GUEST} >/dev/null; do kill -0 $pid || exit 1; done
         busybox ping -c 3 -W 10 {GUEST} | busybox grep received
         before=\"$(count userspace_exit) $(count exit)\"
         send 5000 </guest/file
         send 5001 <&3 >/up
         echo exits: $before $(count userspace_exit) $(count exit)
         send 5002 </dev/null
         wait $pid && echo up: $(busybox sha256sum </up)"
    );
    let mut command = files.in_l1(&["--device", "virtio-net"], &script);
    let output = output(&mut command);
    let said = said(&output);
    let pings = "3 packets transmitted, 3 packets received, 0% packet loss";
    assert_eq!(line(said, pings).len(), 1, "{said}");
    assert_eq!(line(said, "card: "), ["52:54:00:00:00:07"], "{said}");
    let sum = format!("{} -", hash_bytes(&bytes));
    assert_eq!(line(said, "down: "), [sum.as_str()], "{said}");
    assert_eq!(line(said, "up: "), [sum.as_str()], "{said}");
    assert_eq!(line(said, "errors:"), [""], "{said}");
    let numbers = |begin: &str| -> Vec<u64> {
        let line = line(said, begin).concat();
        let words = line.split(' ').map(|word| word.parse().unwrap());
        words.collect()
    };
    let packets: u64 = numbers("packets: ").iter().sum();
    assert!(packets > 1000, "{said}");
    let [user_before, before, user_after, after] = numbers("exits: ")[..] else {
        panic!("{said}")
    };
    let (user, all) = (user_after - user_before, after - before);
    println!("{packets} packets: {all} exits, {user} of them to vmbell");
    // The guest left for the host's interrupts and when it had nothing to do, but none of that was for vmbell.
    assert!(all > 0 && user * 100 <= packets, "{said}");
    for queue in ["input", "output"] {
        let vector = line(said, "vector: ")
            .into_iter()
            .find(|vector| vector.contains("PCI-MSIX") && vector.contains(queue));
        let count = vector.and_then(|vector| vector.split(' ').next()?.parse().ok());
        assert!(count > Some(10_u64), "{queue}: {said}");
    }
}
