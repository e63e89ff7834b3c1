//! What the lab keeps between runs: unpacked packages, kernels, module archives.
//!
//! The root is `$XDG_CACHE_HOME/vmbell/lab` (or `~/.cache/vmbell/lab`). Everything that can be made again is an
//! *entry*: a folder named after its kind and the SHA-256 of the recipe that makes it. An entry is built in its own
//! folder next to the finished ones and renamed into place as the last step, so a folder with an entry's name is
//! complete. Its manifest has the digest of every file. There are two locks: a process holds one while it makes
//! entries, and every run shares the other, which `clean` takes exclusively.

mod entry;
mod manifest;
mod root;
mod space;

pub use entry::{CacheEntry, EntryDraft};
pub use manifest::{Digest, EntryManifest, ManifestFile, SourcePackage, hash_bytes, hash_file};
pub(crate) use manifest::{bad_manifest, damaged, hash_open};
pub use root::{Cache, ListedEntry, Prepare, Use};
pub(crate) use root::{names, user_folder};
pub(crate) use space::require_programs;
pub use space::{DiskSize, require_space};

#[cfg(test)]
#[path = "cache_test.rs"]
mod tests;
