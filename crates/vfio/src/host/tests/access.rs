//! The files in `/dev`.

use std::io;
use std::path::Path;

use super::super::{Host, Obstacle};
use super::fake::{Fake, NIC};

/// The obstacles for a user who may open what `may_open` says.
fn obstacles(fake: &Fake, may_open: fn(&Path) -> io::Result<()>) -> Vec<Obstacle> {
    let mut host: Host = fake.host();
    host.may_open = may_open;
    host.user = 1000;
    host.obstacles(&fake.find(NIC))
}

fn refused(_: &Path) -> io::Result<()> {
    Err(io::ErrorKind::PermissionDenied.into())
}

fn group_refused(path: &Path) -> io::Result<()> {
    if path.ends_with("dev/vfio/7") {
        return refused(path);
    }
    path.try_exists()?
        .then_some(())
        .ok_or(io::ErrorKind::NotFound.into())
}

#[test]
fn a_group_of_roots_is_given_to_the_user() {
    let obstacles = obstacles(&Fake::ready(), group_refused);
    let [obstacle] = obstacles.as_slice() else {
        panic!("{obstacles:?}");
    };
    assert_eq!(obstacle.to_string(), "no permission to open /dev/vfio/7");
    assert!(obstacle.is_blocking());
}

#[test]
fn the_container_and_the_group_are_both_checked() {
    let no_permission = |path: &str| Obstacle::NoPermission {
        path: path.to_owned(),
        user: 1000,
    };
    let expected = ["/dev/vfio/vfio", "/dev/vfio/7"].map(no_permission);
    assert_eq!(obstacles(&Fake::ready(), refused), expected);
}

#[test]
fn iommufd_and_the_device_are_enough() {
    let fake = Fake::ready();
    fake.write(&format!("sys/bus/pci/devices/{NIC}/vfio-dev/vfio0/dev"), "")
        .write("dev/iommu", "")
        .write("dev/vfio/devices/vfio0", "");
    assert_eq!(obstacles(&fake, group_refused), []);
    fake.remove("dev/iommu");
    assert_eq!(obstacles(&fake, group_refused).len(), 1);
}

#[test]
fn a_container_that_is_missing_is_loaded() {
    let fake = Fake::ready();
    fake.remove("dev/vfio/vfio");
    assert_eq!(fake.obstacles(NIC), [Obstacle::NoContainer]);
}

#[test]
fn a_group_that_is_not_in_dev_is_named() {
    let fake = Fake::ready();
    fake.remove("dev/vfio/7");
    let path = "/dev/vfio/7".to_owned();
    assert_eq!(fake.obstacles(NIC), [Obstacle::NoFile { path }]);
}
