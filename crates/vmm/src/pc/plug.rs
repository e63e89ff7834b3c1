//! The devices that a PC has only if its user plugs them in.

use std::sync::Arc;

use vm_memory::GuestMemoryMmap;

use super::{Pc, PcModel, flush};
use crate::error::BoardError;
use crate::off::Off;
use vmbell::bus::{BusDevice, BusRange};
use vmbell_devices::pc_testdev::{
    TEST_FLUSH_LEN, TEST_FLUSH_PORTS, TEST_LATCH_LEN, TEST_LATCH_PORTS, TEST_LINE_PORTS,
    TEST_LINES, TEST_MEMORY_BASE, TEST_MEMORY_LEN, TestFlush, TestLatch, TestLines, TestMemory,
};
use vmbell_devices::pci::{PciError, PciFunction};
use vmbell_devices::pci_testdev::{PciTestdev, PciTestdevConfig};
use vmbell_devices::virtio::VirtioDevice;
use vmbell_devices::virtio::pci::{GuestParts, VirtioPci};
use vmbell_hypervisor::IoEvents;

impl Pc {
    /// Adds a function to the PCI bus, in the next slot, and returns the slot's number.
    pub fn add_pci(&self, function: Arc<dyn PciFunction>) -> Result<usize, BoardError> {
        Ok(self.pci.add(function)?)
    }

    /// Sets the function that is called if the guest puts a BAR where it is not mapped, because RAM or another
    /// device is there; see [`PciRoot::on_conflict`](vmbell_devices::pci::PciRoot::on_conflict).
    pub fn on_pci_conflict(&self, report: impl Fn(PciError) + Send + Sync + 'static) {
        self.pci.on_conflict(report);
    }

    /// Adds a pci-testdev to the PCI bus.
    pub fn add_testdev(&self, config: PciTestdevConfig) -> Result<(), BoardError> {
        let switch = Arc::clone(&self.switch);
        let on_error = move |error| switch.turn(Off::failed("pci-testdev", error));
        let events: Arc<dyn IoEvents> = self.machine.vm().clone();
        let device = PciTestdev::new(config, events, Box::new(on_error));
        let device = device.map_err(|source| BoardError::Testdev { source })?;
        self.pci.add(Arc::new(device))?;
        Ok(())
    }

    /// The guest's RAM, for a worker that serves a device.
    pub fn memory(&self) -> &GuestMemoryMmap {
        self.machine.vm().memory()
    }

    /// Adds a virtio device with registers in memory and an interrupt line. The DSDT describes it to the guest.
    ///
    /// # Errors
    /// The process has no descriptors or threads for the device, or the board has no addresses or pin left. The micro
    /// model has no pins for devices.
    pub fn add_virtio_mmio(&self, device: VirtioDevice) -> Result<(), BoardError> {
        self.at_next(device.name(), |place| place.plug(device))
    }

    /// Adds a virtio device to the PCI bus, where the guest finds it.
    ///
    /// # Errors
    /// The process has no descriptors or threads for the device, or the bus has no free slot.
    pub fn add_virtio_pci(&self, device: VirtioDevice) -> Result<(), BoardError> {
        let name = device.name();
        let function = VirtioPci::new(device, self.guest_parts(name));
        let function = function.map_err(|source| BoardError::Virtio {
            device: name,
            source,
        })?;
        self.pci.add(Arc::new(function))?;
        Ok(())
    }

    /// Fails if no line leads to an interrupt controller.
    pub(super) fn require_lines(&self, device: &'static str) -> Result<(), BoardError> {
        match self.config.model {
            PcModel::Full => Ok(()),
            PcModel::Micro => Err(BoardError::NoLines { device }),
        }
    }

    fn guest_parts(&self, device: &'static str) -> GuestParts {
        let switch = Arc::clone(&self.switch);
        GuestParts {
            memory: self.memory().clone(),
            events: self.machine.vm().clone(),
            routes: Arc::clone(&self.routes),
            backlog: self.machine.backlog.clone(),
            on_error: Arc::new(move |error| switch.turn(Off::failed(device, error))),
        }
    }

    /// Adds a pc-testdev. A PC can have one, because its ports and addresses are fixed. Fails in the micro model.
    pub fn add_pc_testdev(&self) -> Result<(), BoardError> {
        self.require_lines("pc-testdev")?;
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
}
