//! Clocks of a fixed rate: the only ones that a guest can have without a driver for the host's clock controller. The
//! guest gets its own node for each (Linux's binding `clock/fixed-clock.yaml`).

use std::fmt;

use vm_fdt::FdtWriter;

use super::error::NodeError;
use super::property;

/// A clock that always runs at one rate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FixedClock {
    /// Hertz, if the host's node says it.
    pub frequency: Option<u32>,
    /// What the clock's users may call its output.
    pub output_names: Vec<String>,
}

impl fmt::Display for FixedClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the clock")?;
        for name in &self.output_names {
            write!(f, " '{name}'")?;
        }
        match self.frequency {
            Some(frequency) => write!(f, " of {frequency} Hz"),
            None => f.write_str(" of unknown rate"),
        }
    }
}

impl FixedClock {
    fn check(&self) -> Result<(), NodeError> {
        if self
            .output_names
            .iter()
            .all(|name| property::is_listable(name))
        {
            return Ok(());
        }
        let clock = self.clone();
        Err(NodeError::ClockName { clock })
    }

    fn write(&self, fdt: &mut FdtWriter, name: &str, phandle: u32) -> Result<(), vm_fdt::Error> {
        let node = fdt.begin_node(name)?;
        fdt.property_string("compatible", "fixed-clock")?;
        fdt.property_u32("#clock-cells", 0)?;
        if let Some(frequency) = self.frequency {
            fdt.property_u32("clock-frequency", frequency)?;
        }
        if !self.output_names.is_empty() {
            fdt.property("clock-output-names", &property::texts(&self.output_names))?;
        }
        fdt.property_phandle(phandle)?;
        fdt.end_node(node)
    }
}

/// The clocks that a guest's tree has already, of all devices: equal ones share a node.
#[derive(Debug)]
pub struct Clocks {
    next: Option<u32>,
    written: Vec<(FixedClock, u32)>,
}

impl Clocks {
    /// A tree without clocks, in which the phandles from this one on are free. 0 and `u32::MAX` are not phandles.
    pub fn new(first_phandle: u32) -> Self {
        Self {
            next: (first_phandle != 0).then_some(first_phandle),
            written: Vec::new(),
        }
    }

    /// The phandle of a clock that was written.
    pub(super) fn phandle(&self, clock: &FixedClock) -> Option<u32> {
        let (_, phandle) = self.written.iter().find(|(other, _)| other == clock)?;
        Some(*phandle)
    }

    /// Writes a clock as a child of the node that is open in `fdt`, if the tree has not got it yet.
    pub(super) fn write(
        &mut self,
        fdt: &mut FdtWriter,
        clock: &FixedClock,
    ) -> Result<(), NodeError> {
        if self.phandle(clock).is_some() {
            return Ok(());
        }
        clock.check()?;
        let shares = |(other, _): &&(FixedClock, u32)| {
            let mut names = other.output_names.iter();
            names.any(|name| clock.output_names.contains(name))
        };
        if let Some((other, _)) = self.written.iter().find(shares) {
            return Err(NodeError::ClockNameTaken {
                clock: clock.clone(),
                other: other.clone(),
            });
        }
        let Some(phandle) = self.next.filter(|phandle| *phandle != u32::MAX) else {
            let clock = clock.clone();
            return Err(NodeError::NoPhandle { clock });
        };
        let name = format!("clock-{phandle:x}");
        let result = clock.write(fdt, &name, phandle);
        result.map_err(|source| NodeError::Write { node: name, source })?;
        self.next = phandle.checked_add(1);
        self.written.push((clock.clone(), phandle));
        Ok(())
    }
}
