//! The folder in which KVM is built. It is next to the files of [`Tools`]' entry, but not part of them.
//!
//! It has hard links to the headers and source in the entry, and the output of builds. A change replaces a link by a
//! separate file, and the next change restores all files that it does not change itself. So `make` sees only the
//! differences to the last build.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::VendorBuild;
use super::changes::{Patch, ReadChanges, own_files};
use super::tools::{Tools, common};
use crate::error::{LabError, cannot, failed};
use crate::out_of_tree::{Make, Release};

/// Leaves out data for debuggers, and signatures, because there is no key.
const ARGUMENTS: [&str; 4] = [
    "CONFIG_DEBUG_INFO=",
    "CONFIG_DEBUG_INFO_BTF=",
    "CONFIG_DEBUG_INFO_BTF_MODULES=",
    "CONFIG_MODULE_SIG_ALL=",
];
/// The list of files that may differ from the package's files.
const CHANGED: &str = "changed";
/// Exists while a build runs. A killed build may have left half a file.
const BUSY: &str = "busy";

/// The folder in which KVM is built.
#[derive(Debug)]
pub(crate) struct KvmTree<'a> {
    folder: PathBuf,
    tools: &'a Tools,
    release: &'a Release,
}

/// Changed files, each with its new content; `None` if the file is removed.
type ChangedFiles = BTreeMap<PathBuf, Option<Vec<u8>>>;

impl<'a> KvmTree<'a> {
    /// Opens the tree in `folder`. The tree is made again if it does not exist, or if a build in it was killed.
    pub(crate) fn open(
        folder: PathBuf,
        tools: &'a Tools,
        release: &'a Release,
    ) -> Result<Self, LabError> {
        let tree = Self {
            folder,
            tools,
            release,
        };
        if tree.folder.exists() && tree.folder.join(BUSY).exists() {
            fs::remove_dir_all(&tree.folder).map_err(cannot("remove", &tree.folder))?;
        }
        if !tree.folder.exists() {
            fs::create_dir_all(tree.folder.join("usr")).map_err(cannot("make", &tree.folder))?;
            tree.mark()?;
            link_below(&tools.root, &tree.folder, Path::new("usr/src"))?;
            // The headers contain links to the build's programs.
            let lib = tree.folder.join("usr/lib");
            std::os::unix::fs::symlink(tools.root.join("usr/lib"), &lib)
                .map_err(cannot("link", lib))?;
            tools.headers.move_to(&tree.folder)?;
            tree.unmark()?;
        }
        Ok(tree)
    }

    /// Returns the files that differ from the package's after the changes, with their content.
    pub(crate) fn changed(
        &self,
        changes: &ReadChanges,
        scratch: &Path,
    ) -> Result<ChangedFiles, LabError> {
        let mut files = ChangedFiles::new();
        if let Some(source) = &changes.source {
            for name in own_files(&common(&self.tools.root, self.release))? {
                if !source.contains_key(&name) {
                    files.insert(name, None);
                }
            }
            files.extend(
                source
                    .iter()
                    .map(|(name, bytes)| (name.clone(), Some(bytes.clone()))),
            );
        }
        for patch in &changes.patches {
            self.patch(patch, &mut files, scratch)?;
        }
        let mut different = ChangedFiles::new();
        for (name, bytes) in files {
            if self.package_has(&name)? != bytes {
                different.insert(name, bytes);
            }
        }
        Ok(different)
    }

    /// Applies a patch to the files as they are after the previous changes.
    fn patch(
        &self,
        patch: &Patch,
        files: &mut ChangedFiles,
        scratch: &Path,
    ) -> Result<(), LabError> {
        if patch.files.is_empty() {
            return Ok(());
        }
        let folder = scratch.join("patched");
        if folder.exists() {
            fs::remove_dir_all(&folder).map_err(cannot("remove", &folder))?;
        }
        fs::create_dir_all(&folder).map_err(cannot("make", &folder))?;
        for name in &patch.files {
            let bytes = match files.get(name) {
                Some(bytes) => bytes.clone(),
                None => self.package_has(name)?,
            };
            if let Some(bytes) = bytes {
                write(&folder.join(name), &bytes)?;
            }
        }
        let text = scratch.join("text.patch");
        write(&text, &patch.text)?;
        let program = self.tools.bin().join("patch");
        let output = Command::new(&program)
            .args(["-p1", "--fuzz=0", "--forward", "--batch"])
            .args(["--no-backup-if-mismatch", "--reject-file=-"])
            .args(["--remove-empty-files", "-d"])
            .arg(&folder)
            .arg("-i")
            .arg(&text)
            .env("LC_ALL", "C")
            .stdin(Stdio::null())
            .output()
            .map_err(cannot("run", program))?;
        if !output.status.success() {
            let said = [output.stdout, output.stderr].concat();
            return Err(failed!(
                "{} does not apply to Linux {}: {}",
                patch.path.display(),
                self.release,
                failed_hunks(&String::from_utf8_lossy(&said))
            ));
        }
        for name in &patch.files {
            files.insert(name.clone(), read(&folder.join(name))?);
        }
        Ok(())
    }

