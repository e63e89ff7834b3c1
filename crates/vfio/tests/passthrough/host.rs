//! What this host has, with or without VFIO.

use std::path::Path;

use vmbell_vfio::kernel::{CONTAINER, Container, IOMMUFD, Ioas, Vfio};
use vmbell_vfio::{PassthroughError, PassthroughErrorKind};

/// Returns the file that cannot be opened, if that is the error.
fn missing<T>(result: Result<T, PassthroughError>) -> Option<String> {
    match result {
        Ok(_) => None,
        Err(error) => match &error.kind {
            PassthroughErrorKind::Open { path, .. } => Some(path.display().to_string()),
            _ => panic!("{error}"),
        },
    }
}

#[test]
fn file_that_the_host_lacks_is_named() {
    let lacks = |path: &str| (!Path::new(path).exists()).then(|| path.to_owned());
    assert_eq!(missing(Container::open()), lacks(CONTAINER));
    assert_eq!(missing(Ioas::open()), lacks(IOMMUFD));
}

#[test]
fn device_that_does_not_exist_is_in_no_group() {
    let folder = Path::new("/sys/bus/pci/devices/ffff:ff:1f.7");
    let result = Vfio::open(folder).and_then(|vfio| vfio.device(folder, None));
    let error = result.map(drop).unwrap_err();
    match &error.kind {
        PassthroughErrorKind::NoGroup(_) => {
            assert_eq!(error.device.as_deref(), Some("ffff:ff:1f.7"));
        }
        // This host has no VFIO.
        PassthroughErrorKind::Open { path, .. } => assert_eq!(path, Path::new(CONTAINER)),
        _ => panic!("{error}"),
    }
}
