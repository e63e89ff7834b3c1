//! The registers and the memory of a PCI device, through sysfs (Linux `Documentation/PCI/sysfs-pci.rst`).

use super::sys;
use super::text::{Digits, Path};

const PAGE: usize = 4096;

/// A BAR of a device.
pub struct Bar {
    fd: usize,
    /// The offset of the BAR in its first page: a BAR that is smaller than a page may begin inside one.
    within: usize,
}

impl Bar {
    /// Enables the device in this folder and opens one of its BARs. Returns `None` if the device does not exist.
    pub fn open(device: &Path, bar: u32) -> Option<Self> {
        if !sys::write_existing(&device.join("/enable"), b"1") {
            return None;
        }
        let within = address(&device.join("/resource"), bar)? % PAGE;
        let file = device.join("/resource").join(Digits::of(bar).text());
        let fd = sys::open(&file, sys::READ_WRITE)?;
        Some(Self { fd, within })
    }

    /// Maps a part of the BAR for the rest of this process's life. The kernel enters the pages of a mapping one by one,
    /// so a part should be no larger than needed. `begin` is a multiple of a page.
    pub fn map(&self, begin: usize, length: usize) -> Option<&'static [u8]> {
        let mapped = sys::map(self.fd, begin, self.within.checked_add(length)?)?;
        mapped.get(self.within..)
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        sys::close(self.fd);
    }
}

/// The address of a BAR: the first number on its line.
fn address(resource: &Path, bar: u32) -> Option<usize> {
    let mut text = [0; 1024];
    let length = sys::read_file(resource, &mut text)?;
    let text = core::str::from_utf8(&text[..length]).ok()?;
    let line = text.lines().nth(usize::try_from(bar).ok()?)?;
    let address = line.split(' ').next()?;
    usize::from_str_radix(address.strip_prefix("0x")?, 16).ok()
}
