//! The file tree that L1 starts with: newc archives, uncompressed because unpacking is slow there.
//!
//! A tree has two archives, one after the other in one file. The first holds the kernel's
//! modules and stays in the cache; the second holds the program, its libraries and everything else that one
//! run needs. Files of the host keep their paths, links on the way included, so that what is
//! compiled or configured into a program finds them.

mod archive;
mod closure;
mod elf;
mod script;
mod search;

use crate::FileError;
use std::path::PathBuf;

pub use archive::Archive;
pub use closure::Closure;
pub use elf::ElfFacts;
pub use script::{Interpreter, modules};
pub use search::LibrarySearch;

/// A program or file that cannot be put into L1's file tree.
#[derive(Debug, thiserror::Error)]
pub enum InitramfsError {
    /// A file operation failed.
    #[error(transparent)]
    File(#[from] FileError),
    /// The path is not UTF-8, which the archive's writer needs.
    #[error("{path:?} is not UTF-8, so it cannot go into the lab's file tree")]
    Name {
        /// The path.
        path: PathBuf,
    },
    /// The file is too large for the 32-bit sizes of a newc archive.
    #[error("{} has {size} bytes, and a file in the lab must be smaller than 4 GiB", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// The file's size in bytes.
        size: u64,
    },
    /// The path leads through too many symbolic links, or through a loop of them.
    #[error("{} leads through too many symbolic links", path.display())]
    Links {
        /// The path that was asked for.
        path: PathBuf,
    },
    /// No folder of PATH has the program.
    #[error("no program {name} on PATH")]
    NoProgram {
        /// The program's name.
        name: String,
    },
    /// The program is a script, which only its interpreter can run.
    #[error("{} is a script: run its interpreter, `vmbell lab {} -- {} ...`", path.display(), with(std::iter::once(path).chain(modules)), words.join(" "))]
    Script {
        /// The script.
        path: PathBuf,
        /// The folders of its interpreter's modules.
        modules: Vec<PathBuf>,
        /// The command line for its interpreter.
        words: Vec<String>,
    },
    /// The program is a script, and its interpreter is not here.
    #[error("{} is a script, and its interpreter {interpreter} is not on this machine", path.display())]
    NoInterpreter {
        /// The script.
        path: PathBuf,
        /// The interpreter.
        interpreter: String,
    },
    /// The file is not an ELF program of L1's architecture.
    #[error("{} is not an ELF program for {arch}: it is {found}", path.display())]
    NotElf {
        /// The file.
        path: PathBuf,
        /// L1's architecture.
        arch: &'static str,
        /// What the file is instead, for the message.
        found: String,
    },
    /// The program is one for another architecture.
    #[error(
        "{} is a program for {found}, and L1 is {wanted}: build it for {wanted} \
         (Rust: --target {wanted}-unknown-linux-musl; C: {wanted}-linux-gnu-gcc -static)",
        path.display()
    )]
    Architecture {
        /// The program.
        path: PathBuf,
        /// The program's architecture.
        found: String,
        /// L1's architecture.
        wanted: &'static str,
    },
    /// The program is not a `vmbell`, or one without the lab's first program.
    #[error("{} does not carry the first program of the lab's Linux: it is not a vmbell of this version", path.display())]
    NoFirstProgram {
        /// The file.
        path: PathBuf,
    },
    /// This host does not have the program's dynamic loader.
    #[error(
        "{} is linked dynamically, and its loader {} is not on this machine: link the program statically \
         (Rust: --target {arch}-unknown-linux-musl; C: -static)",
        program.display(),
        loader.display()
    )]
    NoLoader {
        /// The program.
        program: PathBuf,
        /// The loader by its path.
        loader: PathBuf,
        /// L1's architecture.
        arch: &'static str,
    },
    /// The loader's folders do not have a library.
    #[error(
        "{} needs {library}, which is not in the loader's folders: set LD_LIBRARY_PATH, or link the program statically \
         (Rust: RUSTFLAGS='-C target-feature=+crt-static' or --target {arch}-unknown-linux-musl; C: -static)",
        object.display()
    )]
    NoLibrary {
        /// The program or library that needs it.
        object: PathBuf,
        /// The library's name.
        library: String,
        /// L1's architecture.
        arch: &'static str,
    },
}

/// The options that copy these files.
pub fn with<'p>(paths: impl IntoIterator<Item = &'p PathBuf>) -> String {
    let options: Vec<String> = paths
        .into_iter()
        .map(|path| format!("--with {}", path.display()))
        .collect();
    options.join(" ")
}
