//! What the diagram shows: an arrow for each path's row, in groups from top to bottom.

use LegKind::{Answered, Sent, Uncounted};
use Party::{Guest, Kernel, Memory, Vmm};

/// Where an arrow begins or ends, from left to right.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Party {
    Guest,
    /// Memory that the guest shares with its host.
    Memory,
    /// KVM, or what plays its part on another backend.
    Kernel,
    Vmm,
}

/// How far control moves away from the guest during an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reach {
    /// The vCPU returns to the VMM.
    Vmm,
    /// The vCPU leaves the guest at most for the kernel.
    Kernel,
    /// The vCPU stays in the guest.
    Guest,
}

/// What a leg means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LegKind {
    /// There and back: the vCPU waits for the answer.
    Answered,
    /// One way.
    Sent,
    /// One way, after the operation: the row does not count it.
    Uncounted,
}

/// A straight part of an arrow.
#[derive(Clone, Copy, Debug)]
pub(super) struct Leg {
    /// The leg's line within the arrow: 0, or 1 for the way back.
    pub(super) line: u32,
    pub(super) from: Party,
    pub(super) to: Party,
    pub(super) kind: LegKind,
}

/// A path between guest and host.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arrow {
    /// The row that measures the path.
    pub(super) row: &'static str,
    /// The text next to the guest, which says what the path is.
    pub(super) label: &'static str,
    /// The text next to the VMM, which says what happens there.
    pub(super) far: &'static str,
    /// The labels of the way back, next to the guest and next to the VMM.
    pub(super) back: [&'static str; 2],
    pub(super) reach: Reach,
    pub(super) legs: &'static [Leg],
}

impl Arrow {
    /// How many lines the arrow has.
    pub(super) fn lines(&self) -> u32 {
        let lines = self.legs.iter().map(|leg| leg.line + 1);
        lines.max().unwrap_or_default()
    }
}

/// Arrows that answer the same question.
#[derive(Clone, Copy, Debug)]
pub(super) struct ArrowGroup {
    /// What the arrows do, in two lines.
    pub(super) caption: [&'static str; 2],
    pub(super) arrows: &'static [Arrow],
}

const fn leg(line: u32, from: Party, to: Party, kind: LegKind) -> Leg {
    Leg {
        line,
        from,
        to,
        kind,
    }
}

/// An exit that the VMM answers.
const EXIT: &[Leg] = &[leg(0, Guest, Vmm, Answered)];
/// An exit that the kernel answers.
const LIGHT_EXIT: &[Leg] = &[leg(0, Guest, Kernel, Answered)];
/// A write that signals an eventfd that a thread of the VMM waits for.
const DOORBELL: &[Leg] = &[
    leg(0, Guest, Kernel, Answered),
    leg(0, Kernel, Vmm, Uncounted),
];
const IRQFD: &[Leg] = &[leg(0, Vmm, Kernel, Sent), leg(0, Kernel, Guest, Sent)];

/// An interrupt through a level-triggered line, whose EOI is reported to the VMM by a resamplefd.
const fn resampled(kind: LegKind) -> [Leg; 4] {
    [
        leg(0, Vmm, Kernel, Sent),
        leg(0, Kernel, Guest, Sent),
        leg(1, Guest, Kernel, kind),
        leg(1, Kernel, Vmm, kind),
    ]
}

const NO_WAY_BACK: [&str; 2] = ["", ""];
const RESAMPLED: [&str; 2] = ["EOI lowers the line", "resamplefd"];

/// All that the diagram can show.
pub(super) const GROUPS: [ArrowGroup; 4] = [
    ArrowGroup {
        caption: ["notify", "the host"],
        arrows: &[
            Arrow {
                row: "portio-no-eventfd",
                label: "port write",
                far: "device model answers",
                back: NO_WAY_BACK,
                reach: Reach::Vmm,
                legs: EXIT,
            },
            Arrow {
                row: "mmio-no-eventfd",
                label: "MMIO write",
                far: "device model answers",
                back: NO_WAY_BACK,
                reach: Reach::Vmm,
                legs: EXIT,
            },
            Arrow {
                row: "portio-wildcard-eventfd",
                label: "port write, ioeventfd",
                far: "eventfd, to a waiting thread",
                back: NO_WAY_BACK,
                reach: Reach::Kernel,
                legs: DOORBELL,
            },
            Arrow {
                row: "mmio-wildcard-eventfd",
                label: "MMIO write, ioeventfd",
                far: "eventfd, to a waiting thread",
                back: NO_WAY_BACK,
                reach: Reach::Kernel,
                legs: DOORBELL,
            },
            Arrow {
                row: "vmcall",
                label: "hypercall",
                far: "",
                back: NO_WAY_BACK,
                reach: Reach::Kernel,
                legs: LIGHT_EXIT,
            },
        ],
    },
    ArrowGroup {
        caption: ["interrupt", "the guest"],
        arrows: &[
            Arrow {
                row: "irqfd-edge-to-running",
                label: "edge, vCPU running",
                far: "irqfd",
                back: NO_WAY_BACK,
                reach: Reach::Kernel,
                legs: IRQFD,
            },
            Arrow {
                row: "irqfd-edge-to-halted",
                label: "edge, vCPU halted",
                far: "irqfd",
                back: NO_WAY_BACK,
                reach: Reach::Kernel,
                legs: IRQFD,
            },
            Arrow {
                row: "irqfd-level-to-halted",
                label: "level, vCPU halted",
                far: "irqfd",
                back: RESAMPLED,
                reach: Reach::Kernel,
                legs: &resampled(Uncounted),
            },
            Arrow {
                row: "level-resample",
                label: "level with its EOI, vCPU running",
                far: "irqfd",
                back: RESAMPLED,
                reach: Reach::Kernel,
                legs: &resampled(Sent),
            },
        ],
    },
    ArrowGroup {
        caption: ["end an", "interrupt"],
        arrows: &[
            Arrow {
                row: "eoi-x2apic",
                label: "EOI by x2APIC",
                far: "",
                back: NO_WAY_BACK,
                reach: Reach::Kernel,
                legs: LIGHT_EXIT,
            },
            Arrow {
                row: "eoi-pv",
                label: "PV EOI: a bit in memory",
                far: "",
                back: NO_WAY_BACK,
                reach: Reach::Guest,
                legs: &[leg(0, Guest, Memory, Sent)],
            },
        ],
    },
    ArrowGroup {
        caption: ["virtqueue", "round trip"],
        arrows: &[
            Arrow {
                row: "virtqueue-roundtrip-device-model",
                label: "by exits",
                far: "device model serves the queue",
                back: NO_WAY_BACK,
                reach: Reach::Vmm,
                legs: EXIT,
            },
            Arrow {
                row: "virtqueue-roundtrip-ioeventfd-irqfd",
                label: "by ioeventfd and irqfd",
                far: "ioeventfd wakes a thread",
                back: ["interrupt", "irqfd"],
                reach: Reach::Kernel,
                legs: &[
                    leg(0, Guest, Kernel, Sent),
                    leg(0, Kernel, Vmm, Sent),
                    leg(1, Vmm, Kernel, Sent),
                    leg(1, Kernel, Guest, Sent),
                ],
            },
        ],
    },
];
