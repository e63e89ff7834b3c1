//! Following `vmbell top`'s advice to use PV EOI for a Linux guest under QEMU.

use super::super::boots::linux::Guest;
use super::super::boots::text;
use super::super::top::advised;
use super::{L1, in_qemu, qemu};

/// Each wait ends with a timer interrupt, and the guest does hardly anything else. Even on a busy host, EOIs must take
/// a hundredth of a core, below which there is no advice.
const GUEST: &str = "
mkfifo /fifo
exec 3<>/fifo
echo ready
waits() { while :; do read -t 0.001 -u 3 line; done; }
for each in 1 2 3 4 5 6; do waits & done
wait
";

#[test]
#[ignore = "boots the lab: cargo xtask lab"]
fn pv_eoi_is_advised_to_qemu_without_it_and_not_to_one_that_has_it() {
    // Under load the host may deliver fewer interrupts at first.
    let runs = [("off", "host,-kvm-pv-eoi", 8), ("on", "host", 1)].map(|(name, cpu, most)| {
        let run = in_qemu(&format!("-cpu {cpu}"));
        format!(
            "{run}
             for try in $(seq {most}); do
                 $VMBELL top --once -d 4 --pid $pid --costs costs >out/{name} || exit
                 grep -q 'WHAT WOULD COST LESS' out/{name} && break
             done
             kill -KILL $pid; wait $pid"
        )
    });
    let script = format!(
        "$VMBELL bench --backend kvm --runs 1 --ops 300 eoi-x2apic eoi-pv --export-json costs >/dev/null 2>&1 || exit
         {}
         true",
        runs.join("\n")
    );
    let guest = Guest::new(GUEST).with_file("qemu", qemu().script());
    let ran = guest.in_l1(&L1, &script);
    assert_eq!(ran.said(), "", "{}", ran.all());
    let [off, on] = ["off", "on"].map(|name| ran.left(name));
    let [off, on] = [&off, &on].map(|table| text(table));
    println!("{off}{on}");
    let [advice] = advised(off)[..] else {
        panic!("{off}");
    };
    assert!(advice.contains(" EOIs a second take "), "{off}");
    assert!(advised(on).is_empty(), "{on}");
}
