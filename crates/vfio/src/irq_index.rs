//! Interrupt indexes of a device: the answer of VFIO_DEVICE_GET_IRQ_INFO, checked.
//!
//! ```
//! use vmbell_vfio::irq_index::parse;
//!
//! # fn main() -> Result<(), vmbell_vfio::irq_index::IrqCountError> {
//! // VFIO_IRQ_INFO_EVENTFD, VFIO_IRQ_INFO_MASKABLE and VFIO_IRQ_INFO_AUTOMASKED, as the INTx of a PCI device has them.
//! let intx = parse(0, 0b111, 1)?;
//! assert!(intx.eventfd && intx.maskable && intx.automasked);
//! # Ok(())
//! # }
//! ```

use vfio_bindings::bindings::vfio::{
    VFIO_IRQ_INFO_AUTOMASKED, VFIO_IRQ_INFO_EVENTFD, VFIO_IRQ_INFO_MASKABLE,
};

/// The maximum number of interrupts that an index may have: those of MSI-X (PCI 3.0, 6.8.2.3).
pub const IRQS_MAX: u32 = 2048;

/// An index: one kind of interrupts of a PCI device, or one line of a platform device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IrqIndex {
    /// The number of the index.
    pub index: u32,
    /// How many interrupts the index has; 0 if the device does not have this kind.
    pub count: u32,
    /// Whether the interrupts can signal eventfds.
    pub eventfd: bool,
    /// Whether the interrupts can be masked and unmasked.
    pub maskable: bool,
    /// Whether a signal also masks the interrupt: the line is level-triggered.
    pub automasked: bool,
}

/// An interrupt count that no device has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("interrupt index {index} has {count} interrupts, more than {IRQS_MAX}")]
pub struct IrqCountError {
    /// The index.
    pub index: u32,
    /// The count.
    pub count: u32,
}

/// Checks an answer.
pub fn parse(index: u32, flags: u32, count: u32) -> Result<IrqIndex, IrqCountError> {
    if count > IRQS_MAX {
        return Err(IrqCountError { index, count });
    }
    Ok(IrqIndex {
        index,
        count,
        eventfd: flags & VFIO_IRQ_INFO_EVENTFD != 0,
        maskable: flags & VFIO_IRQ_INFO_MASKABLE != 0,
        automasked: flags & VFIO_IRQ_INFO_AUTOMASKED != 0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn automasked_lines_are_level_and_others_edge() {
        let level = parse(0, 7, 1).unwrap();
        assert!(level.automasked && level.maskable && level.eventfd);
        let edge = parse(1, 9, 32).unwrap();
        assert!(!edge.automasked && !edge.maskable && edge.eventfd);
    }

    #[test]
    fn count_that_no_device_has_is_refused() {
        assert!(parse(2, 1, IRQS_MAX).is_ok());
        for count in [IRQS_MAX + 1, u32::MAX] {
            assert_eq!(parse(2, 1, count), Err(IrqCountError { index: 2, count }));
        }
    }
}
