//! Advice of `vmbell top` for a guest of Linux under QEMU, which is followed: PV EOI.

use super::super::boots::linux::Guest;
use super::super::boots::text;
use super::{L1, in_qemu, qemu};

/// Each read is a request to the device, and an interrupt.
const GUEST: &str = "
echo ready
while :; do dd if=/dev/hwrng of=/dev/null bs=64 count=1000 2>/dev/null; done
";

#[test]
#[ignore = "boots the lab: cargo xtask lab"]
fn pv_eoi_is_advised_to_qemu_without_it_and_not_to_one_that_has_it() {
    let runs = [("off", "host,-kvm-pv-eoi"), ("on", "host")].map(|(name, cpu)| {
        let run = in_qemu(&format!("-cpu {cpu} -device virtio-rng-pci"));
        format!(
            "{run}
             $VMBELL top --once -d 4 --pid $pid --costs costs >out/{name} || exit
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
    let advice: Vec<&str> = off.lines().filter(|line| line.starts_with('!')).collect();
    let [advice] = advice[..] else {
        panic!("{off}");
    };
    assert!(advice.contains(" EOIs a second take "), "{off}");
    assert!(!on.lines().any(|line| line.starts_with('!')), "{on}");
}
