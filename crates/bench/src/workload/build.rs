//! Makes the memory and both sides of a queue, split or packed.

use super::{
    WorkloadOptions,
    driver::Driver,
    options::{BUFFER_LEN, MAX_PIECES},
    run::{Role, Tally, WorkloadError, with},
};
use vmbell::virtqueue::{
    HostMemory, PackedDevice, PackedDriver, PackedLayout, SplitDevice, SplitDriver, SplitLayout,
    brand,
};

const PAGE: u64 = 4096;

/// The addresses after the rings: the indirect tables, the buffer and the end of the memory.
struct Rest {
    tables: u64,
    buffer: u64,
    end: u64,
}

impl Rest {
    fn behind(rings: u64, ring_size: u16) -> Self {
        let tables = rings.next_multiple_of(PAGE);
        let buffer = tables + 16 * u64::from(MAX_PIECES) * u64::from(ring_size);
        let end = buffer + u64::from(BUFFER_LEN);
        Self {
            tables,
            buffer,
            end,
        }
    }

    fn memory(&self) -> HostMemory {
        HostMemory::new(usize::try_from(self.end).unwrap_or(usize::MAX))
    }
}

pub(super) fn split(
    options: WorkloadOptions,
    on_thread: &(dyn Fn(Role) + Sync),
) -> Result<Tally, WorkloadError> {
    let (size, features) = (options.ring_size, options.features());
    let layout = if options.virtio_1 {
        SplitLayout::contiguous(0, size)
    } else {
        SplitLayout::legacy(0, size, PAGE)
    };
    let rest = Rest::behind(layout.end(), size);
    let memory = rest.memory();
    brand::scoped(|brand| {
        let mut queue = SplitDriver::new(&memory, &layout, features, brand)?;
        if options.indirect {
            queue = queue.with_indirect_tables(rest.tables, MAX_PIECES)?;
        }
        let ring = queue.ring().clone();
        let take = || SplitDevice::over(ring.clone(), features);
        let driver = Driver::new(queue, options, rest.buffer)?;
        with(driver, take, &options, on_thread)
    })
}

pub(super) fn packed(
    options: WorkloadOptions,
    on_thread: &(dyn Fn(Role) + Sync),
) -> Result<Tally, WorkloadError> {
    let (size, features) = (options.ring_size, options.features());
    let layout = PackedLayout::contiguous(0, size);
    let rest = Rest::behind(layout.end(), size);
    let memory = rest.memory();
    brand::scoped(|brand| {
        let mut queue = PackedDriver::new(&memory, &layout, features, brand)?;
        if options.indirect {
            queue = queue.with_indirect_tables(rest.tables, MAX_PIECES)?;
        }
        let ring = queue.ring().clone();
        let take = || PackedDevice::over(ring.clone(), features);
        let driver = Driver::new(queue, options, rest.buffer)?;
        with(driver, take, &options, on_thread)
    })
}
