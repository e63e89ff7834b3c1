//! Our own module that takes over KVM's ioeventfds, `kernel/kvm-ioeventfd`: its sources, which this program has.

use std::fs;
use std::path::Path;

use super::KvmError;
use crate::FileError;
use crate::cache::hash_bytes;

/// The module's name, and that of its file.
pub(crate) const MODULE: &str = "kvm_ioeventfd";

macro_rules! own {
    ($($name:literal),* $(,)?) => {
        [$(($name, include_str!(concat!("../../kvm-ioeventfd/", $name)))),*]
    };
}

const OWN: [(&str, &str); 7] = own![
    "Kbuild",
    "group.c",
    "hook.c",
    "internal.h",
    "kvm_ioeventfd.h",
    "main.c",
    "write.c",
];

/// The SHA-256 of the sources.
pub(crate) fn digest() -> String {
    hash_bytes(format!("{OWN:?}").as_bytes())
}

/// Writes the sources.
pub(crate) fn write_own(folder: &Path) -> Result<(), KvmError> {
    fs::create_dir_all(folder).map_err(FileError::of("make", folder))?;
    for (name, text) in OWN {
        let path = folder.join(name);
        fs::write(&path, text).map_err(FileError::of("write", path))?;
    }
    Ok(())
}
