//! The file tree with which L1 starts: newc archives, uncompressed because decompression in L1 is slow.
//!
//! A tree consists of two archives in one file. The first has the kernel's modules and stays in the cache. The second
//! has the program, its libraries and everything else that one run needs. The host's files keep their paths, including
//! symbolic links, so that paths compiled or configured into a program stay valid.

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
