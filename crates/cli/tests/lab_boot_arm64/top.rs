//! `vmbell top` with Linux guests on arm64: its counts match those of the guests and of KVM.

use serde_json::{Value, json};

use super::boots::linux::{Guest, bytes, line};
use super::boots::session::Session;
use super::boots::text;
use kit::terminal::{self, ENTER, LEAVE};

static L1: Session = Session::new(&["--vcpus", "1"], Vec::new);

/// The register through which the guests notify the disk.
const NOTIFY: u64 = 0x0a00_0050;

/// The first shared interrupt of a GIC, which is GSI 0.
const FIRST: u64 = 32;

/// The guest prints its disk's requests, interrupts and interrupt number, reads the disk when told to, and prints them
/// again.
const GUEST: &str = "
say() { echo $1: $(awk '{ print $1 + $5 }' /sys/block/vda/stat) $(awk '/virtio/ { print $2, $4 }' /proc/interrupts); }
say before; read word
for page in $(seq 0 2 199); do dd if=/dev/vda of=/dev/null bs=4096 skip=$page count=1 2>/dev/null; done
say after; read word
end poweroff
";

/// The counts of a process's VM: notifications by exits and by ioeventfds, interrupts by lines and by the irqfd of a
/// GSI, and all ioeventfds.
fn counts(line: &Value, pid: u64, gsi: u64) -> [u64; 5] {
    let mut vms = line["vms"].as_array().unwrap().iter();
    let vm = vms.find(|vm| vm["pid"] == pid).unwrap();
    // The GIC ends interrupts without KVM.
    assert!(vm["eois"].is_null() && vm["pv_eois"].is_null(), "{vm}");
    let mut addresses = vm["addresses"].as_array().unwrap().iter();
    let notify = addresses.find(|one| one["address"] == NOTIFY);
    let mut irqfds = vm["irqfds_by_gsi"].as_array().unwrap().iter();
    let irqfd = irqfds.find(|irqfd| irqfd["gsi"] == gsi);
    let count = |of: &Value, name: &str| of[name].as_u64().unwrap();
    [
        notify.map_or(0, |notify| count(notify, "exits_to_vmm")),
        notify.map_or(0, |notify| count(notify, "ioeventfds")),
        count(vm, "lines_raised"),
        irqfd.map_or(0, |irqfd| count(irqfd, "signals")),
        count(vm, "ioeventfds"),
    ]
}

