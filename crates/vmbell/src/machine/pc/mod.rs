//! A PC without firmware that boots one image and has what kvm-unit-tests expects of QEMU.
//!
//! It has RAM from 0, the kernel's interrupt controllers and timer, a serial port, PCI, ACPI tables and
//! firmware configuration. The guest can end the run in two ways: by a write to
//! [`DONE_PORT`](crate::guest::DONE_PORT), where QEMU has `isa-debug-exit`, and by writing the letters of
//! `Shutdown` to their port. Each vCPU runs on a thread of its own.

mod error;
mod flush;
mod layout;
mod off;

use std::io::Write;
use std::sync::Arc;

use vm_memory::{Bytes, GuestAddress};

pub use error::PcError;
pub use layout::{MEMORY_MAX, MEMORY_MIN};

use self::off::{Off, Switch};
use super::{Boot, Image, Machine, Stop};
use crate::bus::{BusDevice, BusRange};
use crate::device::pc_testdev::{
    TEST_FLUSH_LEN, TEST_FLUSH_PORTS, TEST_LATCH_LEN, TEST_LATCH_PORTS, TEST_LINE_PORTS,
    TEST_LINES, TEST_MEMORY_BASE, TEST_MEMORY_LEN, TestFlush, TestLatch, TestLines, TestMemory,
};
use crate::device::pci::PciRoot;
use crate::device::pci_testdev::{PciTestdev, PciTestdevConfig};
use crate::device::{
    ACPI_BASE, FW_CFG_PORTS, FwCfg, PM_TIMER_LEN, PM_TIMER_PORT, PmTimer, SERIAL_LEN, SERIAL_PORTS,
    SHUTDOWN_PORT, Serial, ShutdownPort, acpi_tables,
};
use crate::hypervisor::{
    Capability, EntryPoint, Hypervisor, IoEvents, Irqchip, Vcpu, Vm, VmConfig,
};

/// The settings of a PC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PcConfig {
    /// Size of RAM in bytes, a multiple of 4096.
    pub memory: u64,
    /// The number of vCPUs. The first starts at once, the others wait until the guest starts them.
    pub vcpus: u16,
}

impl Default for PcConfig {
    fn default() -> Self {
        Self {
            memory: 128 << 20,
            vcpus: 1,
        }
    }
}

/// A PC: a machine with the devices of a board.
#[derive(Debug)]
pub struct Pc<V: Vm> {
    machine: Machine<V>,
    pci: Arc<PciRoot>,
    switch: Arc<Switch>,
    config: PcConfig,
}

impl<V: Vm> Pc<V> {
    /// Makes a PC whose serial port prints to `output`. Fails if the backend lacks [`Capability::Kernels`] or
    /// [`Capability::Interrupts`], or cannot make such a guest.
    pub fn new<H: Hypervisor<Vm = V>>(
        hypervisor: &H,
        config: PcConfig,
        output: impl Write + Send + 'static,
    ) -> Result<Self, PcError> {
        for capability in [Capability::Kernels, Capability::Interrupts] {
            hypervisor.require(capability).map_err(PcError::Lacking)?;
        }
        layout::check(config)?;
        let vm = hypervisor
            .create_vm(&VmConfig {
                ram_base: 0,
                ram_size: config.memory,
                irqchip: Irqchip::Full,
                vcpus: config.vcpus.into(),
                ..VmConfig::default()
            })
            .map_err(PcError::Create)?;
        let tables = acpi_tables(config.vcpus.into());
        vm.memory()
            .write_slice(&tables, GuestAddress(ACPI_BASE.into()))
            .map_err(PcError::Tables)?;
        let machine = Machine::new(vm);
        let switch = Arc::new(Switch::default());
        let pci = PciRoot::new(&machine.pio, &machine.mmio, layout::windows()?)?;
        let pc = Self {
            machine,
            pci,
            switch,
            config,
        };
        pc.add_ports(output)?;
        Ok(pc)
    }

