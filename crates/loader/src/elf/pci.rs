//! Maps the registers and the memory of a PCI device, by sysfs (Linux `Documentation/PCI/sysfs-pci.rst`).

use super::sys;
use super::text::{Digits, Path};

/// Enables the device of this folder and maps one of its BARs for the rest of this process's life. A device that is not there
/// has none.
pub fn map(device: &Path, bar: u32) -> Option<&'static [u8]> {
    const PAGE: usize = 4096;
    if !sys::write_existing(&device.join("/enable"), b"1") {
        return None;
    }
    // A BAR that is smaller than a page may begin within one.
    let within = address(&device.join("/resource"), bar)? % PAGE;
    let file = device.join("/resource").join(Digits::of(bar).text());
    let fd = sys::open(&file, sys::READ_WRITE)?;
    let mapped = sys::map_whole(fd, within);
    sys::close(fd);
    mapped
}

/// The address of a BAR: the first number of its line.
fn address(resource: &Path, bar: u32) -> Option<usize> {
    let mut text = [0; 1024];
    let length = sys::read_file(resource, &mut text)?;
    let text = core::str::from_utf8(&text[..length]).ok()?;
    let line = text.lines().nth(usize::try_from(bar).ok()?)?;
    let address = line.split(' ').next()?;
    usize::from_str_radix(address.strip_prefix("0x")?, 16).ok()
}
