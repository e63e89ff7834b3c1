//! The interrupts of a device in the guest, in the cells of their interrupt controller: Linux's bindings
//! `interrupt-controller/arm,gic-v3.yaml` and `interrupts.txt`.

use super::error::NodeError;
use super::property;

/// Shared peripheral interrupts of a GIC: 32 to 1019 are theirs.
const GIC_SPIS: u32 = 988;
/// The first cell of a GIC's interrupt: a shared one.
const GIC_SPI: u32 = 0;

/// When a line interrupts; the value is the flag of the bindings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Trigger {
    /// At the rising edge.
    EdgeRising = 1,
    /// While it is high.
    LevelHigh = 4,
}

impl Trigger {
    /// The trigger of a line whose `VFIO_IRQ_INFO_AUTOMASKED` is as given: VFIO masks level-triggered lines only.
    pub const fn of_line(is_automasked: bool) -> Self {
        if is_automasked {
            Self::LevelHigh
        } else {
            Self::EdgeRising
        }
    }
}

/// An interrupt of the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeInterrupt {
    /// The number of the line at the interrupt controller: of a GIC, the shared peripheral interrupt, which is 32 below
    /// its INTID.
    pub number: u32,
    /// When it interrupts.
    pub trigger: Trigger,
}

/// How an interrupt controller's `#interrupt-cells` are filled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InterruptFormat {
    /// `<0 SPI FLAGS>`, of a GICv2 or GICv3.
    Gic,
    /// `<NUMBER FLAGS>`.
    NumberAndFlags,
    /// `<NUMBER>`.
    Number,
}

impl InterruptFormat {
    /// The controller's `#interrupt-cells`.
    pub const fn cells(self) -> u32 {
        match self {
            Self::Gic => 3,
            Self::NumberAndFlags => 2,
            Self::Number => 1,
        }
    }

    fn encode(self, interrupt: NodeInterrupt) -> Vec<u8> {
        let NodeInterrupt { number, trigger } = interrupt;
        let flags = trigger as u32;
        match self {
            Self::Gic => property::cells(&[GIC_SPI, number, flags]),
            Self::NumberAndFlags => property::cells(&[number, flags]),
            Self::Number => property::cells(&[number]),
        }
    }
}

/// The interrupt controller that takes the interrupts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InterruptParent {
    /// The controller's phandle in the guest's tree.
    pub phandle: u32,
    /// Its cells.
    pub format: InterruptFormat,
}

/// Checks the interrupts of a node.
pub(super) fn check(
    node: &str,
    interrupts: &[NodeInterrupt],
    parent: Option<InterruptParent>,
) -> Result<(), NodeError> {
    let node = || node.to_owned();
    if interrupts.is_empty() {
        return Ok(());
    }
    let Some(parent) = parent else {
        return Err(NodeError::NoInterruptParent { node: node() });
    };
    for (index, NodeInterrupt { number, .. }) in interrupts.iter().enumerate() {
        let number = *number;
        if parent.format == InterruptFormat::Gic && number >= GIC_SPIS {
            return Err(NodeError::InterruptRange {
                node: node(),
                number,
                count: GIC_SPIS,
            });
        }
        if interrupts[..index]
            .iter()
            .any(|other| other.number == number)
        {
            return Err(NodeError::InterruptTwice {
                node: node(),
                number,
            });
        }
    }
    Ok(())
}

/// The value of `interrupts`.
pub(super) fn interrupts(interrupts: &[NodeInterrupt], format: InterruptFormat) -> Vec<u8> {
    interrupts
        .iter()
        .flat_map(|interrupt| format.encode(*interrupt))
        .collect()
}
