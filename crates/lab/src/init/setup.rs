//! Mounts the kernel's file systems where programs expect them, and loads modules in the order of their file names.

use std::ffi::CString;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use rustix::mount::{MountFlags, mount};
use rustix::system::finit_module;

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
        let options = CString::new(*options).unwrap_or_default();
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

/// Loads every module in `folder`; returns a message for each that failed.
pub fn load_modules(folder: &str) -> Vec<String> {
    let Ok(list) = fs::read_dir(folder) else {
        return Vec::new();
    };
    let mut paths: Vec<PathBuf> = list.flatten().map(|item| item.path()).collect();
    paths.sort();
    let mut notes = Vec::new();
    let line = fs::read_to_string("/proc/cmdline").unwrap_or_default();
    for path in paths {
        let options = CString::new(options(&line, &path)).unwrap_or_default();
        let loaded = File::open(&path).and_then(|file| Ok(finit_module(file, &options, 0)?));
        match loaded {
            Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
                notes.push(format!("cannot load {}: {error}", path.display()));
            }
            _ => {}
        }
    }
    notes
}

/// The options for the module in this file, which has a number before its name: the kernel leaves parameters of the form
/// `module.option` to the program that loads the module.
fn options(line: &str, path: &Path) -> String {
    let name = path.file_stem().unwrap_or_default().to_string_lossy();
    let name = name.split_once('-').map_or(&*name, |(_, name)| name);
    let own = |word: &&str| {
        word.split_once('.')
            .is_some_and(|(module, _)| module.replace('-', "_") == name)
    };
    let options = line.split_whitespace().filter(own);
    let options = options.filter_map(|word| Some(word.split_once('.')?.1));
    options.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_module_gets_its_own_parameters_of_the_kernels() {
        let line = "quiet kvm-amd.avic=1 kvm.x=2 a.b kvm_amd.npt=0\n";
        let path = Path::new("/lab/modules/001-kvm_amd.ko");
        assert_eq!(options(line, path), "avic=1 npt=0");
        assert_eq!(options(line, Path::new("000-ccp.ko")), "");
    }
}
