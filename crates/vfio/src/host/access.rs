//! The files in `/dev` through which a device is opened. They are not opened to find out: the first to open a group
//! keeps everybody else from it (`EBUSY`).

use std::io;
use std::path::Path;

use rustix::fs::Access;

use super::device::HostDevice;
use super::obstacle::Obstacle;
use super::root::Host;

/// Whether this process may open a file for reading and writing.
pub(super) type MayOpen = fn(&Path) -> io::Result<()>;

pub(super) fn may_open(path: &Path) -> io::Result<()> {
    Ok(rustix::fs::access(
        path,
        Access::READ_OK | Access::WRITE_OK,
    )?)
}

/// What keeps this process from opening the device's files: the container and the group, or iommufd and the device.
/// One of the two ways is enough.
pub(super) fn obstacles(host: &Host, device: &HostDevice) -> Vec<Obstacle> {
    let device_file = device
        .cdev
        .as_ref()
        .map(|cdev| format!("vfio/devices/{cdev}"));
    let by_iommufd = device_file.is_some_and(|file| {
        let files = [file.as_str(), "iommu"];
        files.iter().all(|file| check(host, file).is_none())
    });
    let Some(group) = device.group.filter(|_| !by_iommufd) else {
        return Vec::new();
    };
    let files = ["vfio/vfio".to_owned(), format!("vfio/{group}")];
    files.iter().filter_map(|file| check(host, file)).collect()
}

fn check(host: &Host, file: &str) -> Option<Obstacle> {
    let path = host.dev(file);
    let error = (host.may_open)(&path).err()?;
    let path = format!("/dev/{file}");
    Some(match error.kind() {
        io::ErrorKind::NotFound if file == "vfio/vfio" => Obstacle::NoContainer,
        io::ErrorKind::NotFound => Obstacle::NoFile { path },
        _ => Obstacle::NoPermission {
            path,
            user: host.user,
        },
    })
}