#[test]
#[ignore = "boots the lab: cargo xtask lab --arch aarch64"]
fn top_counts_the_requests_and_the_interrupts_that_a_guest_counts() {
    let runs = ["", ",notify=exit,interrupt=call"].map(|way| {
        let run = Guest::command(&format!("--device virtio-blk,file=disk{way}"));
        format!(
            "rm -f console
             {run} <keys >console & pid=$!
             exec 3>keys
             for at in before after; do
                 until grep -qs ^$at: console; do sleep 0.2; kill -0 $pid || exit 1; done
                 # What was counted before is in the second line from now.
                 n=$(($(wc -l <out/lines) + 2)); until [ $(wc -l <out/lines) -ge $n ]; do sleep 0.1; done
                 echo $at line: $pid $n $(cat /sys/kernel/debug/kvm/*/mmio_exit_kernel)
                 echo >&3
             done
             wait $pid; exec 3>&-
             cat console"
        )
    });
    let script = format!(
        "mkfifo keys
         $VMBELL top --json -d 500ms >out/lines & top=$!
         until [ -s out/lines ]; do sleep 0.1; done
         {}
         kill $top; wait $top
         for with in reasons kernel; do $VMBELL top --once --with $with 2>&1; echo status: $?; done",
        runs.join("\n")
    );
    let guest = Guest::new(GUEST).with_file("disk", bytes(1 << 20));
    let ran = guest.in_l1(&L1, &script);
    let said = ran.said();
    let lines = ran.left("lines");
    let lines: Vec<Value> = text(&lines)
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    for line in &lines {
        assert_eq!(line["lost"], 0, "{line}");
        assert_eq!(line["bpf"]["missing"], json!([]), "{line}");
    }
    let numbers = |begin: &str, guest: usize| -> Vec<u64> {
        let words = line(said, begin)[guest].split(' ');
        words.map(|word| word.parse().unwrap()).collect()
    };
    for guest in [0, 1] {
        let [before, after] = ["before", "after"].map(|at| {
            let own = numbers(&format!("{at}: "), guest);
            let [pid, line, in_kernel] = numbers(&format!("{at} line: "), guest)[..] else {
                panic!("{said}");
            };
            let line = &lines[usize::try_from(line).unwrap() - 1];
            (counts(line, pid, own[2] - FIRST), own, in_kernel)
        });
        let [requests, interrupts] = [0, 1].map(|index| after.1[index] - before.1[index]);
        assert!(requests >= 100, "{said}");
        let counted = [0, 1, 2, 3, 4].map(|index| after.0[index] - before.0[index]);
        // Accesses that KVM handles itself.
        let in_kernel = after.2 - before.2;
        let expected = match guest {
            // A request that the device's thread finds before it sleeps again needs no notification.
            0 => [0, counted[1].clamp(1, requests), 0, interrupts, in_kernel],
            _ => [requests, 0, interrupts, 0, in_kernel],
        };
        assert_eq!(counted, expected, "{said}");
    }
    assert_eq!(line(said, "status: "), ["69", "69"], "{said}");
    for metric in ["exits by reason", "accesses that KVM answers"] {
        let error = format!("{metric} cannot be counted on aarch64");
        assert!(said.contains(&error), "{said}");
    }
}

#[test]
#[ignore = "boots the lab: cargo xtask lab --arch aarch64"]
fn the_live_screen_shows_a_guest_in_eighty_columns_and_gives_the_terminal_back() {
    let guest = "
echo ready
while :; do dd if=/dev/vda of=/dev/null bs=4096 count=1 2>/dev/null; done
";
    let screen = "#!/bin/sh
stty rows 24 cols 80; stty -g >out/before
TERM=xterm $VMBELL top -d 1 --record out/record; echo status: $?
stty -g >out/after
";
    // The telnet server gives its program a terminal; netcat types, and keeps what is shown.
    let script = format!(
        "chmod 755 screen; mkfifo keys
         {} </dev/null >console & pid=$!
         until grep -q ready console; do sleep 0.2; kill -0 $pid || exit 1; done
         telnetd -F -b 127.0.0.1 -p 2323 -l /part/screen & telnetd=$!
         # Port 2323.
         until grep -q :0913 /proc/net/tcp; do sleep 0.2; kill -0 $telnetd || exit 1; done
         nc 127.0.0.1 2323 <keys >out/screen & screen=$!
         exec 3>keys
         shown() {{ until grep -qs \"$1\" out/screen; do kill -0 $screen && sleep 0.2 || exit 1; done; }}
         shown RINGS/s
         echo >&3
         shown 0xa000050
         # What is shown then is of a whole interval.
         tables() {{ grep -c '\"vms\"' out/record; }}
         n=$(($(tables) + 2)); until [ $(tables) -ge $n ]; do kill -0 $screen && sleep 0.2 || exit 1; done
         printf q >&3
         shown status:
         exec 3>&-; kill $telnetd $screen
         kill -KILL $pid
         echo pid: $pid",
        Guest::command("--device virtio-blk,file=disk")
    );
    let guest = Guest::new(guest)
        .with_file("disk", bytes(1 << 16))
        .with_file("screen", screen);
    let ran = guest.in_l1(&L1, &script);
    let pid = line(ran.said(), "pid: ")[0];
    // The server's first bytes are telnet options.
    let screen = ran.left("screen");
    let screen = String::from_utf8_lossy(&screen);
    let (before, after) = screen.rsplit_once(LEAVE).unwrap();
    assert!(after.contains("status: 0"), "{after}");
    assert_eq!(ran.left("before"), ran.left("after"));
    let lines = terminal::lines(before.split_once(ENTER).unwrap().1);
    assert!(lines[0].starts_with("vmbell top  1 VM  "), "{lines:#?}");
    assert!(lines[23].starts_with("F1 Help "), "{lines:#?}");
    let found = |begin: &str| {
        let line = lines
            .iter()
            .find(|line| line.trim_start().starts_with(begin));
        line.unwrap_or_else(|| panic!("{begin}: {lines:#?}"))
    };
    assert!(found(pid).contains(" vmbell "), "{lines:#?}");
    let cells: Vec<&str> = found("mmio 0xa000050 ").split_whitespace().collect();
    assert_eq!((cells[2], cells[3]), ("w4", "0"), "{lines:#?}");
    assert_ne!(cells[4], "0", "{lines:#?}");
}
