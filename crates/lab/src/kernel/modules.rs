//! A kernel's module folder, and the order in which modules must be loaded.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use object::{Object, ObjectSection};

use super::unpack;
use crate::error::{LabError, cannot, failed};

/// A decompressed module.
#[derive(Clone, Debug)]
pub struct KernelModule {
    /// The module's name, with underscores.
    pub name: String,
    /// The ELF object.
    pub bytes: Vec<u8>,
}

impl KernelModule {
    /// Reads a module from a file outside the module folder.
    pub fn read(path: &Path) -> Result<Self, LabError> {
        Ok(Self {
            name: module_name(path).unwrap_or_default(),
            bytes: fs::read(path).map_err(cannot("read", path))?,
        })
    }
}

/// The module folder of a kernel, `/lib/modules/VERSION`.
#[derive(Debug)]
pub struct ModuleTree {
    folder: PathBuf,
    files: BTreeMap<String, PathBuf>,
    builtin: Vec<String>,
}

impl ModuleTree {
    /// Lists the modules below `folder`. `version` is the kernel's version, named in the error if there are no modules.
    pub fn open(folder: &Path, version: &str) -> Result<Self, LabError> {
        let mut files = BTreeMap::new();
        if folder.is_dir() {
            list(folder, &mut files)?;
        }
        if files.is_empty() {
            let folder = folder.display();
            return Err(failed!("no modules of Linux {version} in {folder}")
                .hint("name their folder with `vmbell lab kernel --modules`, or `none` if KVM is built in"));
        }
        // The file is absent if the kernel has no built-in modules.
        let builtin = fs::read_to_string(folder.join("modules.builtin")).unwrap_or_default();
        let builtin = builtin
            .lines()
            .filter_map(|line| module_name(Path::new(line)))
            .collect();
        Ok(Self {
            folder: folder.to_path_buf(),
            files,
            builtin,
        })
    }

    /// Returns the file of a module.
    pub fn file(&self, name: &str) -> Option<&Path> {
        self.files.get(&canonical(name)).map(PathBuf::as_path)
    }

    /// Returns a text that changes if a module is rebuilt: each module's size and time, and the built-in modules.
    pub fn state(&self) -> String {
        let file = |(name, path): (&String, &PathBuf)| {
            let state = fs::metadata(path).ok();
            let state = state.map(|file| (file.len(), file.mtime(), file.mtime_nsec()));
            format!("{name} {state:?}\n")
        };
        let files: String = self.files.iter().map(file).collect();
        files + &self.builtin.join("\n")
    }

    /// Returns the named modules and all their dependencies, each module after the modules that it depends on.
    pub fn load_order(&self, names: &[&str]) -> Result<Vec<KernelModule>, LabError> {
        let mut order = Vec::new();
        for name in names {
            self.add(&canonical(name), &mut Vec::new(), &mut order)?;
        }
        Ok(order)
    }

    /// Returns the names of a module's parameters, sorted; `None` if the module is built in.
    pub fn parameters(&self, name: &str) -> Result<Option<Vec<String>>, LabError> {
        let name = canonical(name);
        let Some(path) = self.files.get(&name) else {
            return match self.builtin.contains(&name) {
                true => Ok(None),
                false => Err(no_module(&name, &self.folder)),
            };
        };
        // An entry is `parmtype=NAME:TYPE`.
        let entries = module_info(&read(path)?, path, "parmtype=")?;
        let names = entries
            .iter()
            .filter_map(|entry| entry.split(':').next().map(str::to_owned));
        let mut names: Vec<String> = names.collect();
        names.sort();
        Ok(Some(names))
    }

