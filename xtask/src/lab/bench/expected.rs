//! What the report of all rows has to say, per architecture.

/// A row, and how many exits per operation reach the VMM.
pub(super) type ExpectedExits = (&'static str, f64);

/// What a report has to say.
#[derive(Debug)]
pub(crate) struct Expected {
    /// The device that L1 has.
    pub(super) device: &'static str,
    /// Rows with at least one exit per operation.
    pub(super) rows: &'static [ExpectedExits],
    /// Rows with an assigned device and at least one exit per operation. Interrupts of the host do not count as exits,
    /// so there may be none.
    pub(super) assigned: &'static [ExpectedExits],
    /// Rows, and the most exits per operation that each may have.
    pub(super) most: &'static [(&'static str, f64)],
    /// The row of a device model, and the row of a bare `KVM_RUN` loop with the same exit.
    pub(super) floors: &'static [(&'static str, &'static str)],
    /// Two rows, and the highest allowed ratio of the first row's instructions to the second's.
    pub(super) ratios: &'static [(&'static str, &'static str, f64)],
    /// Valid reasons to skip a row.
    pub(super) skips: &'static [&'static str],
}

/// By how many instructions a row may exceed its floor. The goal is 250; with a different compiler, both numbers change
/// by a few per cent.
pub(super) const OVERHEAD: f64 = 350.0;

/// A doorbell costs the same as a bare ioeventfd.
const IOEVENTFDS: [(&str, &str, f64); 2] = [
    ("mmio-wildcard-eventfd", "floor-kvm-ioeventfd", 1.02),
    ("mmio-datamatch-eventfd", "floor-kvm-ioeventfd", 1.02),
];

/// What cannot be measured with a single CPU or on KVM.
const SKIPS: &[&str] = &[
    "needs two CPUs",
    "ioeventfds on ports and memory only",
    "without the module kvm_ioeventfd",
    "no other way to a device of a vmm",
];

/// passthrough-intx-userspace is left out. It has three exits or a few more: at the handler's first access, the VMM
/// unmasks a line that is still up, and the latency of its thread decides whether the guest takes a spurious interrupt.
pub(in crate::lab) const X86_64: Expected = Expected {
    device: "edu",
    rows: &[
        ("portio-no-eventfd", 1.0),
        ("portio-wildcard-eventfd", 0.0),
        ("portio-datamatch-eventfd", 0.0),
        ("portio-any-length-eventfd", 0.0),
        ("mmio-no-eventfd", 1.0),
        ("mmio-wildcard-eventfd", 0.0),
        ("mmio-datamatch-eventfd", 0.0),
        ("mmio-any-length-eventfd", 0.0),
    ],
    assigned: &[
        ("passthrough-intx-irqfd", 0.0),
        ("passthrough-msi-irqfd", 0.0),
        ("passthrough-msi-userspace", 0.0),
        ("passthrough-mmio-mapped", 0.0),
        ("passthrough-mmio-mapped+store", 0.0),
        ("passthrough-mmio-emulated", 1.0),
        ("passthrough-mmio-emulated+store", 1.0),
    ],
    most: &[],
    floors: &[
        ("portio-no-eventfd", "floor-kvm-run-pio"),
        ("mmio-no-eventfd", "floor-kvm-run-mmio"),
    ],
    ratios: &IOEVENTFDS,
    skips: SKIPS,
};

/// platform-irq-userspace-unmask is left out: its exits depend on how soon the VMM's thread unmasks the line.
pub(in crate::lab) const AARCH64: Expected = Expected {
    device: "pl031",
    rows: &[
        ("mmio-no-eventfd", 1.0),
        ("mmio-wildcard-eventfd", 0.0),
        ("mmio-datamatch-eventfd", 0.0),
        ("mmio-any-length-eventfd", 0.0),
    ],
    assigned: &[
        ("platform-irq-resample", 0.0),
        ("platform-irq-forwarded", 0.0),
    ],
    most: &[("platform-irq-forwarded", 1.10)],
    floors: &[("mmio-no-eventfd", "floor-kvm-run-mmio")],
    ratios: &[
        IOEVENTFDS[0],
        IOEVENTFDS[1],
        ("platform-irq-forwarded", "platform-irq-resample", 0.5),
    ],
    skips: SKIPS,
};
