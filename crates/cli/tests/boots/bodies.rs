//! Tests of guests that are the same on both architectures, except for the paths of notification and interrupt.

use vmbell_lab::cache::hash_bytes;

use super::linux::{Guest, TALK, bytes, line};
use super::session::Session;

/// The number of the guest's CPUs, and properties of its device.
pub type Way = (u32, &'static str);

/// Programs of each guest and its host talk over vsock in both directions.
pub fn vsock(l1: &Session, ways: &[Way]) {
    let script = format!(
        "
{TALK} listen 7000 &
echo to the host: $(echo sent-by-the-guest | {TALK} connect 2 7001)
wait
end poweroff
"
    );
    let runs = ways.iter().map(|(vcpus, way)| {
        let run = Guest::command(&format!("--vcpus {vcpus} --device virtio-vsock,cid=3{way}"));
        // The guest's console shows the output while it runs.
        format!(
            "{TALK} listen 7001 & {{ echo sent-by-the-host | {TALK} connect 3 7000; }} >answer & \
             {run}; wait; echo to the guest: $(cat answer)"
        )
    });
    let script_of_l1 = runs.collect::<Vec<_>>().join("\n");
    let ran = Guest::new(&script).that_talks().in_l1(l1, &script_of_l1);
    let (said, all) = (ran.said(), ran.all());
    let to_host = vec!["tseug-eht-yb-tnes"; ways.len()];
    assert_eq!(line(said, "to the host: "), to_host, "{all}");
    let to_guest = vec!["tsoh-eht-yb-tnes"; ways.len()];
    assert_eq!(line(said, "to the guest: "), to_guest, "{all}");
}

/// Each guest sends and receives this many bytes over its network without an error. Returns the output.
pub fn network(l1: &Session, ways: &[Way], length: u32, further: &str) -> String {
    const HOST: &str = "10.7.0.1";
    let script = format!(
        "
{further}
ifconfig eth0 10.7.0.2 up
until ping -c 1 -W 5 {HOST} >/dev/null; do :; done; echo ping: answered
nc {HOST} 5000 >/file
echo down: $(sha256sum </file)
nc {HOST} 5001 </file
echo errors: $(cat /sys/class/net/eth0/statistics/*_errors | grep -v 0)
end poweroff
"
    );
    let bytes = bytes(length);
    let runs = ways.iter().map(|(vcpus, way)| {
        let run = Guest::command(&format!(
            "--vcpus {vcpus} --device virtio-net,tap=tap0{way}"
        ));
        format!(
            "nc -l -p 5000 <file & nc -l -p 5001 <&3 >up & {run} && wait; \
             echo up: $(sha256sum <up)"
        )
    });
    let script_of_l1 = format!(
        "tunctl -t tap0 && ifconfig tap0 {HOST} up
         # A netcat whose input ends shuts the connection down.
         mkfifo open && exec 3<>open
         {}",
        runs.collect::<Vec<_>>().join("\n")
    );
    let guest = Guest::new(&script).with_file("file", bytes.as_slice());
    let ran = guest.in_l1(l1, &script_of_l1);
    let (said, all, guests) = (ran.said(), ran.all(), ways.len());
    assert_eq!(line(said, "ping: "), vec!["answered"; guests], "{all}");
    let sum = format!("{} -", hash_bytes(&bytes));
    assert_eq!(line(said, "down: "), vec![&*sum; guests], "{all}");
    assert_eq!(line(said, "up: "), vec![&*sum; guests], "{all}");
    assert_eq!(line(said, "errors:"), vec![""; guests], "{all}");
    said.to_owned()
}

/// A guest's shell reads what is typed, up to the longest line. Typing starts once the shell asks for the cursor's
/// position, because the shell discards earlier input when it sets up its terminal.
pub fn types(l1: &Session, console: &str, device: &str) {
    let script = format!("exec sh </dev/{console} >/dev/{console} 2>&1\n");
    let keys = format!("echo {} $((6 * 7))\nreboot -f\n", "long-".repeat(60));
    let guest = Guest::new(&script).with_file("keys", keys);
    let run = Guest::command(device);
    let script = format!(
        "mkfifo typed; {run} <typed >console & pid=$!
         exec 3>typed
         until grep -q '\\[6n' console; do kill -0 $pid || break; sleep 0.1; done
         cat keys >&3; exec 3>&-
         wait $pid; status=$?; cat console; exit $status"
    );
    let ran = guest.in_l1(l1, &script);
    let said = ran.said();
    let answer = format!("{} 42", "long-".repeat(60));
    assert!(said.lines().any(|line| line.trim_end() == answer), "{said}");
}
