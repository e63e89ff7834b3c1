//! Finds virtio-serial ports by name.

use std::fs::{self, File};
use std::io;

/// Opens the port with this name.
pub fn open(name: &str) -> io::Result<File> {
    for item in fs::read_dir("/sys/class/virtio-ports")?.flatten() {
        let found = fs::read_to_string(item.path().join("name")).unwrap_or_default();
        if found.trim_end() == name {
            let path = std::path::Path::new("/dev").join(item.file_name());
            return File::options().read(true).write(true).open(path);
        }
    }
    Err(io::Error::new(
        io::ErrorKind::NotFound,
        format!("no virtio-serial port {name}"),
    ))
}
