//! Gives devices the drivers that they are to have when the program starts.
//!
//! The files are those of Linux `Documentation/ABI/testing/sysfs-bus-pci`. Process 1 of L1 runs this before the program.

use std::fs;
use std::io;
use std::path::Path;

use crate::job::JobDevice;

const BUS: &str = "/sys/bus/pci";

/// Prepares every device; an error of one is an error of the run, because its program could not use the device.
pub fn prepare(devices: &[JobDevice]) -> io::Result<()> {
    for device in devices {
        bind(Path::new(BUS), device)?;
    }
    Ok(())
}

/// Takes the device from a driver that is built into the kernel, and gives it the wanted one.
fn bind(bus: &Path, device: &JobDevice) -> io::Result<()> {
    let JobDevice { name, address, .. } = device;
    let folder = bus.join("devices").join(address);
    let unbind = folder.join("driver/unbind");
    if unbind.exists() {
        fs::write(unbind, address)?;
    }
    let Some(driver) = &device.driver else {
        return Ok(());
    };
    let failed = |reason: &str| {
        io::Error::other(format!(
            "cannot bind {name} ({address}) to {driver}: {reason}"
        ))
    };
    let write = |path: &Path, text: &str| {
        fs::write(path, text).map_err(|error| failed(&format!("{}: {error}", path.display())))
    };
    write(&folder.join("driver_override"), driver)?;
    write(&bus.join("drivers_probe"), address)?;
    // The kernel does not tell the writer that a driver refused the device.
    let bound = fs::read_link(folder.join("driver")).ok();
    if bound.is_some_and(|path| path.ends_with(driver)) {
        return Ok(());
    }
    Err(failed(if !bus.join("drivers").join(driver).exists() {
        "L1's kernel has no such driver"
    } else if !folder.join("iommu_group").exists() {
        "the device is in no IOMMU group, so L1's kernel does not drive the IOMMU"
    } else {
        "the driver refused it; --verbose shows the kernel's reason"
    }))
}

#[cfg(test)]
#[path = "devices_test.rs"]
mod tests;
