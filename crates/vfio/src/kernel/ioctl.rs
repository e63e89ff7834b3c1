//! The requests to the kernel's VFIO and IOMMU (Linux `uapi/linux/vfio.h`, `uapi/linux/iommufd.h`), each with its
//! errno. Any thread may make them.
//!
//! The crate vfio-ioctls is not used: it drops the errno of several requests, refuses AMBA devices and the resample
//! eventfd of any index but INTx, follows capability chains unchecked, and panics when a device cannot be closed.
#![allow(unsafe_code)]

use std::ffi::CStr;
use std::fs::File;
use std::io;
use std::mem::size_of;
use std::os::fd::{AsRawFd, FromRawFd, RawFd};

use vfio_bindings::bindings::vfio::{
    VFIO_BASE, VFIO_DMA_MAP_FLAG_READ, VFIO_DMA_MAP_FLAG_WRITE, VFIO_GROUP_FLAGS_VIABLE,
    VFIO_IRQ_SET_ACTION_MASK, VFIO_IRQ_SET_ACTION_TRIGGER, VFIO_IRQ_SET_ACTION_UNMASK,
    VFIO_IRQ_SET_DATA_EVENTFD, VFIO_IRQ_SET_DATA_NONE, VFIO_TYPE, vfio_device_attach_iommufd_pt,
    vfio_device_bind_iommufd, vfio_device_info, vfio_group_status, vfio_iommu_type1_dma_map,
    vfio_iommu_type1_dma_unmap, vfio_irq_info,
};
use vmm_sys_util::ioctl::{
    ioctl, ioctl_with_mut_ptr, ioctl_with_mut_ref, ioctl_with_ptr, ioctl_with_ref, ioctl_with_val,
};
use vmm_sys_util::ioctl_io_nr;

use super::super::device::{Action, Data, DeviceInfo, SetIrqs};
use vmbell::memory::{GuestMemoryRegion, GuestRegionMmap};

ioctl_io_nr!(VFIO_GET_API_VERSION, VFIO_TYPE as u32, VFIO_BASE);
ioctl_io_nr!(VFIO_CHECK_EXTENSION, VFIO_TYPE as u32, VFIO_BASE + 1);
ioctl_io_nr!(VFIO_SET_IOMMU, VFIO_TYPE as u32, VFIO_BASE + 2);
ioctl_io_nr!(VFIO_GROUP_GET_STATUS, VFIO_TYPE as u32, VFIO_BASE + 3);
ioctl_io_nr!(VFIO_GROUP_SET_CONTAINER, VFIO_TYPE as u32, VFIO_BASE + 4);
ioctl_io_nr!(VFIO_GROUP_UNSET_CONTAINER, VFIO_TYPE as u32, VFIO_BASE + 5);
ioctl_io_nr!(VFIO_GROUP_GET_DEVICE_FD, VFIO_TYPE as u32, VFIO_BASE + 6);
ioctl_io_nr!(VFIO_DEVICE_GET_INFO, VFIO_TYPE as u32, VFIO_BASE + 7);
ioctl_io_nr!(VFIO_DEVICE_GET_REGION_INFO, VFIO_TYPE as u32, VFIO_BASE + 8);
ioctl_io_nr!(VFIO_DEVICE_GET_IRQ_INFO, VFIO_TYPE as u32, VFIO_BASE + 9);
ioctl_io_nr!(VFIO_DEVICE_SET_IRQS, VFIO_TYPE as u32, VFIO_BASE + 10);
ioctl_io_nr!(VFIO_DEVICE_RESET, VFIO_TYPE as u32, VFIO_BASE + 11);
ioctl_io_nr!(VFIO_IOMMU_GET_INFO, VFIO_TYPE as u32, VFIO_BASE + 12);
ioctl_io_nr!(VFIO_IOMMU_MAP_DMA, VFIO_TYPE as u32, VFIO_BASE + 13);
ioctl_io_nr!(VFIO_IOMMU_UNMAP_DMA, VFIO_TYPE as u32, VFIO_BASE + 14);
ioctl_io_nr!(VFIO_DEVICE_BIND_IOMMUFD, VFIO_TYPE as u32, VFIO_BASE + 18);
ioctl_io_nr!(
    VFIO_DEVICE_ATTACH_IOMMUFD_PT,
    VFIO_TYPE as u32,
    VFIO_BASE + 19
);
ioctl_io_nr!(IOMMU_IOAS_IOVA_RANGES, IOMMUFD_TYPE, 0x84);

