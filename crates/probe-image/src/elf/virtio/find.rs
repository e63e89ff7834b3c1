//! Finds devices: on the command line, in the DSDT, and on PCI bus 0, in this order. The first working device of each
//! kind is used.

use super::kind::Kind;
use super::queue::Queue;
use super::{Device, Features, NO_DEVICE, mmio, pci};
use crate::acpi::dsdt::Interrupt;
use crate::acpi::tables::Acpi;
use crate::cmdline::mmio_devices;
use crate::elf::apic::Pin;
use crate::elf::pci::Access;

static QUEUES: [Queue; Kind::ALL.len()] = [const { Queue::new() }; Kind::ALL.len()];

/// For each kind, the device or why it cannot be used.
pub struct Devices([Option<Result<Device, &'static str>>; Kind::ALL.len()]);

impl Devices {
    /// Finds and starts the devices. They interrupt the CPU with this number, and get the wanted features.
    pub fn find(line: &str, acpi: &Acpi, cpu: u32, wanted: Features) -> Self {
        let mut found = Self([None; Kind::ALL.len()]);
        for device in mmio_devices(line) {
            // Linux treats these lines as edge-triggered.
            let interrupt = Interrupt {
                gsi: device.gsi,
                level: false,
            };
            found.mmio(device.address, Some(interrupt), "cmdline", acpi, wanted);
        }
        for device in acpi.devices.iter().flatten() {
            found.mmio(device.address, device.interrupt, "dsdt", acpi, wanted);
        }
        if let Some(access) = Access::find(acpi.mcfg) {
            for (function, config) in access.functions() {
                let (vendor, device) = config.ids();
                let kind = Kind::from_pci(device).filter(|_| vendor == 0x1af4);
                if let Some(kind) = kind.filter(|kind| found.wants(*kind)) {
                    let queue = &QUEUES[kind as usize];
                    found.keep(
                        kind,
                        pci::open(
                            access,
                            function,
                            &config,
                            kind,
                            queue,
                            &acpi.io_apics,
                            cpu,
                            wanted,
                        ),
                    );
                }
            }
        }
        found
    }

    fn mmio(
        &mut self,
        address: u64,
        interrupt: Option<Interrupt>,
        found_by: &'static str,
        acpi: &Acpi,
        wanted: Features,
    ) {
        let Some((registers, kind)) = mmio::kind(address) else {
            return;
        };
        if !self.wants(kind) {
            return;
        }
        let pin = interrupt
            .and_then(|line| Some((line.gsi, Pin::new(&acpi.io_apics, line.gsi, line.level)?)));
        let queue = &QUEUES[kind as usize];
        self.keep(
            kind,
            mmio::open(registers, kind, queue, found_by, pin, wanted),
        );
    }

    /// Returns whether no device of a kind works yet.
    fn wants(&self, kind: Kind) -> bool {
        !matches!(self.0[kind as usize], Some(Ok(_)))
    }

    /// Keeps a device that works. If none does, keeps the reason of the first.
    fn keep(&mut self, kind: Kind, opened: Result<Device, &'static str>) {
        let place = &mut self.0[kind as usize];
        if place.is_none() || opened.is_ok() {
            *place = Some(opened);
        }
    }

    /// Returns the device of a kind, or why there is none.
    pub fn get(&self, kind: Kind) -> Result<Device, &'static str> {
        self.0[kind as usize].unwrap_or(Err(NO_DEVICE))
    }

    /// Whether there is a device of a kind, even one that does not work.
    pub fn has(&self, kind: Kind) -> bool {
        self.0[kind as usize].is_some()
    }

    /// Resets a device that has not answered. No further row uses it.
    pub fn give_up(&mut self, kind: Kind) {
        let place = &mut self.0[kind as usize];
        if let Some(Ok(device)) = place {
            device.reset();
            *place = Some(Err("the device has not answered in another row"));
        }
    }

    /// All working devices.
    pub fn working(&self) -> impl Iterator<Item = &Device> {
        self.0.iter().flatten().flatten()
    }
}
