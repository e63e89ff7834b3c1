//! The hardware of a PC and its address map.

use vmbell::bus::{BusError, BusRange};
use vmbell::irq::Gsi;
use vmbell_devices::pci::{Board, CONFIG_MEMORY_LEN, ConfigAccess, Pin, Window, Windows};

/// Which hardware a PC has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PcModel {
    /// All of the hardware, including the interrupt controllers, timer, clock, keyboard controller and firmware
    /// configuration that images made for QEMU's PC expect.
    #[default]
    Full,
    /// Local APICs in x2APIC mode, PCI with its configuration space in memory, a serial port, and two ways to end. It
    /// is for Linux, since each further device costs exits there. Only the serial port has an interrupt line; devices
    /// on PCI send messages. The guest cannot suspend (S3).
    Micro,
}

/// The maximum number of vCPUs of a board.
pub const VCPUS_MAX: u16 = 64;

/// The first pin of the I/O APIC that is only for PCI devices, and the number of such pins. They follow the 16 pins
/// with ISA's numbers, as in chipsets with an I/O APIC.
const FIRST_PCI_GSI: u32 = 16;
const PCI_GSIS: usize = 8;
/// The address of configuration space in memory, between the 32-bit BARs and the I/O APIC.
pub(super) const CONFIG_MEMORY: u64 = 0xfe00_0000;
/// Addresses below 4 GiB that the kernel answers or reserves: the I/O APIC, the local APICs, and what KVM needs for
/// real mode.
const KERNEL: (u64, u64) = (0xfec0_0000, 0x0140_0000);

/// The PCI bus of a PC of this model with this number of bytes of RAM. BARs get ports above the board's own, 32-bit
/// addresses between the largest possible RAM and the interrupt controllers, and 64-bit addresses far above 4 GiB.
pub(super) fn board(model: PcModel, memory: u64) -> Result<Board, BusError> {
    let board = Board::from(windows()?);
    let mut reserved = vec![
        BusRange::new(0, memory)?,
        BusRange::new(KERNEL.0, KERNEL.1)?,
    ];
    Ok(match model {
        PcModel::Full => Board {
            reserved,
            intx,
            ..board
        },
        PcModel::Micro => {
            reserved.push(BusRange::new(CONFIG_MEMORY, CONFIG_MEMORY_LEN)?);
            Board {
                reserved,
                config: ConfigAccess::Memory(CONFIG_MEMORY),
                ..board
            }
        }
    })
}

fn windows() -> Result<Windows, BusError> {
    Ok(Windows {
        io: Window::new(BusRange::new(0xc000, 0x4000)?),
        memory32: Window::new(BusRange::new(0xe000_0000, 0x1e00_0000)?),
        memory64: Window::new(BusRange::new(0x10_0000_0000, 0x70_0000_0000)?),
    })
}

/// Returns the GSI that a pin raises. Neighbouring slots and the pins of one slot have different GSIs.
fn intx(slot: usize, pin: Pin) -> Option<Gsi> {
    let line = slot.wrapping_add(pin.register().into()) % PCI_GSIS;
    Gsi::new(FIRST_PCI_GSI + u32::try_from(line).ok()?).ok()
}

#[cfg(test)]
#[path = "layout_test.rs"]
mod tests;
