//! Rows whose mechanism determines the number of exits.

use serde_json::Value;

use super::vmms::row;

/// The VMM, or "" for all; the row; all exits per operation, and those to the VMM. The first match counts.
const EXITS: &[(&str, &str, f64, f64)] = &[
    // Handled by KVM.
    ("", "cpuid", 1.0, 0.0),
    ("", "hypercall", 1.0, 0.0),
    ("", "msr-read", 1.0, 0.0),
    ("", "xapic-eoi", 1.0, 0.0),
    ("", "x2apic-eoi", 1.0, 0.0),
    // QEMU's pc and q35 make KVM report each access to the task priority (KVM_TPR_ACCESS_REPORTING), for their vAPIC
    // ROM.
    ("no-ioeventfd", "xapic-tpr-write", 1.0, 1.0),
    ("no-ioeventfd", "x2apic-tpr-write", 1.0, 1.0),
    ("qemu-pc", "xapic-tpr-write", 1.0, 1.0),
    ("qemu-q35", "xapic-tpr-write", 1.0, 1.0),
    ("qemu-pc", "x2apic-tpr-write", 1.0, 1.0),
    ("qemu-q35", "x2apic-tpr-write", 1.0, 1.0),
    ("", "xapic-tpr-write", 1.0, 0.0),
    ("", "x2apic-tpr-write", 1.0, 0.0),
    // The write that sends the IPI, and the EOI. With PV EOI, the EOI is a bit in memory and does not exit.
    ("", "xapic-self-ipi", 2.0, 0.0),
    ("", "x2apic-self-ipi", 2.0, 0.0),
    ("", "xapic-self-ipi-pv-eoi", 1.0, 0.0),
    ("", "x2apic-self-ipi-pv-eoi", 1.0, 0.0),
    // The timer and the EOI; the interrupt itself is the host's.
    ("", "timer", 2.0, 0.0),
    // Handled by the VMM's process.
    ("", "serial-lsr", 1.0, 1.0),
    ("", "pm-timer-read", 1.0, 1.0),
    ("", "rtc-read", 1.0, 1.0),
    ("", "pio-unassigned", 1.0, 1.0),
    ("", "mmio-write-unassigned", 1.0, 1.0),
    ("", "mmio-read-unassigned", 1.0, 1.0),
    // No ioeventfd at the notification's address.
    ("no-ioeventfd", "virtio-rng-notify", 1.0, 1.0),
    ("no-ioeventfd", "virtio-rng-notify-idle", 1.0, 1.0),
    ("no-ioeventfd", "virtio-rng-round-trip-polled", 1.0, 1.0),
    // A row with an ioeventfd.
    ("", "virtio-rng-notify", 1.0, 0.0),
    ("", "virtio-rng-notify-idle", 1.0, 0.0),
    ("", "virtio-rng-round-trip-polled", 1.0, 0.0),
    ("", "virtio-blk-notify", 1.0, 0.0),
    ("", "virtio-blk-notify-idle", 1.0, 0.0),
    ("", "virtio-blk-round-trip-polled", 1.0, 0.0),
];

/// The VMM; a row that takes interrupts on a halted CPU, which other interrupts may also wake; the exits to the VMM.
const TO_VMM: &[(&str, &str, f64)] = &[
    ("", "hlt-wake", 0.0),
    // An interrupt line of virtio-mmio: its two registers, and the EOI of an I/O APIC outside KVM.
    ("qemu-microvm", "virtio-rng-round-trip-interrupt", 3.0),
    ("qemu-microvm", "virtio-blk-round-trip-interrupt", 3.0),
    ("no-ioeventfd", "virtio-rng-round-trip-interrupt", 1.0),
    // An MSI.
    ("", "virtio-rng-round-trip-interrupt", 0.0),
    ("", "virtio-blk-round-trip-interrupt", 0.0),
];

/// Checks the exits of each row of a VMM for which the number is known.
pub(super) fn are_as_known(report: &Value, vmm: &str) {
    let is_it = |of: &str| of.is_empty() || of == vmm;
    let mut seen: Vec<&str> = Vec::new();
    for (of, name, total, userspace) in EXITS {
        if is_it(of) && !seen.contains(name) {
            seen.push(name);
            let row = row(report, vmm, name);
            if row["status"] == "ok" {
                let exits = [&row["exits"]["total"], &row["exits"]["userspace"]];
                let exits = exits.map(Value::as_f64);
                assert_eq!(exits, [Some(*total), Some(*userspace)], "{vmm}: {row}");
            }
        }
    }
    for (of, name, userspace) in TO_VMM {
        if is_it(of) && !seen.contains(name) {
            seen.push(name);
            let row = row(report, vmm, name);
            if row["status"] == "ok" {
                let exits = row["exits"]["userspace"].as_f64();
                assert_eq!(exits, Some(*userspace), "{vmm}: {row}");
            }
        }
    }
}