    fn add(
        &self,
        name: &str,
        above: &mut Vec<String>,
        order: &mut Vec<KernelModule>,
    ) -> Result<(), LabError> {
        // Modules with a dependency cycle cannot be loaded in any order; L1's kernel reports that.
        if above.iter().any(|other| other == name) || order.iter().any(|module| module.name == name)
        {
            return Ok(());
        }
        let Some(path) = self.files.get(name) else {
            if self.builtin.iter().any(|builtin| builtin == name) {
                return Ok(());
            }
            return Err(no_module(name, &self.folder));
        };
        let bytes = without_signature(read(path)?);
        above.push(name.to_owned());
        for dependency in dependencies(&bytes, path)? {
            self.add(&dependency, above, order)?;
        }
        above.pop();
        order.push(KernelModule {
            name: name.to_owned(),
            bytes,
        });
        Ok(())
    }
}

/// Makes the error of a module that is neither in the folder nor built in.
pub(crate) fn no_module(name: &str, folder: &Path) -> LabError {
    failed!("module {name} is not in {}", folder.display())
}

/// Reads a module and decompresses it.
fn read(path: &Path) -> Result<Vec<u8>, LabError> {
    let bytes = fs::read(path).map_err(cannot("read", path))?;
    match unpack(&bytes) {
        Some(result) => result.map_err(cannot("decompress the module in", path)),
        None => Ok(bytes),
    }
}

/// Returns the modules that a module depends on. Soft dependencies are not included.
fn dependencies(bytes: &[u8], path: &Path) -> Result<Vec<String>, LabError> {
    let lists = module_info(bytes, path, "depends=")?;
    let names = lists.iter().flat_map(|list| list.split(','));
    Ok(names
        .filter(|name| !name.is_empty())
        .map(canonical)
        .collect())
}

/// Returns the entries of the `.modinfo` section that begin with `key`, without it.
fn module_info(bytes: &[u8], path: &Path, key: &str) -> Result<Vec<String>, LabError> {
    let bad = |error: object::Error| {
        failed!("module {} is not an ELF object", path.display()).because(error)
    };
    let file = object::File::parse(bytes).map_err(bad)?;
    let Some(section) = file.section_by_name(".modinfo") else {
        return Ok(Vec::new());
    };
    let data = section.data().map_err(bad)?;
    let entries = data
        .split(|byte| *byte == 0)
        .filter_map(|entry| entry.strip_prefix(key.as_bytes()));
    Ok(entries
        .map(|entry| String::from_utf8_lossy(entry).into_owned())
        .collect())
}

/// Removes the signature: L1 has no key to check it, and trying takes a tenth of the whole boot. The layout is `struct
/// module_signature` of Linux `include/linux/module_signature.h`.
fn without_signature(mut bytes: Vec<u8>) -> Vec<u8> {
    const MARK: &[u8] = b"~Module signature appended~\n";
    const DESCRIPTION: usize = 12;
    if bytes.ends_with(MARK) {
        let end = bytes.len() - MARK.len();
        if let Some([.., a, b, c, d]) = bytes.get(end.saturating_sub(DESCRIPTION)..end) {
            let signature = u32::from_be_bytes([*a, *b, *c, *d]) as usize;
            if let Some(length) = end.checked_sub(DESCRIPTION + signature) {
                bytes.truncate(length);
            }
        }
    }
    bytes
}

fn list(folder: &Path, files: &mut BTreeMap<String, PathBuf>) -> Result<(), LabError> {
    for item in fs::read_dir(folder).map_err(cannot("list", folder))? {
        let item = item.map_err(cannot("list", folder))?;
        let path = item.path();
        // The symbolic links `build` and `source` are not followed.
        if item.file_type().is_ok_and(|kind| kind.is_dir()) {
            list(&path, files)?;
        } else if let Some(name) = module_name(&path) {
            files.insert(name, path);
        }
    }
    Ok(())
}

/// Returns the module's name for a file name: `kvm-amd.ko.xz` gives `kvm_amd`.
fn module_name(path: &Path) -> Option<String> {
    let name = path.file_name()?.to_str()?;
    let (stem, extension) = name.split_once(".ko")?;
    matches!(extension, "" | ".xz" | ".zst" | ".gz").then(|| canonical(stem))
}

fn canonical(name: &str) -> String {
    name.replace('-', "_")
}

#[cfg(test)]
#[path = "modules_test.rs"]
mod tests;
