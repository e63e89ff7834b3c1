//! Finds all files that a dynamically linked program needs, in the same way as its loader.
//!
//! `ldd` runs the program's loader; this module only reads files. Files that a program opens by name at run time
//! (plugins, name services) are not found.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::{ElfFacts, LibrarySearch};
use crate::error::{LabError, failed};

/// The files that a program or a library needs to be loaded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Closure {
    /// The loader and the libraries, under the paths at which they are looked up.
    pub files: BTreeSet<PathBuf>,
    /// Libraries that were not found, each with the object that needs it.
    pub missing: Vec<(PathBuf, String)>,
}

impl Closure {
    /// Finds the closure of `program`; empty if it is static. A library is loaded by the loader of its program.
    pub fn of(
        program: &Path,
        arch: &'static str,
        search: &LibrarySearch,
    ) -> Result<Self, LabError> {
        let facts = ElfFacts::read(program, arch)?;
        if facts.arch != arch {
            return Err(failed!(
                "{} is a program for {}, and L1 is {arch}",
                program.display(),
                facts.arch
            )
            .hint(format!(
                "build it for {arch} (Rust: --target {arch}-unknown-linux-musl; C: {arch}-linux-gnu-gcc -static)"
            )));
        }
        let mut closure = Self::default();
        let mut names = BTreeSet::new();
        if let Some(interpreter) = &facts.interpreter {
            if !interpreter.exists() {
                return Err(failed!(
                    "{} is linked dynamically, and its loader {} is not on this machine",
                    program.display(),
                    interpreter.display()
                )
                .hint(format!(
                    "link the program statically (Rust: --target {arch}-unknown-linux-musl; C: -static)"
                )));
            }
            closure.files.insert(interpreter.clone());
            let name = interpreter.file_name();
            names.extend(name.map(|name| name.to_string_lossy().into_owned()));
        }
        let mut queue = vec![(program.to_path_buf(), facts)];
        while let Some((object, facts)) = queue.pop() {
            for name in &facts.needed {
                // The loader loads only one object per name, even if several objects need it.
                if !names.insert(name.clone()) {
                    continue;
                }
                match find(name, &object, &facts, arch, search) {
                    Some((path, needed)) => {
                        closure.files.insert(path.clone());
                        queue.push((path, needed));
                    }
                    None => closure.missing.push((object.clone(), name.clone())),
                }
            }
        }
        Ok(closure)
    }

    /// Returns this closure if no library is missing. `arch` is L1's architecture.
    pub fn whole(mut self, arch: &'static str) -> Result<Self, LabError> {
        match self.missing.pop() {
            None => Ok(self),
            Some((object, library)) => Err(failed!(
                "{} needs {library}, which is not in the loader's folders",
                object.display()
            )
            .hint(format!(
                "set LD_LIBRARY_PATH, or link the program statically (Rust: \
                 RUSTFLAGS='-C target-feature=+crt-static' or --target {arch}-unknown-linux-musl; C: -static)"
            ))),
        }
    }
}

fn find(
    name: &str,
    object: &Path,
    facts: &ElfFacts,
    arch: &'static str,
    search: &LibrarySearch,
) -> Option<(PathBuf, ElfFacts)> {
    let usable = |path: PathBuf| {
        // Like the loader, skip a library of a different architecture with the same name.
        let facts = ElfFacts::read(&path, arch).ok()?;
        (facts.arch == arch).then_some((path, facts))
    };
    if name.contains('/') {
        return usable(search.directory.join(name));
    }
    let own = |folders: &[String]| {
        folders
            .iter()
            .map(|folder| expand(folder, object))
            .collect::<Vec<_>>()
    };
    // RPATH is ignored if there is a RUNPATH.
    let rpath = if facts.runpath.is_empty() {
        own(&facts.rpath)
    } else {
        Vec::new()
    };
    let runpath = own(&facts.runpath);
    let folders = rpath
        .iter()
        .chain(&search.environment)
        .chain(&runpath)
        .chain(&search.system);
    let paths = folders.map(|folder| search.directory.join(folder).join(name));
    paths.into_iter().find_map(usable)
}

/// Replaces `$ORIGIN` with the folder of the object that contains it.
fn expand(folder: &str, object: &Path) -> PathBuf {
    let real = std::fs::canonicalize(object).unwrap_or_else(|_| object.to_path_buf());
    let origin = real.parent().unwrap_or(Path::new("/")).to_string_lossy();
    PathBuf::from(
        folder
            .replace("$ORIGIN", &origin)
            .replace("${ORIGIN}", &origin),
    )
}

#[cfg(test)]
#[path = "closure_test.rs"]
mod tests;
