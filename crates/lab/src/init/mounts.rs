//! Mounts the kernel's file systems where programs expect them.

use std::fs;

use rustix::mount::{MountFlags, mount};

/// Type, mount point and options. A file system that the kernel lacks is skipped.
const MOUNTS: &[(&str, &str, &str)] = &[
    ("proc", "/proc", ""),
    ("sysfs", "/sys", ""),
    ("devtmpfs", "/dev", ""),
    ("tmpfs", "/dev/shm", "mode=1777"),
    ("devpts", "/dev/pts", "ptmxmode=0666"),
    ("tracefs", "/sys/kernel/tracing", ""),
    ("debugfs", "/sys/kernel/debug", ""),
];

/// Mounts everything; returns a message for each failure.
pub fn mount_all() -> Vec<String> {
    let mut notes = Vec::new();
    for (kind, place, options) in MOUNTS {
        // This fails for mount points in sysfs and procfs, which exist already or cannot be made.
        let _ = fs::create_dir_all(place);
        let options = std::ffi::CString::new(*options).unwrap_or_default();
        if let Err(error) = mount(
            *kind,
            *place,
            *kind,
            MountFlags::empty(),
            Some(options.as_c_str()),
        ) {
            notes.push(format!("cannot mount {kind} on {place}: {error}"));
        }
    }
    for (link, target) in [
        ("/dev/fd", "/proc/self/fd"),
        ("/dev/stdin", "fd/0"),
        ("/dev/stdout", "fd/1"),
        ("/dev/stderr", "fd/2"),
    ] {
        let _ = std::os::unix::fs::symlink(target, link);
    }
    // Sets IFF_UP, because tests use 127.0.0.1. The kernel adds the address by itself.
    if let Err(error) = fs::write("/sys/class/net/lo/flags", "0x1") {
        notes.push(format!("cannot start the loopback interface: {error}"));
    }
    notes
}
