//! The recipe of a cache entry: a text whose SHA-256 is in the entry's name.
//!
//! A recipe names packages, but not their versions: those depend on the day of preparation, and are in the entry's
//! manifest. So a finished entry is found without the network.

use std::fmt;

use crate::arch::Arch;
use crate::board::LabBoard;
use crate::cache::hash_bytes;
use crate::debian::KernelVersion;

/// Part of each recipe. Increase it when the code that builds entries from packages changes.
const REVISION: u32 = 2;

/// Packages that QEMU's and the kernel's packages depend on, but that the lab never runs. Names that a distribution
/// does not have are ignored.
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

/// Declares [`ProvisionKind`], so that the list of all kinds is always complete.
macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident = $name:literal,)+) => {
        /// The kind of a cache entry, which is the first part of the entry's name.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum ProvisionKind {
            $($(#[$doc])* $kind,)+
        }

        impl ProvisionKind {
            /// All kinds.
            pub const ALL: &[Self] = &[$(Self::$kind),+];

            /// The kind's name in the name of an entry.
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
    /// Bochs.
    Bochs = "bochs",
    /// The firmware for Bochs.
    Firmware = "firmware",
    /// A kernel whose first modules are those for Intel's VMX.
    Vmx = "vmx",
    /// The distribution's kernel.
    Linux = "linux",
    /// One of Debian's kernels, chosen by its version.
    Debian = "debian",
    /// A kernel from the user.
    Kernel = "kernel",
    /// A kernel that checks itself.
    Debug = "debug",
    /// A kernel with the user's changes to KVM.
    Kvm = "kvm",
    /// The tools to build KVM.
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
    /// Returns the kind of the entry with this name; `None` if the entry belongs to a different version of vmbell.
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
    /// Everything that the entry's files depend on.
    text: String,
}

impl Recipe {
    pub(super) fn new(kind: ProvisionKind, text: String) -> Self {
        Self { kind, text }
    }

    /// Returns the entry's name in the cache.
    pub fn entry(&self) -> String {
        format!("{}-{}", self.kind, self.hash())
    }

    /// Returns the SHA-256 of the text, which is the part of the entry's name after its kind.
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
    /// Packages of which one is enough, best first; or the version of a Debian kernel.
    pub alternatives: Vec<String>,
    /// Dependencies that are not downloaded: the placeholder package provides them.
    pub stand_ins: &'static [&'static str],
    /// Modules in the first archive of L1's file tree.
    pub modules: &'static [&'static str],
    /// The command-line option that makes the entry unnecessary.
    pub option: &'static str,
}

impl PackageRecipe {
    /// Returns the recipe of a QEMU that runs on `host`, with all its libraries.
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

    /// Returns the recipe of a kernel with its modules.
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

    /// Returns the recipe of a Debian kernel with its modules.
    pub fn debian(board: &LabBoard, version: &KernelVersion) -> Self {
        Self {
            kind: ProvisionKind::Debian,
            alternatives: vec![version.to_string()],
            stand_ins: &[],
            ..Self::linux(board)
        }
    }

    /// Returns the recipe of a shell for an L1 that cannot run the host's shell.
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

    /// Returns the Debian release in the packages' names; `None` if they are in the system's own sources.
    pub fn release(&self) -> Option<&str> {
        let first = self.alternatives.first()?;
        first.split_once('/').map(|(_, release)| release)
    }

    /// Returns what is made, for people: the kind, or the version of a Debian kernel.
    pub fn name(&self) -> &str {
        match self.alternatives.as_slice() {
            [version] if self.kind == ProvisionKind::Debian => version,
            _ => self.kind.name(),
        }
    }

    /// Returns the recipe of the entry.
    pub fn recipe(&self) -> Recipe {
        let Self {
            kind,
            architecture,
            alternatives,
            stand_ins,
            modules,
            option,
        } = self;
        // A change of this format makes all entries again.
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
