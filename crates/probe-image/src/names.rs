//! The names of the rows, for programs that name rows but do not have an image.

/// All names, in the order of the image's table, which does not compile with other names.
pub const ROWS: [&str; 41] = [
    "cpuid",
    "hypercall",
    "msr-read",
    "serial-lsr",
    "pit-read",
    "pm-timer-read",
    "xapic-tpr-write",
    "xapic-eoi",
    "xapic-self-ipi",
    "xapic-self-ipi-pv-eoi",
    "timer",
    "hlt-wake",
    "ipi-to-vcpu",
    "virtio-rng-notify",
    "virtio-rng-notify-idle",
    "virtio-rng-round-trip-polled",
    "virtio-rng-round-trip-interrupt",
    "virtio-rng-eoi",
    "virtio-blk-notify",
    "virtio-blk-notify-idle",
    "virtio-blk-round-trip-polled",
    "virtio-blk-round-trip-interrupt",
    "virtio-blk-eoi",
    "virtio-console-notify",
    "virtio-console-notify-idle",
    "virtio-console-round-trip-polled",
    "virtio-console-round-trip-interrupt",
    "virtio-console-eoi",
    "virtio-net-notify",
    "virtio-net-notify-idle",
    "virtio-net-round-trip-polled",
    "virtio-net-round-trip-interrupt",
    "virtio-net-eoi",
    "x2apic-tpr-write",
    "x2apic-eoi",
    "x2apic-self-ipi",
    "x2apic-self-ipi-pv-eoi",
    "rtc-read",
    "pio-unassigned",
    "mmio-write-unassigned",
    "mmio-read-unassigned",
];

/// What one operation of a row is; `None` for a name that is not in [`ROWS`].
#[cfg(not(vmbell_probe_elf))]
pub fn description(row: &str) -> Option<&'static str> {
    if !ROWS.contains(&row) {
        return None;
    }
    let of_device = |name: &str| row.starts_with("virtio-") && row.ends_with(name);
    Some(match row {
        "cpuid" | "hypercall" | "msr-read" => "the instruction",
        "serial-lsr" | "pit-read" | "rtc-read" | "pm-timer-read" => {
            "a read of the device's register"
        }
        "pio-unassigned" | "mmio-write-unassigned" | "mmio-read-unassigned" => {
            "an access that nothing answers"
        }
        "xapic-tpr-write" | "x2apic-tpr-write" => "a write to the task priority register",
        "xapic-eoi" | "x2apic-eoi" => "a write to the EOI register",
        "xapic-self-ipi" | "x2apic-self-ipi" => {
            "from the command to the return from the handler, with its EOI"
        }
        "xapic-self-ipi-pv-eoi" | "x2apic-self-ipi-pv-eoi" => {
            "from the command to the return from the handler, with KVM's bit in memory instead of the EOI"
        }
        "timer" => {
            "from setting the local APIC's timer to the nearest possible time until the return from its handler"
        }
        "hlt-wake" => {
            "from the time for which the timer was set until the handler runs, on a halted CPU"
        }
        "ipi-to-vcpu" => {
            "from the command until the first CPU sees that the handler ran on the second one, which had halted"
        }
        _ if of_device("-notify") => "the write that notifies the device of a request",
        _ if of_device("-notify-idle") => "the same write without a request",
        _ if of_device("-round-trip-polled") => {
            "from the write until the CPU, which polls, sees the answer"
        }
        _ if of_device("-round-trip-interrupt") => {
            "from the write until the CPU, which halts, has taken the interrupt and continues"
        }
        _ if of_device("-eoi") => "the end of that interrupt, within its handler",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_row_has_a_description_which_the_readme_has_too() {
        let readme = include_str!("../README.md");
        for row in ROWS {
            let text = description(row).expect(row);
            assert!(readme.contains(text), "{row}: {text}");
        }
        assert_eq!(description("virtio-gpu-notify"), None);
    }
}