/// The type of the requests to an iommufd.
const IOMMUFD_TYPE: u32 = 0x3b;

/// The size of a structure, for its own field `argsz`.
#[allow(clippy::cast_possible_truncation, reason = "structures are small")]
pub const fn argsz<T>() -> u32 {
    size_of::<T>() as u32
}

/// Fails with the errno if a request returned a negative number.
fn check(result: i32) -> io::Result<i32> {
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(result)
}

/// Returns the version of the interface.
pub fn api_version(container: &File) -> io::Result<i32> {
    // SAFETY: the request takes no argument.
    check(unsafe { ioctl(container, VFIO_GET_API_VERSION()) })
}

/// Whether the container can have an IOMMU of this type.
pub fn has_extension(container: &File, extension: u32) -> io::Result<bool> {
    // SAFETY: the argument is a number.
    let result = unsafe { ioctl_with_val(container, VFIO_CHECK_EXTENSION(), extension.into()) };
    check(result).map(|found| found > 0)
}

/// Chooses the type of the container's IOMMU.
pub fn set_iommu(container: &File, kind: u32) -> io::Result<()> {
    // SAFETY: the argument is a number.
    check(unsafe { ioctl_with_val(container, VFIO_SET_IOMMU(), kind.into()) }).map(drop)
}

/// Whether no device of the group is in use by the host.
pub fn is_viable(group: &File) -> io::Result<bool> {
    let mut status = vfio_group_status {
        argsz: argsz::<vfio_group_status>(),
        ..vfio_group_status::default()
    };
    // SAFETY: `status` is the structure of this request and outlives it.
    check(unsafe { ioctl_with_mut_ref(group, VFIO_GROUP_GET_STATUS(), &mut status) })?;
    Ok(status.flags & VFIO_GROUP_FLAGS_VIABLE != 0)
}

/// Puts a group into a container.
pub fn set_container(group: &File, container: &File) -> io::Result<()> {
    let number = container.as_raw_fd();
    // SAFETY: `number` outlives the request.
    check(unsafe { ioctl_with_ref(group, VFIO_GROUP_SET_CONTAINER(), &number) }).map(drop)
}

/// Takes a group out of its container. Fails as long as a device of it is open.
pub fn unset_container(group: &File) -> io::Result<()> {
    // SAFETY: the request takes no argument.
    check(unsafe { ioctl(group, VFIO_GROUP_UNSET_CONTAINER()) }).map(drop)
}

/// Opens a device of a group.
pub fn device_of_group(group: &File, name: &CStr) -> io::Result<File> {
    // SAFETY: `name` outlives the request, which reads it up to its end.
    let fd = unsafe { ioctl_with_ptr(group, VFIO_GROUP_GET_DEVICE_FD(), name.as_ptr()) };
    // SAFETY: a new descriptor that nothing else owns.
    check(fd).map(|fd| unsafe { File::from_raw_fd(fd) })
}

/// Binds the file of a device to an iommufd.
pub fn bind_iommufd(device: &File, iommufd: RawFd) -> io::Result<()> {
    let mut request = vfio_device_bind_iommufd {
        argsz: argsz::<vfio_device_bind_iommufd>(),
        iommufd,
        ..vfio_device_bind_iommufd::default()
    };
    // SAFETY: `request` is the structure of this request and outlives it.
    check(unsafe { ioctl_with_mut_ref(device, VFIO_DEVICE_BIND_IOMMUFD(), &mut request) }).map(drop)
}

