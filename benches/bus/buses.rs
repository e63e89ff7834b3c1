//! The buses that are compared, each as its users hold it.
#![expect(
    clippy::disallowed_types,
    reason = "users of the other buses lock them with std's RwLock"
)]

use std::{
    hint::black_box,
    sync::{Arc, PoisonError, RwLock},
};

use alioth::mem::addressable::{Addressable, SlotBackend};
use vm_device::{
    DeviceMmio,
    bus::{MmioAddress, MmioAddressOffset},
    device_manager::{IoManager, MmioManager},
    resources::Resource,
};
use vmbell::bus::{Bus, BusDevice, BusRange, BusReader};

use crate::devices::STRIDE;

/// A bus with devices that do nothing.
pub trait Subject: Sync {
    /// How the report calls it.
    const NAME: &'static str;
    /// What a thread needs to look up.
    type Reader<'a>
    where
        Self: 'a;

    /// A bus with a device at each address.
    fn with(addresses: &[u64]) -> Self;

    /// A thread's way in.
    fn reader(&self) -> Self::Reader<'_>;

    /// Writes four bytes; whether a device took them.
    fn write(reader: &mut Self::Reader<'_>, address: u64) -> bool;
}

/// A device; each has its own allocation, as in a VMM.
struct Sink {
    _registers: [u64; 8],
}

fn sink() -> Arc<Sink> {
    let _registers = [0; 8];
    Arc::new(Sink { _registers })
}

fn take(offset: u64, data: &[u8]) {
    black_box((offset, data.len()));
}

impl BusDevice for Sink {
    fn read(&self, _: u64, _: &mut [u8]) {}

    fn write(&self, offset: u64, data: &[u8]) {
        take(offset, data);
    }
}

/// Ours.
pub struct VmbellBus(Bus);

impl Subject for VmbellBus {
    const NAME: &'static str = "vmbell";
    type Reader<'a> = BusReader;

    fn with(addresses: &[u64]) -> Self {
        let bus = Bus::new();
        for &address in addresses {
            let range = BusRange::new(address, STRIDE).expect("a good range");
            bus.insert(range, sink()).expect("no overlap");
        }
        Self(bus)
    }

    fn reader(&self) -> BusReader {
        self.0.reader()
    }

    #[inline]
    fn write(reader: &mut BusReader, address: u64) -> bool {
        reader.write(address, &[0; 4])
    }
}

impl DeviceMmio for Sink {
    fn mmio_read(&self, _: MmioAddress, _: MmioAddressOffset, _: &mut [u8]) {}

    fn mmio_write(&self, _: MmioAddress, offset: MmioAddressOffset, data: &[u8]) {
        take(offset, data);
    }
}

/// The `vm-device` crate's.
pub struct VmDeviceBus(RwLock<IoManager>);

impl Subject for VmDeviceBus {
    const NAME: &'static str = "vm-device";
    type Reader<'a> = &'a RwLock<IoManager>;

    fn with(addresses: &[u64]) -> Self {
        let mut manager = IoManager::new();
        for &base in addresses {
            let size = STRIDE;
            let range = [Resource::MmioAddressRange { base, size }];
            let registered = manager.register_mmio_resources(sink(), &range);
            registered.expect("no overlap");
        }
        Self(RwLock::new(manager))
    }

    fn reader(&self) -> Self::Reader<'_> {
        &self.0
    }

    #[inline]
    fn write(reader: &mut Self::Reader<'_>, address: u64) -> bool {
        let manager = reader.read().unwrap_or_else(PoisonError::into_inner);
        manager.mmio_write(MmioAddress(address), &[0; 4]).is_ok()
    }
}

/// What alioth's map holds.
pub struct Slot(Arc<dyn BusDevice>);

impl SlotBackend for Slot {
    fn size(&self) -> u64 {
        STRIDE
    }
}

/// The `alioth` crate's.
pub struct AliothBus(RwLock<Addressable<Slot>>);

impl Subject for AliothBus {
    const NAME: &'static str = "alioth";
    type Reader<'a> = &'a RwLock<Addressable<Slot>>;

    fn with(addresses: &[u64]) -> Self {
        let mut map = Addressable::new();
        for &address in addresses {
            assert!(map.add(address, Slot(sink())).is_ok());
        }
        Self(RwLock::new(map))
    }

    fn reader(&self) -> Self::Reader<'_> {
        &self.0
    }

    #[inline]
    fn write(reader: &mut Self::Reader<'_>, address: u64) -> bool {
        let map = reader.read().unwrap_or_else(PoisonError::into_inner);
        match map.search(address) {
            Some((start, Slot(device))) => {
                device.write(address - start, &[0; 4]);
                true
            }
            None => false,
        }
    }
}
