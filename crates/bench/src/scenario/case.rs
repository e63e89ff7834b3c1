//! One scenario with doorbells: how the guest rings, what listens at the address, and a variant.

use super::path::{RingConsumer, RingInstruction};
use crate::select::HAS_PORTS;
use vmbell_hypervisor::{Capability, PatchMode, SpinPolicy};

/// What is special about a scenario, shown by a suffix of its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PathVariant {
    Plain,
    Int3,
    Jmp,
    Spin,
}

/// The parts of a scenario.
#[derive(Clone, Copy, Debug)]
pub(super) struct PathCase {
    pub(super) path: RingInstruction,
    pub(super) bell: RingConsumer,
    pub(super) variant: PathVariant,
    /// Whether the guest waits until each notification is answered.
    pub(super) notify: bool,
}

impl PathVariant {
    const fn suffix(self) -> &'static str {
        match self {
            Self::Plain => "",
            Self::Int3 => "+int3",
            Self::Jmp => "+jmp",
            Self::Spin => "+spin",
        }
    }

    pub(super) const fn patch(self) -> PatchMode {
        match self {
            Self::Int3 => PatchMode::Int3,
            Self::Jmp => PatchMode::Jmp,
            Self::Plain | Self::Spin => PatchMode::Off,
        }
    }

    /// The spin policy of a scenario: the variant's own policy, or `otherwise`, the policy of the command.
    pub(super) const fn spin(self, otherwise: SpinPolicy) -> SpinPolicy {
        match self {
            Self::Spin => SpinPolicy::Spin,
            _ => otherwise,
        }
    }

    pub(super) const fn description(self) -> &'static str {
        match self {
            Self::Plain => "",
            Self::Int3 => ", the site patched to int3",
            Self::Jmp => ", the site patched to a jump: no trap",
            Self::Spin => ", the VMM spinning on its CPU",
        }
    }
}

impl PathCase {
    /// The scenario's name: `{path}-{bell}`, with the variant's suffix.
    pub(super) fn name(self) -> String {
        let prefix = if self.notify { "notify-" } else { "" };
        let bell = match self.bell {
            RingConsumer::Polled | RingConsumer::Below => String::new(),
            bell => format!("-{}", bell.name()),
        };
        let (path, suffix) = (self.path.name(), self.variant.suffix());
        format!("{prefix}{path}{bell}{suffix}")
    }

    /// This path's plain device model case, which the path's other cases are compared with.
    pub(super) const fn plain(self) -> Self {
        Self {
            bell: RingConsumer::DeviceModel,
            variant: PathVariant::Plain,
            ..self
        }
    }

    /// Whether one side waits without sleeping: a VMM that spins, or a guest that polls until it is answered.
    pub(super) fn needs_two_cpus(self) -> bool {
        self.variant == PathVariant::Spin || (self.notify && self.bell != RingConsumer::DeviceModel)
    }

    /// The capability without which a backend does not list this case, if it needs one.
    pub(super) const fn extra(self) -> Option<Capability> {
        match (self.variant, self.path, self.bell) {
            (PathVariant::Int3, ..) => Some(Capability::Int3Patching),
            (PathVariant::Jmp, ..) => Some(Capability::JmpPatching),
            (PathVariant::Spin, ..) => Some(Capability::SpinPolicy),
            (_, RingInstruction::KernelPort, _) => Some(Capability::KernelPort),
            (_, RingInstruction::Vmcall, _) if HAS_PORTS => Some(Capability::KernelPort),
            (_, RingInstruction::Vmcall, _) => Some(Capability::HypercallInstruction),
            (_, _, RingConsumer::Coalesced) => Some(Capability::CoalescedMmio),
            _ => None,
        }
    }
}