/// Attaches a device to an IOAS of its iommufd.
pub fn attach_ioas(device: &File, ioas: u32) -> io::Result<()> {
    let mut request = vfio_device_attach_iommufd_pt {
        argsz: argsz::<vfio_device_attach_iommufd_pt>(),
        pt_id: ioas,
        ..vfio_device_attach_iommufd_pt::default()
    };
    // SAFETY: `request` is the structure of this request and outlives it.
    let result =
        unsafe { ioctl_with_mut_ref(device, VFIO_DEVICE_ATTACH_IOMMUFD_PT(), &mut request) };
    check(result).map(drop)
}

/// Returns the kind of a device and how many regions and interrupt indexes it has.
pub fn device_info(device: &File) -> io::Result<DeviceInfo> {
    let mut info = vfio_device_info {
        argsz: argsz::<vfio_device_info>(),
        ..vfio_device_info::default()
    };
    // SAFETY: `info` is the structure of this request and outlives it.
    check(unsafe { ioctl_with_mut_ref(device, VFIO_DEVICE_GET_INFO(), &mut info) })?;
    Ok(DeviceInfo {
        flags: info.flags,
        regions: info.num_regions,
        irqs: info.num_irqs,
    })
}

/// Makes a request whose answer begins with the answer's length, which may exceed the room.
fn with_room(
    file: &File,
    request: libc::c_ulong,
    room: usize,
    fill: impl FnOnce(&mut [u32]),
) -> io::Result<Vec<u8>> {
    // Words of 8 bytes, since the structures have such fields.
    let mut words = vec![0_u64; room.div_ceil(8)];
    let bytes = words.len() * 8;
    // SAFETY: `halves` is the memory of `words` as words of 4 bytes, which need less alignment and may have any value.
    let halves = unsafe { std::slice::from_raw_parts_mut(words.as_mut_ptr().cast(), bytes / 4) };
    halves[0] = u32::try_from(bytes).map_err(io::Error::other)?;
    fill(halves);
    // SAFETY: `words` has the room that its first word says, and outlives the request.
    check(unsafe { ioctl_with_mut_ptr(file, request, words.as_mut_ptr()) })?;
    Ok(words.iter().flat_map(|word| word.to_ne_bytes()).collect())
}

/// Returns the answer about a region, with its capabilities as far as there is room for them.
pub fn region_info(device: &File, index: u32, room: usize) -> io::Result<Vec<u8>> {
    with_room(device, VFIO_DEVICE_GET_REGION_INFO(), room, |words| {
        words[2] = index;
    })
}

/// Returns the answer about the IOMMU of a container, with its capabilities as far as there is room for them.
pub fn iommu_info(container: &File, room: usize) -> io::Result<Vec<u8>> {
    with_room(container, VFIO_IOMMU_GET_INFO(), room, |_| {})
}

/// Returns the flags and the count of an interrupt index.
pub fn irq_info(device: &File, index: u32) -> io::Result<(u32, u32)> {
    let mut info = vfio_irq_info {
        argsz: argsz::<vfio_irq_info>(),
        index,
        ..vfio_irq_info::default()
    };
    // SAFETY: `info` is the structure of this request and outlives it.
    check(unsafe { ioctl_with_mut_ref(device, VFIO_DEVICE_GET_IRQ_INFO(), &mut info) })?;
    Ok((info.flags, info.count))
}

