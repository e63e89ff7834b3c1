//! A network card of L1 that a Linux guest drives: vmbell assigns it, and is not involved afterwards.

use vmbell_lab::cache::hash_bytes;

use super::boots::linux::{Guest, bytes, line};
use super::boots::session::Session;

const CARD: &str = "0000:00:07.0";

/// An L1 with the card and an IOMMU.
static L1: Session = Session::new(&["--device", "virtio-net"], Vec::new);

#[test]
#[ignore = "boots the lab: cargo xtask lab"]
fn linux_drives_an_assigned_network_card_and_no_packet_leaves_for_vmbell() {
    const HOST: &str = "10.8.0.1";
    const GUEST: &str = "10.8.0.2";
    let bytes = bytes(2_000_000);
    // The guest prints nothing, because printing exits, until the host connects to port 5002.
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
end poweroff
"
    );
    let run = Guest::command(&format!("--device vfio-pci,host={CARD}"));
    // L1's interface is moved into the script's network.
    let script = format!(
        "nsenter -t 1 -n ip link set eth0 netns $$ || exit
         # How many events there were, with those that the buffer lost.
         count() {{
             cat /sys/kernel/tracing/instances/$1/per_cpu/cpu*/stats |
                 awk '/^(entries|overrun):/ {{ sum += $2 }} END {{ print sum }}'
         }}
         for event in userspace_exit exit; do
             mkdir /sys/kernel/tracing/instances/$event
             echo 1 >/sys/kernel/tracing/instances/$event/events/kvm/kvm_$event/enable
         done
         # A netcat whose input ends shuts the connection down.
         mkfifo open && exec 3<>open
         send() {{ until nc {GUEST} $1 2>/dev/null; do kill -0 $pid || exit 1; sleep 0.1; done; }}
         {run} & pid=$!
         ifconfig eth0 {HOST} up
         until ping -c 1 -W 1 {GUEST} >/dev/null; do kill -0 $pid || exit 1; done
         before=\"$(count userspace_exit) $(count exit)\"
         send 5000 <file
         send 5001 <&3 >up
         echo exits: $before $(count userspace_exit) $(count exit)
         send 5002 </dev/null
         wait $pid && echo up: $(sha256sum <up)"
    );
    let guest = Guest::new(&guest).with_file("file", bytes.as_slice());
    let ran = guest.in_l1(&L1, &script);
    let said = ran.said();
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
    // The guest left for the host's interrupts and when it was idle, but hardly ever for vmbell.
    assert!(all > 0 && user * 100 <= packets, "{said}");
    for queue in ["input", "output"] {
        let vector = line(said, "vector: ")
            .into_iter()
            .find(|vector| vector.contains("PCI-MSIX") && vector.contains(queue));
        let count = vector.and_then(|vector| vector.split(' ').next()?.parse().ok());
        assert!(count > Some(10_u64), "{queue}: {said}");
    }
}
