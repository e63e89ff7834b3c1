//! The recipe of a cache entry: the text whose SHA-256 names the entry.
//!
//! A recipe names packages, not their versions: those depend on the day of preparation, and the entry's manifest
//! has them. So a prepared entry is found without the network.

use std::fmt;

use crate::arch::Arch;
use crate::board::LabBoard;
use crate::cache::hash_bytes;
use crate::debian::KernelVersion;

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

/// Declares [`ProvisionKind`], so that no list of the kinds can lack one.
macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident = $name:literal,)+) => {
        /// The kind of a cache entry, the first part of its name.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum ProvisionKind {
            $($(#[$doc])* $kind,)+
        }

        impl ProvisionKind {
            /// All kinds.
            pub const ALL: &[Self] = &[$(Self::$kind),+];

            /// Its name in that of an entry.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$kind => $name,)+
                }
            }
        }
    };
}

kinds! {
    /// QEMU with its libraries.
    Qemu = "qemu",
    /// The distribution's kernel.
    Linux = "linux",
    /// One of Debian's kernels, chosen by its version.
    Debian = "debian",
    /// A kernel of the user's.
    Kernel = "kernel",
    /// A kernel that checks itself.
    Debug = "debug",
    /// A kernel with the user's changes of KVM.
    Kvm = "kvm",
    /// What builds KVM.
    KvmTools = "kvmtools",
    /// Modules that the kernel lacks.
    Modules = "modules",
    /// A shell.
    Shell = "shell",
    /// A device tree.
    Tree = "tree",
    /// netperf.
    Netperf = "netperf",
}

impl ProvisionKind {
    /// The kind of the entry with this name; `None` if it is one of another version of vmbell.
    pub fn of_entry(name: &str) -> Option<Self> {
        let (kind, _) = name.split_once('-')?;
        Self::ALL.iter().copied().find(|other| other.name() == kind)
    }
}

impl fmt::Display for ProvisionKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// How one cache entry is made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recipe {
    /// The kind of entry.
    pub kind: ProvisionKind,
    /// All that the entry's files depend on.
    text: String,
}

impl Recipe {
    pub(super) fn new(kind: ProvisionKind, text: String) -> Self {
        Self { kind, text }
    }

    /// The name of the entry in the cache.
    pub fn entry(&self) -> String {
        format!("{}-{}", self.kind, self.hash())
    }

    /// The SHA-256 of the text: the part of the entry's name after its kind.
    pub fn hash(&self) -> String {
        hash_bytes(self.text.as_bytes())
    }
}

/// How to make one cache entry from packages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PackageRecipe {
    /// The kind of entry.
    pub kind: ProvisionKind,
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

impl PackageRecipe {
    /// The recipe of a QEMU that runs on `host`, with all its libraries.
    pub fn qemu(host: Arch, board: &LabBoard) -> Self {
        Self {
            kind: ProvisionKind::Qemu,
            architecture: host.package,
            alternatives: owned(board.qemu_packages),
            stand_ins: STAND_INS,
            modules: &[],
            option: "--qemu",
        }
    }

    /// The recipe of a kernel with its modules.
    pub fn linux(board: &LabBoard) -> Self {
        Self {
            kind: ProvisionKind::Linux,
            architecture: board.arch.package,
            alternatives: owned(board.kernel_packages),
            stand_ins: STAND_INS,
            modules: board.modules,
            option: "--kernel",
        }
    }

    /// The recipe of one of Debian's kernels, with its modules.
    pub fn debian(board: &LabBoard, version: &KernelVersion) -> Self {
        Self {
            kind: ProvisionKind::Debian,
            alternatives: vec![version.to_string()],
            stand_ins: &[],
            ..Self::linux(board)
        }
    }

    /// The recipe of a shell for an L1 that cannot run the host's.
    pub fn shell(board: &LabBoard) -> Self {
        Self {
            kind: ProvisionKind::Shell,
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
            [version] if self.kind == ProvisionKind::Debian => version,
            _ => self.kind.name(),
        }
    }

    /// The recipe of the entry.
    pub fn recipe(&self) -> Recipe {
        let Self {
            kind,
            architecture,
            alternatives,
            stand_ins,
            modules,
            option,
        } = self;
        // A change of the form makes all entries again.
        let text = format!(
            "revision {REVISION}\nRecipe {{ kind: {:?}, architecture: {architecture:?}, alternatives: {alternatives:?}, \
             stand_ins: {stand_ins:?}, modules: {modules:?}, option: {option:?} }}",
            kind.name()
        );
        Recipe::new(*kind, text)
    }
}

fn owned(names: &[&str]) -> Vec<String> {
    names.iter().map(ToString::to_string).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::board::X86_64;

    #[test]
    fn each_part_of_a_recipe_changes_its_hash() {
        let base = PackageRecipe::linux(&X86_64);
        assert_eq!(
            base.recipe().hash(),
            PackageRecipe::linux(&X86_64).recipe().hash()
        );
        for other in [
            PackageRecipe {
                modules: &["kvm_intel"],
                ..base.clone()
            },
            PackageRecipe {
                alternatives: owned(&["linux-image-amd64"]),
                ..base.clone()
            },
            PackageRecipe {
                architecture: "arm64",
                ..base.clone()
            },
        ] {
            assert_ne!(base.recipe().hash(), other.recipe().hash());
        }
    }

    #[test]
    fn each_of_debians_kernels_has_an_entry_on_each_board() {
        let entries = ["debian:6.1", "debian:6.12"].map(|text| {
            let version = text.parse().unwrap();
            let recipes = LabBoard::ALL.map(|board| PackageRecipe::debian(&board, &version));
            assert!(recipes.iter().all(|recipe| recipe.name() == text));
            recipes.map(|recipe| recipe.recipe().entry())
        });
        let all: std::collections::BTreeSet<String> = entries.concat().into_iter().collect();
        assert_eq!(all.len(), 4, "{all:?}");
        assert!(
            all.iter().all(|entry| entry.starts_with("debian-")),
            "{all:?}"
        );
    }
}
