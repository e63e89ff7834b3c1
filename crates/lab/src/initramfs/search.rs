//! The folders that the dynamic loader searches for libraries (ld.so(8)).

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The loader's folders in search order, except those that an ELF itself names (RPATH, RUNPATH).
#[derive(Clone, Debug, Default)]
pub struct LibrarySearch {
    /// The working directory, to which relative folders are relative.
    pub directory: PathBuf,
    /// `LD_LIBRARY_PATH`; an empty entry is the working directory.
    pub environment: Vec<PathBuf>,
    /// The folders of `/etc/ld.so.conf`, then the loader's default folders.
    pub system: Vec<PathBuf>,
}

impl LibrarySearch {
    /// Returns the folders of this host, with this process's `LD_LIBRARY_PATH`.
    pub fn host(triplet: &str) -> Self {
        let environment = std::env::var_os("LD_LIBRARY_PATH").map(|list| {
            let folders = list.as_bytes().split(|byte| b":;".contains(byte));
            let folders = folders.map(|folder| PathBuf::from(OsStr::from_bytes(folder)));
            folders.collect()
        });
        let mut system = Vec::new();
        configured(Path::new("/etc/ld.so.conf"), &mut system, 0);
        for root in ["/lib", "/usr/lib"] {
            system.push(Path::new(root).join(triplet));
        }
        system.extend(["/lib64", "/usr/lib64", "/lib", "/usr/lib"].map(PathBuf::from));
        Self {
            // Without a working directory, relative folders are not searched.
            directory: std::env::current_dir().unwrap_or_default(),
            environment: environment.unwrap_or_default(),
            system,
        }
    }
}

/// Reads a configuration file of `ldconfig`. Each line is a folder or `include PATTERN`.
fn configured(file: &Path, folders: &mut Vec<PathBuf>, depth: u32) {
    // The file is optional, and might include itself.
    let Ok(text) = fs::read_to_string(file) else {
        return;
    };
    if depth > 8 {
        return;
    }
    for line in text
        .lines()
        .map(|line| line.split('#').next().unwrap_or_default().trim())
    {
        if let Some(pattern) = line.strip_prefix("include ") {
            for file in expand(&file.with_file_name(pattern.trim())) {
                configured(&file, folders, depth + 1);
            }
        } else if line.starts_with('/') {
            folders.push(PathBuf::from(line));
        }
    }
}

/// Expands one `*` in the file name, as in `folder/*.conf`. Distributions use no other patterns.
fn expand(pattern: &Path) -> Vec<PathBuf> {
    let (Some(folder), Some(name)) = (
        pattern.parent(),
        pattern.file_name().and_then(|name| name.to_str()),
    ) else {
        return Vec::new();
    };
    let Some((before, after)) = name.split_once('*') else {
        return vec![pattern.to_path_buf()];
    };
    let Ok(list) = fs::read_dir(folder) else {
        return Vec::new();
    };
    let names = list
        .flatten()
        .map(|item| item.file_name().to_string_lossy().into_owned());
    let mut names: Vec<_> = names
        .filter(|name| name.starts_with(before) && name.ends_with(after))
        .collect();
    names.sort();
    names.into_iter().map(|name| folder.join(name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn configuration_files_include_each_other_without_end_only_once_too_often() {
        let folder = tempfile::tempdir().unwrap();
        let main = folder.path().join("ld.so.conf");
        fs::write(&main, "include conf.d/*.conf\ninclude ld.so.conf\n/last\n").unwrap();
        fs::create_dir(folder.path().join("conf.d")).unwrap();
        fs::write(
            folder.path().join("conf.d/b.conf"),
            "# comment\n/b # here\n",
        )
        .unwrap();
        fs::write(folder.path().join("conf.d/a.conf"), "/a\n").unwrap();
        fs::write(folder.path().join("conf.d/a.old"), "/old\n").unwrap();
        let mut folders = Vec::new();
        configured(&main, &mut folders, 0);
        assert_eq!(folders[..2], [PathBuf::from("/a"), PathBuf::from("/b")]);
        assert_eq!(folders.last().unwrap(), Path::new("/last"));
        assert!(!folders.contains(&PathBuf::from("/old")));
    }
}
