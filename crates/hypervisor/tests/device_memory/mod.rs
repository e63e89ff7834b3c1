//! Device memory: parts of files that a guest accesses without an exit.

mod moved;
mod places;
mod reached;

use std::fs::File;
use std::sync::Arc;

use rustix::fs::{MemfdFlags, memfd_create};
use vmbell_hypervisor::{DeviceMemory, VmConfig};

/// The offset of the device memory in its file; the guest does not get the part before it.
const OFFSET: u64 = 0x2000;
const SIZE: u64 = 0x3000;

/// Makes device memory from the pages of a new file after its first ones.
fn memory(writable: bool) -> DeviceMemory {
    let file = File::from(memfd_create("device", MemfdFlags::CLOEXEC).unwrap());
    file.set_len(OFFSET + SIZE).unwrap();
    DeviceMemory {
        file: Arc::new(file),
        offset: OFFSET,
        size: SIZE,
        writable,
    }
}

/// The settings of a guest that has this memory from its start.
fn with_memory(places: &[(u64, &DeviceMemory)]) -> VmConfig {
    let places = places.iter();
    VmConfig {
        device_memory: places
            .map(|(address, memory)| (*address, (*memory).clone()))
            .collect(),
        ..VmConfig::default()
    }
}