    /// Builds the modules of this build with these changes. Returns the built files.
    pub(crate) fn build(
        &self,
        files: &ChangedFiles,
        build: VendorBuild,
    ) -> Result<Vec<PathBuf>, LabError> {
        self.mark()?;
        self.set(files)?;
        let tree = common(&self.folder, self.release);
        let folder = tree.join("arch/x86/kvm");
        let mut arguments = ARGUMENTS.map(str::to_owned).to_vec();
        arguments.push(build.without.to_owned());
        let made = Make {
            release: self.release,
            folder: &self.tools.headers.folder_in(&self.folder),
            log: &self.folder.join("make.log"),
            bin: &self.tools.bin(),
            environment: &[],
            arguments: &arguments,
        }
        .modules(&folder);
        // If the build fails, the compiler leaves no incomplete file. If the compiler is killed, this process is killed
        // too, and the mark stays.
        self.unmark()?;
        made.map_err(|error| error.reworded(|text| in_the_source(text, &tree)))?;
        Ok(build
            .modules
            .map(|name| folder.join(format!("{name}.ko")))
            .into())
    }

    /// Builds the module with the source in `folder`.
    pub(crate) fn build_module(&self, folder: &Path) -> Result<(), LabError> {
        Make {
            release: self.release,
            folder: &self.tools.headers.folder_in(&self.folder),
            log: &folder.join("make.log"),
            bin: &self.tools.bin(),
            environment: &[],
            arguments: &ARGUMENTS.map(str::to_owned),
        }
        .modules(folder)?;
        Ok(())
    }

    /// Sets the source to the package's source with these changes. Files that do not change keep their times.
    fn set(&self, files: &ChangedFiles) -> Result<(), LabError> {
        let list = self.folder.join(CHANGED);
        let text = read(&list)?.unwrap_or_default();
        let text = String::from_utf8_lossy(&text).into_owned();
        let mut names: BTreeSet<PathBuf> = text.lines().map(PathBuf::from).collect();
        names.extend(files.keys().cloned());
        let lines = |names: &mut dyn Iterator<Item = &PathBuf>| -> String {
            names.map(|name| format!("{}\n", name.display())).collect()
        };
        write(&list, lines(&mut names.iter()).as_bytes())?;
        let tree = common(&self.folder, self.release);
        for name in &names {
            let wanted = match files.get(name) {
                Some(bytes) => bytes.clone(),
                None => self.package_has(name)?,
            };
            let path = tree.join(name);
            if read(&path)? != wanted {
                // Writing through the hard link would change the package's file.
                if path.exists() {
                    fs::remove_file(&path).map_err(cannot("remove", &path))?;
                }
                if let Some(bytes) = wanted {
                    write(&path, &bytes)?;
                }
            }
        }
        write(&list, lines(&mut files.keys()).as_bytes())
    }

    fn package_has(&self, name: &Path) -> Result<Option<Vec<u8>>, LabError> {
        read(&common(&self.tools.root, self.release).join(name))
    }

    fn mark(&self) -> Result<(), LabError> {
        write(&self.folder.join(BUSY), b"")
    }

    fn unmark(&self) -> Result<(), LabError> {
        let path = self.folder.join(BUSY);
        fs::remove_file(&path).map_err(cannot("remove", path))
    }
}

/// Replaces paths in the compiler's output with the source's paths.
fn in_the_source(text: &str, tree: &Path) -> String {
    let tree = format!("{}/", tree.display());
    text.replace(&tree, "")
        .replace("arch/x86/kvm/../../../", "")
}

/// Returns the output of `patch` about hunks that it could not apply, in one line, or its last line if there is none.
fn failed_hunks(text: &str) -> String {
    const REASONS: [&str; 4] = [
        "malformed patch",
        "can't find file",
        "previously applied",
        "already exists",
    ];
    let mut said = Vec::new();
    let mut file = "";
    for line in text.lines() {
        if let Some(name) = line.strip_prefix("patching file ") {
            file = name.trim_matches('\'');
        }
        if line.starts_with("Hunk #") && !line.contains("succeeded") {
            said.push(format!("{file}: {}", line.trim_end_matches('.')));
        } else if REASONS.iter().any(|reason| line.contains(reason)) {
            said.push(line.trim_start_matches("patch: **** ").to_owned());
        }
    }
    match said.as_slice() {
        [] => text.lines().last().unwrap_or_default().to_owned(),
        said => said.join("; "),
    }
}

/// Returns the file's content; `None` if there is no such file.
fn read(path: &Path) -> Result<Option<Vec<u8>>, LabError> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(cannot("read", path)(error)),
    }
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), LabError> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(cannot("make", folder))?;
    }
    fs::write(path, bytes).map_err(cannot("write", path))
}

/// Recreates the folder `name` of `from` in `to`: files as hard links, symbolic links as symbolic links.
fn link_below(from: &Path, to: &Path, name: &Path) -> Result<(), LabError> {
    let (source, target) = (from.join(name), to.join(name));
    fs::create_dir_all(&target).map_err(cannot("make", &target))?;
    for item in fs::read_dir(&source).map_err(cannot("list", &source))? {
        let item = item.map_err(cannot("list", &source))?;
        let (source, target) = (item.path(), target.join(item.file_name()));
        let kind = item.file_type().map_err(cannot("inspect", &source))?;
        if kind.is_dir() {
            link_below(from, to, &name.join(item.file_name()))?;
        } else if kind.is_symlink() {
            let link = fs::read_link(&source).map_err(cannot("read", &source))?;
            std::os::unix::fs::symlink(link, &target).map_err(cannot("link", &target))?;
        } else {
            fs::hard_link(&source, &target).map_err(cannot("link", &target))?;
        }
    }
    Ok(())
}

#[cfg(test)]
#[path = "tree_test.rs"]
mod tests;
