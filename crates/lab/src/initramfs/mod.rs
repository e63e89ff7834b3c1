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

pub use archive::Archive;
pub(crate) use archive::not_utf8;
pub use closure::Closure;
pub use elf::ElfFacts;
pub use script::{Interpreter, modules, with};
pub use search::LibrarySearch;
