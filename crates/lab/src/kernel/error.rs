//! Why a kernel or its modules cannot be used.

use std::io;
use std::path::PathBuf;

/// What is wrong with a kernel image or a module.
#[derive(Debug, thiserror::Error)]
pub enum KernelError {
    /// A file operation failed.
    #[error("cannot {action} {}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
    /// Neither a bzImage nor an ELF.
    #[error("{} is no kernel: neither a bzImage nor an ELF vmlinux", path.display())]
    NotAKernel {
        /// The file.
        path: PathBuf,
    },
    /// A bzImage whose header points outside of it.
    #[error("{} is a bzImage of {length} bytes whose header says that its kernel is at {offset}, {size} bytes long", path.display())]
    Truncated {
        /// The file.
        path: PathBuf,
        /// Its length.
        length: usize,
        /// Where the compressed kernel starts.
        offset: usize,
        /// How long it is.
        size: usize,
    },
    /// Data in a format that is not known, or broken data.
    #[error("cannot decompress the {what} in {}", path.display())]
    Decompress {
        /// Kernel or module.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// No modules for this kernel.
    #[error("no modules of Linux {version} in {}: name their folder with --modules, or `none` if KVM is built in", folder.display())]
    NoModules {
        /// The kernel's version.
        version: String,
        /// Where they were sought.
        folder: PathBuf,
    },
    /// A module that is neither there nor built in.
    #[error("module {name} is not in {}", folder.display())]
    NoModule {
        /// Its name.
        name: String,
        /// Where it was sought.
        folder: PathBuf,
    },
    /// A module that is no ELF object.
    #[error("module {} is not an ELF object", path.display())]
    BadModule {
        /// The file.
        path: PathBuf,
        /// What the parser says.
        source: object::Error,
    },
}

impl KernelError {
    /// For `map_err` on file operations.
    pub(crate) fn io(
        action: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io {
            action,
            path,
            source,
        }
    }
}