/// Makes a request about interrupts.
pub fn set_irqs(device: &File, request: &SetIrqs<'_>) -> io::Result<()> {
    let action = match request.action {
        Action::Mask => VFIO_IRQ_SET_ACTION_MASK,
        Action::Unmask => VFIO_IRQ_SET_ACTION_UNMASK,
        Action::Trigger => VFIO_IRQ_SET_ACTION_TRIGGER,
    };
    let (kind, count, fds) = match request.data {
        Data::None(count) => (VFIO_IRQ_SET_DATA_NONE, count, &[][..]),
        Data::Eventfds(fds) => {
            let count = u32::try_from(fds.len()).map_err(io::Error::other)?;
            (VFIO_IRQ_SET_DATA_EVENTFD, count, fds)
        }
    };
    // struct vfio_irq_set: argsz, flags, index, start, count, and the numbers of eventfds.
    let head = [0, kind | action, request.index, request.start, count];
    let numbers = fds
        .iter()
        .map(|fd| fd.map_or(-1, AsRawFd::as_raw_fd).cast_unsigned());
    let mut words: Vec<u32> = head.into_iter().chain(numbers).collect();
    words[0] = u32::try_from(words.len() * 4).map_err(io::Error::other)?;
    // SAFETY: `words` has the number of bytes in its first word, and outlives the request.
    let result = unsafe { ioctl_with_ptr(device, VFIO_DEVICE_SET_IRQS(), words.as_ptr()) };
    match check(result)? {
        0 => Ok(()),
        // The host has fewer interrupts than were asked for, and has enabled none.
        had => Err(io::Error::other(format!(
            "the host has {had} of {count} interrupts"
        ))),
    }
}

/// Resets a device.
pub fn reset(device: &File) -> io::Result<()> {
    // SAFETY: the request takes no argument.
    check(unsafe { ioctl(device, VFIO_DEVICE_RESET()) }).map(drop)
}

/// Maps guest memory for the devices of a container.
pub fn map_dma(container: &File, address: u64, region: &GuestRegionMmap) -> io::Result<()> {
    let request = vfio_iommu_type1_dma_map {
        argsz: argsz::<vfio_iommu_type1_dma_map>(),
        flags: VFIO_DMA_MAP_FLAG_READ | VFIO_DMA_MAP_FLAG_WRITE,
        vaddr: region.as_ptr() as u64,
        iova: address,
        size: region.len(),
    };
    // SAFETY: `request` is the structure of this request and outlives it. The memory is guest memory, which no code
    // refers to as Rust values, and the kernel keeps its pages until they are unmapped.
    check(unsafe { ioctl_with_ref(container, VFIO_IOMMU_MAP_DMA(), &request) }).map(drop)
}

/// Unmaps a range of addresses and returns how many bytes were mapped there.
pub fn unmap_dma(container: &File, address: u64, size: u64) -> io::Result<u64> {
    let mut request = vfio_iommu_type1_dma_unmap {
        argsz: argsz::<vfio_iommu_type1_dma_unmap>(),
        iova: address,
        size,
        ..vfio_iommu_type1_dma_unmap::default()
    };
    // SAFETY: `request` is the structure of this request and outlives it.
    check(unsafe { ioctl_with_mut_ref(container, VFIO_IOMMU_UNMAP_DMA(), &mut request) })?;
    Ok(request.size)
}

/// Returns the alignment that an IOAS needs, and the ranges that it can map as pairs of first and last address (`struct
/// iommu_ioas_iova_ranges`).
pub fn ioas_ranges(iommufd: &impl AsRawFd, ioas: u32) -> io::Result<(u64, Vec<(u64, u64)>)> {
    const MOST: u32 = 256;
    #[repr(C)]
    struct Ranges {
        size: u32,
        ioas: u32,
        count: u32,
        reserved: u32,
        list: u64,
        alignment: u64,
    }
    let mut list = [[0_u64; 2]; MOST as usize];
    let mut request = Ranges {
        size: argsz::<Ranges>(),
        ioas,
        count: MOST,
        reserved: 0,
        list: list.as_mut_ptr() as u64,
        alignment: 0,
    };
    // SAFETY: `request` is the structure of this request, `list` has room for the number of pairs in it, and both
    // outlive it.
    check(unsafe { ioctl_with_mut_ref(iommufd, IOMMU_IOAS_IOVA_RANGES(), &mut request) })?;
    let found = list.iter().take(request.count as usize);
    let pairs = found.map(|[first, last]| (*first, *last)).collect();
    Ok((request.alignment, pairs))
}
