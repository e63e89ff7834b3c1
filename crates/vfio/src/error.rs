//! Why a device cannot be given to a guest, or cannot be used as requested.

use std::path::PathBuf;
use std::{error, fmt, io};

use super::iova::IovaError;
use super::irq_index::IrqCountError;
use super::region::RegionError;
use vmbell::bus::BusError;

/// An error of passthrough.
#[derive(Debug)]
pub struct PassthroughError {
    /// The device, or the file of VFIO or of the IOMMU, if the error is about one.
    pub device: Option<String>,
    /// What is wrong.
    pub kind: PassthroughErrorKind,
}

impl fmt::Display for PassthroughError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(device) = &self.device {
            write!(f, "{device}: ")?;
        }
        self.kind.fmt(f)
    }
}

impl error::Error for PassthroughError {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        self.kind.source()
    }
}

impl<K: Into<PassthroughErrorKind>> From<K> for PassthroughError {
    fn from(kind: K) -> Self {
        Self {
            device: None,
            kind: kind.into(),
        }
    }
}

/// What is wrong. The text leaves out the device's name, which [`PassthroughError`] adds.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PassthroughErrorKind {
    /// A file of VFIO or of the IOMMU cannot be opened.
    #[error("cannot open {}", path.display())]
    Open {
        /// The file's path.
        path: PathBuf,
        /// Why the file cannot be opened.
        source: io::Error,
    },
    /// The kernel's VFIO lacks what is needed.
    #[error("the kernel's vfio has {what}")]
    Kernel {
        /// What the kernel has or lacks.
        what: String,
    },
    /// The device is in no IOMMU group.
    #[error(
        "in no iommu group: this host has no iommu, or its kernel does not use it (intel_iommu=on)"
    )]
    NoGroup(#[source] io::Error),
    /// Another device of the group is in use by the host.
    #[error(
        "its iommu group {group} is not viable: another device of it is bound to a driver of the host"
    )]
    NotViable {
        /// The number of the device's group.
        group: u32,
    },
    /// The device is not bound to a driver of VFIO.
    #[error("not bound to vfio-pci, vfio-platform or vfio-amba")]
    NotBound(#[source] io::Error),
    /// Another process has the group.
    #[error("its iommu group {group} is in use by another process or another container")]
    InUse {
        /// The number of the device's group.
        group: u32,
        /// What the kernel said.
        source: io::Error,
    },
    /// A request to the kernel failed.
    #[error("cannot {operation}")]
    System {
        /// What the request was to do.
        operation: &'static str,
        /// The kernel's error.
        source: io::Error,
    },
    /// The device is of a bus that cannot be assigned here.
    #[error("neither a pci nor a platform device (flags {flags:#x})")]
    Kind {
        /// The flags that the device reports.
        flags: u32,
    },
    /// The device has more regions or interrupt indexes than any device has.
    #[error("reports {count} regions or interrupt indexes, more than {most}")]
    Indexes {
        /// The number that the device reports.
        count: u32,
        /// The maximum number.
        most: u32,
    },
    /// What the device reports about a region is invalid.
    #[error("the description of region {region} is invalid")]
    Region {
        /// The region's index.
        region: u32,
        /// What is invalid.
        source: RegionError,
    },
    /// What the device reports about its interrupts is invalid.
    #[error("the description of its interrupts is invalid")]
    IrqCount(#[source] IrqCountError),
    /// The device has no such region.
    #[error("no region {region}")]
    NoRegion {
        /// The region's index.
        region: u32,
    },
    /// An access is not in the region.
    #[error("{len} bytes at {offset:#x} are not in region {region}, which has {size:#x}")]
    Access {
        /// The region's index.
        region: u32,
        /// The offset of the access.
        offset: u64,
        /// The access's width in bytes.
        len: usize,
        /// The size of the region.
        size: u64,
    },
    /// The device has no such interrupt.
    #[error("no interrupt {subindex} of index {index}, which has {count}")]
    NoInterrupt {
        /// The index.
        index: u32,
        /// The interrupt.
        subindex: u32,
        /// How many interrupts the index has.
        count: u32,
    },
    /// The interrupts of this index are edges, which cannot be masked.
    #[error("interrupts of index {index} cannot be masked, because they are edges")]
    NotMaskable {
        /// The index.
        index: u32,
    },
    /// A request about an interrupt failed.
    #[error("cannot {operation} interrupt index {index}")]
    Interrupt {
        /// What the request was to do.
        operation: &'static str,
        /// The index.
        index: u32,
        /// The kernel's error.
        source: io::Error,
    },
    /// The device cannot be reset by itself.
    #[error("no reset")]
    NoReset,
    /// The device was given back.
    #[error("the device was given back to the host")]
    GivenBack,
    /// What the IOMMU reports about its addresses is invalid.
    #[error("the iommu's address ranges are invalid")]
    Iova(#[source] IovaError),
    /// Guest memory is at addresses that the IOMMU cannot map.
    #[error(
        "{size:#x} bytes of guest memory at {address:#x} cannot be reached by the device: the iommu maps {windows}"
    )]
    Window {
        /// The guest-physical address.
        address: u64,
        /// The size.
        size: u64,
        /// The addresses that the IOMMU can map, in words.
        windows: String,
    },
    /// Guest memory cannot be mapped for the device.
    #[error("cannot map {size:#x} bytes of guest memory at {address:#x} for the device")]
    Map {
        /// The guest-physical address.
        address: u64,
        /// The size.
        size: u64,
        /// The kernel's error.
        source: io::Error,
    },
    /// The VMM has to see the accesses to a region that the guest reaches without an exit.
    #[error(
        "the vmm delivers its interrupts, so it must see accesses to region {region}, which the guest reaches without exits"
    )]
    Watched {
        /// The region's index.
        region: u32,
    },
    /// A region cannot be at the requested address.
    #[error(transparent)]
    Bus(#[from] BusError),
    /// Guest memory cannot be locked for the device, as DMA requires.
    #[error(
        "cannot lock {size:#x} bytes of guest memory at {address:#x} for the device: memory is short, or this process may not lock that much (ulimit -l)"
    )]
    Lock {
        /// The guest-physical address.
        address: u64,
        /// The size.
        size: u64,
        /// What the kernel said.
        source: io::Error,
    },
    /// The IOMMU cannot confine the device's interrupts, and the host does not allow unconfined ones.
    #[error(
        "its iommu has no interrupt remapping, so that its guest could send any interrupt; \
         allow_unsafe_interrupts=1 of the module vfio_iommu_type1, or iommufd, allows it"
    )]
    UnsafeInterrupts(#[source] io::Error),
    /// The backend refused something.
    #[error(transparent)]
    Backend(#[from] vmbell_hypervisor::Error),
}

impl PassthroughErrorKind {
    /// Makes the error of this device or file.
    pub(super) fn of(self, device: &str) -> PassthroughError {
        PassthroughError {
            device: Some(device.to_owned()),
            kind: self,
        }
    }
}

impl PassthroughError {
    /// Makes the error of a request about `device` that was to do `operation`.
    pub(super) fn system<'n>(
        device: &'n str,
        operation: &'static str,
    ) -> impl Fn(io::Error) -> Self + Copy + use<'n> {
        move |source| PassthroughErrorKind::System { operation, source }.of(device)
    }
}
