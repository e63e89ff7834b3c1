//! The kernel's file systems where programs expect them.

use std::fs;

use rustix::mount::{MountFlags, mount};

/// Type, place, options. Those that a kernel lacks are left out.
const MOUNTS: &[(&str, &str, &str)] = &[
    ("proc", "/proc", ""),
    ("sysfs", "/sys", ""),
    ("devtmpfs", "/dev", ""),
    ("tmpfs", "/dev/shm", "mode=1777"),
    ("devpts", "/dev/pts", "ptmxmode=0666"),
    ("tracefs", "/sys/kernel/tracing", ""),
    ("debugfs", "/sys/kernel/debug", ""),
];

/// Mounts everything; returns remarks on what failed.
pub fn mount_all() -> Vec<String> {
    let mut notes = Vec::new();
    for (kind, place, options) in MOUNTS {
        // Those below a kernel's own file system exist or cannot be made.
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
    // IFF_UP: tests talk to 127.0.0.1. The kernel adds the address by itself.
    if let Err(error) = fs::write("/sys/class/net/lo/flags", "0x1") {
        notes.push(format!("cannot start the loopback interface: {error}"));
    }
    notes
}
