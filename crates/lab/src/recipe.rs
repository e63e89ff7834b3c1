//! The recipe of a cache entry: the text whose SHA-256 names the entry.
//!
//! A recipe names packages, not their versions: those depend on the day of preparation, and the entry's manifest
//! has them. So a prepared entry is found without the network.

use super::arch::Arch;
use super::board::Board;
use super::cache::hash_bytes;

/// Part of each recipe; raised when the code that builds entries from packages changes.
const REVISION: u32 = 2;

/// Packages that QEMU's and the kernel's packages depend on and that the lab never runs. A name that
/// a distribution does not have has no effect.
const STAND_INS: &[&str] = &[
    "adduser",
    "debconf",
    "debconf-2.0",
    "initramfs-tools",
    "ipxe-qemu",
    "kmod",
    "libasound2",
    "libasound2t64",
    "libbrlapi0.8",
    "libcacard0",
    "libepoxy0",
    "libgbm1",
    "libncursesw6",
    "libsndio7.0",
    "libspice-server1",
    "libusb-1.0-0",
    "libusbredirparser1",
    "libusbredirparser1t64",
    "linux-base",
    "linux-initramfs-tool",
    "passwd",
];

/// How to make one cache entry from packages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recipe {
    /// The kind of entry, the first part of its name: `qemu`, `linux` or `shell`.
    pub kind: &'static str,
    /// The architecture of the packages.
    pub architecture: &'static str,
    /// Packages of which any one is enough, best first.
    pub alternatives: &'static [&'static str],
    /// Dependencies that are not downloaded: the placeholder package provides them.
    pub stand_ins: &'static [&'static str],
    /// Modules in the first archive of L1's file tree.
    pub modules: &'static [&'static str],
    /// The command-line option that makes the entry unnecessary.
    pub option: &'static str,
}

impl Recipe {
    /// The recipe of a QEMU that runs on `host`, with all its libraries.
    pub fn qemu(host: Arch, board: &Board) -> Self {
        Self {
            kind: "qemu",
            architecture: host.package,
            alternatives: board.qemu_packages,
            stand_ins: STAND_INS,
            modules: &[],
            option: "--qemu",
        }
    }

    /// The recipe of a kernel with its modules.
    pub fn linux(board: &Board) -> Self {
        Self {
            kind: "linux",
            architecture: board.arch.package,
            alternatives: board.kernel_packages,
            stand_ins: STAND_INS,
            modules: board.modules,
            option: "--kernel",
        }
    }

    /// The recipe of a shell for an L1 that cannot run the host's.
    pub fn shell(board: &Board) -> Self {
        Self {
            kind: "shell",
            architecture: board.arch.package,
            alternatives: &["busybox-static"],
            stand_ins: STAND_INS,
            modules: &[],
            option: "--kernel",
        }
    }

    /// The name of the entry in the cache.
    pub fn entry(&self) -> String {
        format!("{}-{}", self.kind, self.hash())
    }

    /// The SHA-256 of the recipe: the part of the entry's name after its kind.
    pub fn hash(&self) -> String {
        hash_bytes(format!("revision {REVISION}\n{self:?}").as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::super::board::X86_64;
    use super::*;

    #[test]
    fn each_part_of_a_recipe_changes_its_hash() {
        let base = Recipe::linux(&X86_64);
        assert_eq!(base.hash(), Recipe::linux(&X86_64).hash());
        for other in [
            Recipe {
                modules: &["kvm_intel"],
                ..base.clone()
            },
            Recipe {
                alternatives: &["linux-image-amd64"],
                ..base.clone()
            },
            Recipe {
                architecture: "arm64",
                ..base.clone()
            },
        ] {
            assert_ne!(base.hash(), other.hash());
        }
    }
}