    fn add_ports(&self, output: impl Write + Send + 'static) -> Result<(), PcError> {
        let switch = Arc::clone(&self.switch);
        let serial = Serial::new(output, move |error| {
            switch.turn(Off::failed("the serial port", error));
        });
        let switch = Arc::clone(&self.switch);
        let shutdown = ShutdownPort::new(move || switch.turn(Off::Guest));
        let fw_cfg = FwCfg::new(self.config.vcpus, self.config.memory);
        let devices: [(u64, u64, Arc<dyn BusDevice>); 4] = [
            (SERIAL_PORTS, SERIAL_LEN, Arc::new(serial)),
            (FW_CFG_PORTS, 2, Arc::new(fw_cfg)),
            (
                PM_TIMER_PORT.into(),
                PM_TIMER_LEN.into(),
                Arc::new(PmTimer::new()),
            ),
            (SHUTDOWN_PORT, 1, Arc::new(shutdown)),
        ];
        for (base, len, device) in devices {
            self.machine.pio.insert(BusRange::new(base, len)?, device)?;
        }
        Ok(())
    }

    /// Adds a pci-testdev to the PCI bus.
    pub fn add_testdev(&self, config: PciTestdevConfig) -> Result<(), PcError> {
        let switch = Arc::clone(&self.switch);
        let on_error = move |error| switch.turn(Off::failed("pci-testdev", error));
        let events: Arc<dyn IoEvents> = self.machine.vm().clone();
        let device = PciTestdev::new(config, events, Box::new(on_error));
        let device = device.map_err(|source| PcError::Testdev { source })?;
        self.pci.add(Arc::new(device))?;
        Ok(())
    }

    /// Adds a pc-testdev. A PC can have one, because its ports and addresses are fixed.
    pub fn add_pc_testdev(&self) -> Result<(), PcError> {
        let switch = Arc::clone(&self.switch);
        let lines = TestLines::new(self.machine.vm().clone(), move |error| {
            switch.turn(Off::failed("pc-testdev", error));
        });
        let (switch, vm) = (Arc::clone(&self.switch), self.machine.vm().clone());
        let flush = TestFlush::new(move |page| {
            if let Err(error) = flush::flush(vm.memory(), page) {
                switch.turn(Off::failed("pc-testdev", error));
            }
        });
        let latch = Arc::new(TestLatch::default());
        let [first, second] = TEST_LATCH_PORTS;
        let devices: [(u64, u64, Arc<dyn BusDevice>); 4] = [
            (first, TEST_LATCH_LEN, Arc::clone(&latch) as _),
            (second, TEST_LATCH_LEN, latch),
            (TEST_FLUSH_PORTS, TEST_FLUSH_LEN, Arc::new(flush)),
            (TEST_LINE_PORTS, TEST_LINES, Arc::new(lines)),
        ];
        for (base, len, device) in devices {
            self.machine.pio.insert(BusRange::new(base, len)?, device)?;
        }
        let memory = BusRange::new(TEST_MEMORY_BASE, TEST_MEMORY_LEN)?;
        let device = Arc::new(TestMemory::default());
        self.machine.mmio.insert(memory, device)?;
        Ok(())
    }

    /// The machine: the guest and its buses.
    pub fn machine(&self) -> &Machine<V> {
        &self.machine
    }

    /// Boots `image` and runs it until it ends or `until` returns true; see [`Machine::run_together`]. A PC can
    /// do this once, because each vCPU can be made only once.
    pub fn run(
        &self,
        image: &Image,
        boot: &Boot,
        until: impl Fn() -> bool + Send + Sync + 'static,
    ) -> Result<Stop, PcError> {
        let entry = image.load(self.machine.vm().memory(), boot)?;
        let mut vcpus = Vec::new();
        for index in 0..u32::from(self.config.vcpus) {
            let mut vcpu = self
                .machine
                .vm()
                .create_vcpu(index)
                .map_err(PcError::Vcpu)?;
            let entry = if index == 0 {
                entry
            } else {
                EntryPoint::Secondary
            };
            vcpu.set_entry_point(entry).map_err(PcError::Vcpu)?;
            vcpus.push(vcpu);
        }
        let switch = Arc::clone(&self.switch);
        let outcome = self
            .machine
            .run_together(vcpus, move || switch.is_off() || until());
        // An error of a device comes first: it makes all later results worthless.
        match (self.switch.take(), outcome?) {
            (Some(Off::Failed { device, source }), _) => Err(PcError::Device { device, source }),
            (Some(Off::Guest), Stop::Kicked) => Ok(Stop::Shutdown),
            (_, stop) => Ok(stop),
        }
    }
}
