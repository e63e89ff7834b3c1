//! The sizes of a device's registers, as far as the host says them before the device is opened: the BARs of
//! a PCI function from its `resource` file, the regions of a device-tree node from `reg`.

use std::path::Path;

use super::bus::Bus;
use super::files;

/// BARs of a PCI function; the lines after them are the ROM and the windows of bridges.
const BARS: usize = 6;
/// `IORESOURCE_IO` and `IORESOURCE_MEM` of Linux's `ioport.h`.
const IO: u64 = 0x100;
const MEMORY: u64 = 0x200;
/// Regions of a node that are looked at; no device has nearly so many.
const MOST: usize = 64;

/// How a region is accessed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RegionKind {
    /// By ports.
    Io,
    /// By memory accesses.
    Memory,
}

/// A range of registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostRegion {
    /// The number of the BAR, or the place in `reg`.
    pub index: usize,
    /// How it is accessed.
    pub kind: RegionKind,
    /// Bytes, not 0.
    pub size: u64,
}

pub(super) fn read(bus: Bus, device: &Path) -> Vec<HostRegion> {
    match bus {
        Bus::Pci => bars(&files::text(&device.join("resource")).unwrap_or_default()),
        Bus::Platform | Bus::Amba => node(&device.join("of_node")).unwrap_or_default(),
    }
}

fn bars(text: &str) -> Vec<HostRegion> {
    let lines = text.lines().take(BARS).enumerate();
    lines.filter_map(|(index, line)| bar(index, line)).collect()
}

/// A line is `START END FLAGS`; a BAR that there is not has zeros.
fn bar(index: usize, line: &str) -> Option<HostRegion> {
    let mut numbers = line.split_whitespace().map(|word| {
        let digits = word.strip_prefix("0x").unwrap_or(word);
        u64::from_str_radix(digits, 16).ok()
    });
    let (start, end, flags) = (numbers.next()??, numbers.next()??, numbers.next()??);
    let kind = match flags & (IO | MEMORY) {
        IO => RegionKind::Io,
        MEMORY => RegionKind::Memory,
        _ => return None,
    };
    let size = end.checked_sub(start)?.checked_add(1)?;
    Some(HostRegion { index, kind, size })
}

/// The sizes in `reg`. The number of cells of an address and of a size is what the parent says, by default 2 and 1.
fn node(node: &Path) -> Option<Vec<HostRegion>> {
    let cells = |name: &str, default| {
        let cells = files::cell(&node.join("..").join(name)).unwrap_or(default);
        usize::try_from(cells).ok().filter(|cells| *cells <= 2)
    };
    let address = cells("#address-cells", 2)?;
    let size = cells("#size-cells", 1).filter(|cells| *cells > 0)?;
    let reg = files::bytes(&node.join("reg"))?;
    let regions = reg.chunks_exact(4 * (address + size)).take(MOST);
    let sizes = regions.enumerate().filter_map(|(index, region)| {
        let size = region[4 * address..]
            .iter()
            .fold(0, |size, byte| size << 8 | u64::from(*byte));
        let kind = RegionKind::Memory;
        (size != 0).then_some(HostRegion { index, kind, size })
    });
    Some(sizes.collect())
}
