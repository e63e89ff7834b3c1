//! The recipe of a cache entry: the text whose SHA-256 names the entry.
//!
//! A recipe names packages, not their versions: those depend on the day of preparation, and the entry's manifest
//! has them. So a prepared entry is found without the network.

use super::arch::Arch;
use super::board::Board;
use super::cache::hash_bytes;
use super::debian::KernelVersion;

/// Part of each recipe; raised when the code that builds entries from packages changes.
const REVISION: u32 = 2;

/// The kind of Debian's kernels that are chosen by a version.
const DEBIAN: &str = "debian";

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
    /// The kind of entry, the first part of its name: `qemu`, `linux`, `debian` or `shell`.
    pub kind: &'static str,
    /// The architecture of the packages.
    pub architecture: &'static str,
    /// Packages of which any one is enough, best first; of one of Debian's kernels, its version.
    pub alternatives: Vec<String>,
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
            alternatives: owned(board.qemu_packages),
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
            alternatives: owned(board.kernel_packages),
            stand_ins: STAND_INS,
            modules: board.modules,
            option: "--kernel",
        }
    }

    /// The recipe of one of Debian's kernels, with its modules.
    pub fn debian(board: &Board, version: &KernelVersion) -> Self {
        Self {
            kind: DEBIAN,
            alternatives: vec![version.to_string()],
            stand_ins: &[],
            ..Self::linux(board)
        }
    }

    /// The recipe of a shell for an L1 that cannot run the host's.
    pub fn shell(board: &Board) -> Self {
        Self {
            kind: "shell",
            architecture: board.arch.package,
            alternatives: owned(&["busybox-static"]),
            stand_ins: STAND_INS,
            modules: &[],
            option: "--kernel",
        }
    }

    /// The release of Debian that has the packages, if their names say one; otherwise the system's own sources have them.
    pub fn release(&self) -> Option<&str> {
        let first = self.alternatives.first()?;
        first.split_once('/').map(|(_, release)| release)
    }

    /// What is made, for people: the kind, or the version of one of Debian's kernels.
    pub fn name(&self) -> &str {
        match self.alternatives.as_slice() {
            [version] if self.kind == DEBIAN => version,
            _ => self.kind,
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

fn owned(names: &[&str]) -> Vec<String> {
    names.iter().map(ToString::to_string).collect()
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
                alternatives: owned(&["linux-image-amd64"]),
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

    #[test]
    fn each_of_debians_kernels_has_an_entry_on_each_board() {
        let entries = ["debian:6.1", "debian:6.12"].map(|text| {
            let version = text.parse().unwrap();
            let recipes = Board::ALL.map(|board| Recipe::debian(&board, &version));
            assert!(recipes.iter().all(|recipe| recipe.name() == text));
            recipes.map(|recipe| recipe.entry())
        });
        let all: std::collections::BTreeSet<String> = entries.concat().into_iter().collect();
        assert_eq!(all.len(), 4, "{all:?}");
        assert!(
            all.iter().all(|entry| entry.starts_with("debian-")),
            "{all:?}"
        );
    }
}
