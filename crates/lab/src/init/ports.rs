//! Finds virtio-serial ports by name.

use std::fs::{self, File};
use std::io;
use std::thread;
use std::time::Duration;

/// How often a port that is not there yet is looked for, and the pause before each further time: a driver that has just
/// been loaded makes its ports a little later.
const ATTEMPTS: u32 = 500;
const PAUSE: Duration = Duration::from_millis(10);

/// Opens the port with this name.
pub fn open(name: &str) -> io::Result<File> {
    for _ in 1..ATTEMPTS {
        match find(name) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => thread::sleep(PAUSE),
            result => return result,
        }
    }
    find(name)
}

fn find(name: &str) -> io::Result<File> {
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
