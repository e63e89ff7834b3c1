//! The FADT ("FACP"): the power management timer, the sleep registers, and the address of the DSDT.

use crate::number::{u8_at, u32_at, u64_at};

/// A register in I/O ports or in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Register {
    /// At a port.
    Port(u16),
    /// In memory.
    Memory(u64),
}

impl Register {
    /// Reads the generic address structure at this offset. `None` if it is empty or in another address space.
    fn parse(table: &[u8], place: usize) -> Option<Self> {
        let address = u64_at(table, place + 4).filter(|address| *address != 0)?;
        match u8_at(table, place)? {
            0 => Some(Self::Memory(address)),
            1 => u16::try_from(address).ok().map(Self::Port),
            _ => None,
        }
    }

    /// Reads a port of the table's first version.
    fn port(table: &[u8], place: usize) -> Option<Self> {
        let port = u32_at(table, place).filter(|port| *port != 0)?;
        u16::try_from(port).ok().map(Self::Port)
    }
}

/// What the image needs from the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fadt {
    /// The address of the DSDT.
    pub dsdt: Option<u64>,
    /// The power management timer.
    pub pm_timer: Option<Register>,
    /// The sleep control register of hardware-reduced ACPI.
    pub sleep_control: Option<Register>,
    /// The PM1a control register.
    pub pm1a_control: Option<Register>,
}

impl Fadt {
    /// Reads a table. Fields that a short table lacks are absent.
    pub fn parse(table: &[u8]) -> Self {
        const HARDWARE_REDUCED: u32 = 1 << 20;
        let short = u32_at(table, 40).map(u64::from);
        let reduced = u32_at(table, 112).is_some_and(|flags| flags & HARDWARE_REDUCED != 0);
        Self {
            dsdt: short
                .filter(|address| *address != 0)
                .or_else(|| u64_at(table, 140))
                .filter(|address| *address != 0),
            pm_timer: Register::port(table, 76).or_else(|| Register::parse(table, 208)),
            sleep_control: reduced.then(|| Register::parse(table, 244)).flatten(),
            pm1a_control: Register::port(table, 64).or_else(|| Register::parse(table, 172)),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{Fadt, Register};

    #[test]
    fn ports_of_the_first_version_are_found() {
        let mut table = [0; 116];
        table[40..44].copy_from_slice(&0x7ffe_0000_u32.to_le_bytes());
        table[64..68].copy_from_slice(&0x604_u32.to_le_bytes());
        table[76..80].copy_from_slice(&0x608_u32.to_le_bytes());
        let fadt = Fadt::parse(&table);
        assert_eq!(fadt.dsdt, Some(0x7ffe_0000));
        assert_eq!(fadt.pm1a_control, Some(Register::Port(0x604)));
        assert_eq!(fadt.pm_timer, Some(Register::Port(0x608)));
        assert_eq!(fadt.sleep_control, None);
    }

    #[test]
    fn hardware_reduced_acpi_has_a_sleep_control_register() {
        let mut table = [0; 268];
        table[114] = 0x10;
        table[140..148].copy_from_slice(&0x1_0000_0000_u64.to_le_bytes());
        table[244] = 1;
        table[248..250].copy_from_slice(&0x600_u16.to_le_bytes());
        let fadt = Fadt::parse(&table);
        assert_eq!(fadt.sleep_control, Some(Register::Port(0x600)));
        assert_eq!(fadt.dsdt, Some(0x1_0000_0000));
        assert_eq!((fadt.pm_timer, fadt.pm1a_control), (None, None));
        table[244] = 0;
        let memory = Some(Register::Memory(0x600));
        assert_eq!(Fadt::parse(&table).sleep_control, memory);
        table[244] = 2;
        assert_eq!(Fadt::parse(&table).sleep_control, None);
    }

    #[test]
    fn an_empty_table_names_nothing() {
        let fadt = Fadt::parse(&[]);
        assert_eq!((fadt.dsdt, fadt.pm_timer), (None, None));
        assert_eq!((fadt.sleep_control, fadt.pm1a_control), (None, None));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let _ = Fadt::parse(&bytes);
        }
    }
}
