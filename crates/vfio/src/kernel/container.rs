//! A container: the addresses of one IOMMU, for the devices of its groups (Linux `Documentation/driver-api/vfio.rst`).

use std::collections::HashMap;
use std::ffi::CString;
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::{Arc, Weak};

use vfio_bindings::bindings::vfio::{VFIO_API_VERSION, VFIO_TYPE1v2_IOMMU};
use vmbell::memory::GuestRegionMmap;
use vmbell::sync::Mutex;
use vmbell_hypervisor::AssignedDevices;

use super::super::chain;
use super::super::device::Device;
use super::super::dma::DmaSpace;
use super::super::iova::{IOMMU_INFO, IOMMU_INFO_MAX, Iova, IovaError};
use super::device_file::{Group, KernelFile, Member, RegisteredFile, name, no_iommu, open};
use super::ioctl;
use crate::error::{PassthroughError, PassthroughErrorKind};

/// The file of all containers.
pub const CONTAINER: &str = "/dev/vfio/vfio";

/// An open container, with the groups that are in it.
#[derive(Debug)]
pub struct Container {
    file: Arc<File>,
    groups: Mutex<HashMap<u32, Weak<Group>>>,
}

impl Container {
    /// Opens a container without groups.
    pub fn open() -> Result<Self, PassthroughError> {
        let file = open(Path::new(CONTAINER))?;
        let failed = PassthroughError::system(CONTAINER, "ask for the version of vfio");
        let version = ioctl::api_version(&file).map_err(failed)?;
        if version != VFIO_API_VERSION as i32 {
            let what = format!("version {version}, and {VFIO_API_VERSION} is needed");
            return Err(PassthroughErrorKind::Kernel { what }.into());
        }
        let failed = PassthroughError::system(CONTAINER, "ask for the kinds of iommu");
        if !ioctl::has_extension(&file, VFIO_TYPE1v2_IOMMU).map_err(failed)? {
            let what = "no type 1 iommu (module vfio_iommu_type1)".to_owned();
            return Err(PassthroughErrorKind::Kernel { what }.into());
        }
        Ok(Self {
            file: Arc::new(file),
            groups: Mutex::default(),
        })
    }

    /// Opens the device with this folder in sysfs. Its group is put into the container first, and the backend is notified of
    /// the group before the device is opened.
    pub fn device(
        &self,
        sysfs: &Path,
        backend: Option<&Arc<dyn AssignedDevices>>,
    ) -> Result<Device, PassthroughError> {
        let name = name(sysfs);
        let group = self.group(&name, sysfs, backend)?;
        let text = CString::new(name.as_str()).unwrap_or_default();
        let file =
            ioctl::device_of_group(&group.registered.file, &text).map_err(|source| match source
                .raw_os_error()
            {
                Some(libc::ENODEV | libc::EINVAL) => {
                    PassthroughErrorKind::NotBound(source).of(&name)
                }
                _ => PassthroughError::system(&name, "open it")(source),
            })?;
        let file = KernelFile {
            file: Arc::new(file),
            _member: Member::Group(group),
        };
        Device::new(name, Box::new(file))
    }

    /// Returns the group of a device, and puts the group into this container if necessary.
    fn group(
        &self,
        name: &str,
        sysfs: &Path,
        backend: Option<&Arc<dyn AssignedDevices>>,
    ) -> Result<Arc<Group>, PassthroughError> {
        let number = group_number(name, sysfs)?;
        let mut groups = self.groups.lock();
        if let Some(group) = groups.get(&number).and_then(Weak::upgrade) {
            return Ok(group);
        }
        let path = Path::new("/dev/vfio").join(number.to_string());
        let in_use = |source| PassthroughErrorKind::InUse {
            group: number,
            source,
        };
        let file = open(&path).map_err(|error| match error {
            PassthroughErrorKind::Open { source, .. } if busy(&source) => in_use(source).of(name),
            PassthroughErrorKind::Open { source, .. }
                if source.kind() == io::ErrorKind::NotFound =>
            {
                PassthroughErrorKind::NotBound(source).of(name)
            }
            error => error.into(),
        })?;
        if !ioctl::is_viable(&file).map_err(PassthroughError::system(name, "ask for its group"))? {
            return Err(PassthroughErrorKind::NotViable { group: number }.of(name));
        }
        ioctl::set_container(&file, &self.file).map_err(|source| {
            if busy(&source) {
                return in_use(source).of(name);
            }
            no_iommu("put its group into a container", name, source)
        })?;
        // `groups` cannot say this: a group that is being dropped now may still be in the container.
        if !self.has_iommu() {
            ioctl::set_iommu(&self.file, VFIO_TYPE1v2_IOMMU)
                .map_err(|source| no_iommu("use its iommu", name, source))?;
        }
        let group = Arc::new(Group {
            number,
            registered: RegisteredFile::new(Arc::new(file), backend)?,
            _container: Arc::clone(&self.file),
        });
        groups.insert(group.number, Arc::downgrade(&group));
        Ok(group)
    }
}

impl Container {
    /// Whether a group has given the container an IOMMU.
    fn has_iommu(&self) -> bool {
        let asked = ioctl::iommu_info(&self.file, IOMMU_INFO);
        !asked.is_err_and(|error| error.raw_os_error() == Some(libc::EINVAL))
    }
}

fn busy(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EBUSY | libc::EINVAL))
}

/// Reads the number of a device's group from the link in its folder.
fn group_number(name: &str, sysfs: &Path) -> Result<u32, PassthroughError> {
    let number = |link: &Path| link.file_name()?.to_str()?.parse().ok();
    let link = sysfs.join("iommu_group").read_link();
    link.and_then(|link| number(&link).ok_or_else(|| io::ErrorKind::InvalidData.into()))
        .map_err(|error| PassthroughErrorKind::NoGroup(error).of(name))
}

impl DmaSpace for Container {
    fn iova(&self) -> Result<Iova, PassthroughError> {
        let failed = PassthroughError::system(CONTAINER, "ask for the iommu's addresses");
        let refused = PassthroughErrorKind::Iova;
        let mut answer = ioctl::iommu_info(&self.file, IOMMU_INFO).map_err(failed)?;
        let wanted = chain::word32(&answer, 0).unwrap_or_default();
        if wanted as usize > IOMMU_INFO_MAX {
            return Err(refused(IovaError::Long { len: wanted }).into());
        }
        if wanted as usize > answer.len() {
            answer = ioctl::iommu_info(&self.file, wanted as usize).map_err(failed)?;
        }
        Ok(Iova::parse(&answer).map_err(refused)?)
    }

    fn map(&self, address: u64, region: &GuestRegionMmap) -> io::Result<()> {
        ioctl::map_dma(&self.file, address, region)
    }

    fn unmap(&self, address: u64, size: u64) -> io::Result<()> {
        let unmapped = match ioctl::unmap_dma(&self.file, address, size) {
            Ok(unmapped) => unmapped,
            // The last group has left, which removed all mappings.
            Err(_) if !self.has_iommu() => return Ok(()),
            Err(error) => return Err(error),
        };
        if unmapped != size {
            return Err(io::Error::other(format!(
                "{unmapped:#x} bytes of {size:#x} were mapped"
            )));
        }
        Ok(())
    }
}
