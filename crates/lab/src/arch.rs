//! The architectures that the lab knows, with the names that Rust, QEMU and Debian give them.
//!
//! QEMU runs on the host's architecture and L1 on the board's. The two may be the same.

/// An architecture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arch {
    /// The architecture's name in Rust, QEMU and `uname -m`.
    pub name: &'static str,
    /// The architecture's name in Debian's packages and folders.
    pub package: &'static str,
    /// The name of the multiarch folder below `lib`.
    pub triplet: &'static str,
    /// The dynamic loader's file name.
    pub loader: &'static str,
}

impl Arch {
    /// x86-64.
    pub const X86_64: Self = Self {
        name: "x86_64",
        package: "amd64",
        triplet: "x86_64-linux-gnu",
        loader: "ld-linux-x86-64.so.2",
    };

    /// arm64.
    pub const AARCH64: Self = Self {
        name: "aarch64",
        package: "arm64",
        triplet: "aarch64-linux-gnu",
        loader: "ld-linux-aarch64.so.1",
    };

    /// This process's architecture, if the lab knows it.
    pub fn host() -> Option<Self> {
        [Self::X86_64, Self::AARCH64]
            .into_iter()
            .find(|arch| arch.name == std::env::consts::ARCH)
    }
}
