//! The live screen of `vmbell top` in a terminal of L1, and what it records meanwhile.

use std::fs;
use std::process::Command;

use super::boots::host_vmbell;
use super::top::{in_l1, said};
use kit::terminal::{self, ENTER, LEAVE};

#[test]
#[ignore = "boots the lab: cargo xtask lab"]
fn the_live_screen_shows_two_guests_and_gives_the_terminal_back() {
    let script = r#"
both() { "$vmbell" bench --backend kvm --only mmio-$1-eventfd --runs 1 --ops 10000000 >/dev/null 2>&1 & }
both no; other=$!
both wildcard; this=$!
echo this: $this; echo other: $other
kill -0 $this $other || fail a guest ended
mkfifo /keys
cat >/screen.sh <<END
stty rows 24 cols 80; stty -g >/out/before
TERM=xterm "$vmbell" top -d 1 --with reasons --record /out/top.jsonl --export-openmetrics /out/top.prom; echo status: \$?
stty -g >/out/after
END
SHELL=/bin/sh script --quiet --flush --command "/bin/sh /screen.sh" /out/screen </keys >/out/script 2>&1 & screen=$!
exec 5>/keys
shown() { until grep -qs "$1" /out/screen; do kill -0 $screen || fail the screen ended without $1: $(cat /out/script); sleep 0.2; done; }
shown RINGS/s
tables() { grep -c '"vms"' /out/top.jsonl; }
# Waits until the screen has answered all keys, which it does between two tables, and has counted for a while since.
answered() { local n; n=$(($(tables) + 3)); until [ $(tables) -ge $n ]; do kill -0 $screen || fail the screen ended; sleep 0.2; done; }
# Opens the VM that runs of each.
for pid in $this $other; do printf "/$pid"'\n\n' >&5; answered; printf '\033' >&5; answered; done
printf q >&5
wait $screen
kill -KILL $this $other; wait
"#;
    let (shown, folder) = in_l1(&[], script);
    let read = |name: &str| fs::read_to_string(folder.path().join(name)).unwrap();
    let screen = read("screen");
    let (before, after) = screen.rsplit_once(LEAVE).unwrap();
    assert!(after.contains("status: 0"), "{after}");
    assert_eq!(read("before"), read("after"));
    let lines = terminal::lines(before.split_once(ENTER).unwrap().1);
    assert!(lines[0].starts_with("vmbell top  "), "{lines:#?}");
    // VMM/s and RINGS/s of a process's busiest VM, and the address that it uses.
    let counts = |name: &str| {
        let pid = said(&shown, name);
        let at = lines
            .iter()
            .position(|line| line.trim_start().starts_with(pid));
        let vm = &lines[at.unwrap()..];
        let cells: Vec<&str> = vm[0].split_whitespace().collect();
        let address = vm.iter().find(|line| line.contains(" mmio 0xd0000050 "));
        assert!(address.is_some(), "{lines:#?}");
        let of_vcpu = |line: &String| line.starts_with("     0 ") && line.contains(" npf ");
        assert!(vm[1..].iter().any(of_vcpu), "{lines:#?}");
        [cells[5] != "0", cells[6] != "0"]
    };
    assert_eq!(counts("this: "), [false, true], "{lines:#?}");
    assert_eq!(counts("other: "), [true, false], "{lines:#?}");

    // The metrics and the recording's page have the same VMs.
    let metrics = read("top.prom");
    let page = folder.path().join("page.html");
    let mut report = Command::new(host_vmbell());
    report.arg("report").arg(folder.path().join("top.jsonl"));
    assert!(report.arg("-o").arg(page).status().unwrap().success());
    let page = read("page.html");
    for name in ["this: ", "other: "] {
        let pid = said(&shown, name);
        let family = match name {
            "this: " => "ioeventfds",
            _ => "exits_to_vmm",
        };
        let mut samples = metrics.lines().filter(|line| {
            line.starts_with(&format!("vmbell_vm_address_{family}_total{{pid=\"{pid}\""))
                && line.contains("space=\"mmio\",address=\"0xd0000050\"}")
        });
        let (_, count) = samples.next().unwrap().rsplit_once(' ').unwrap();
        assert!(count.parse::<u64>().unwrap() > 1000, "{metrics}");
        assert!(page.contains(&format!("vmbell ({pid})</h2>")), "{page}");
    }
    assert!(page.contains(">mmio 0xd0000050</th>"), "{page}");
}
