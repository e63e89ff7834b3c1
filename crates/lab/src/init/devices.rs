//! Binds devices to the drivers that they need when the program starts, and brings up the other network interfaces.
//!
//! The files are those of Linux `Documentation/ABI/testing/sysfs-bus-pci`; other buses have the same files. Process 1
//! of L1 runs this before the program.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::job::JobDevice;

const BUSES: &str = "/sys/bus";
const NETWORK: &str = "/sys/class/net";

/// Prepares every device. An error fails the run, because the program could not use the device.
pub fn prepare(devices: &[JobDevice]) -> io::Result<()> {
    for device in devices {
        bind(&Path::new(BUSES).join(&device.bus), device)?;
        if let Some(address) = &device.interface {
            start_interface(address)?;
        }
    }
    Ok(())
}

/// Unbinds the device from a built-in driver, and binds the wanted driver.
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
    // If a driver refuses the device, the kernel does not report that to the writer.
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

/// Brings up the network interface of the PCI device at this address, without an IP address.
fn start_interface(address: &str) -> io::Result<()> {
    let folder = interface(Path::new(NETWORK), address)?;
    let name = folder.file_name().unwrap_or_default();
    // IPv6 would send announcements on a wire where the program expects only its own frames. A kernel without IPv6 has
    // no such file.
    let _ = fs::write(
        Path::new("/proc/sys/net/ipv6/conf")
            .join(name)
            .join("disable_ipv6"),
        "1",
    );
    fs::write(folder.join("flags"), "0x1003").map_err(|error| {
        io::Error::other(format!("cannot start the interface at {address}: {error}"))
    })
}

/// Finds the folder of the interface. Its name depends on which other interfaces exist.
fn interface(network: &Path, address: &str) -> io::Result<PathBuf> {
    for item in fs::read_dir(network)?.flatten() {
        let device = fs::canonicalize(item.path()).unwrap_or_default();
        if device.iter().any(|part| part == address) {
            return Ok(item.path());
        }
    }
    let reason =
        format!("L1 has no network interface at {address}: its kernel does not drive virtio-net");
    Err(io::Error::other(reason))
}

#[cfg(test)]
#[path = "devices_test.rs"]
mod tests;
