//! Capabilities and files, which a thread gives up permanently.
#![allow(unsafe_code, reason = "mallopt")]

use anyhow::{Context, Result};
use landlock::{
    ABI, Access, AccessFs, AccessNet, PathBeneath, PathFd, Ruleset, RulesetAttr,
    RulesetCreatedAttr, RulesetError, RulesetStatus, path_beneath_rules,
};
use rustix::io::Errno;
use rustix::thread::{
    CapabilitySet, CapabilitySets, clear_ambient_capability_set,
    remove_capability_from_bounding_set, set_capabilities,
};

/// The newest Landlock rights that are denied; an older kernel knows fewer.
const RIGHTS: ABI = ABI::V5;

/// The device files that guests are created from: the only files that a thread which creates guests can open for
/// writing.
const DEVICES: [&str; 4] = ["/dev/iommu", "/dev/kvm", "/dev/vfio", "/dev/vfio-forward"];

/// Denies every file that is not yet open, and TCP. Returns a note if the kernel supports this only in part.
pub(super) fn give_up_files() -> Result<Option<&'static str>> {
    restrict(None).context("cannot deny files by Landlock")
}

/// Denies changing and executing files, and TCP. The devices that guests are created from can still be opened. Returns
/// a note if the kernel supports this only in part.
pub(super) fn give_up_changes() -> Result<Option<&'static str>> {
    let read = AccessFs::ReadFile | AccessFs::ReadDir;
    let write = read | AccessFs::WriteFile | AccessFs::IoctlDev;
    let rules = path_beneath_rules(["/"], read).chain(path_beneath_rules(DEVICES, write));
    restrict(Some(Box::new(rules))).context("cannot restrict files by Landlock")
}

type Allowed = Box<dyn Iterator<Item = Result<PathBeneath<PathFd>, RulesetError>>>;

fn restrict(allowed: Option<Allowed>) -> Result<Option<&'static str>, RulesetError> {
    let status = Ruleset::default()
        .handle_access(AccessFs::from_all(RIGHTS))?
        .handle_access(AccessNet::from_all(RIGHTS))?
        .create()?
        .add_rules(allowed.into_iter().flatten())?
        .restrict_self()?;
    Ok(match status.ruleset {
        RulesetStatus::FullyEnforced => None,
        RulesetStatus::PartiallyEnforced => {
            Some("Landlock of this kernel (before Linux 6.10) restricts files in part only")
        }
        RulesetStatus::NotEnforced => Some("this kernel has no Landlock to restrict files with"),
    })
}

/// Empties all capability sets. The bounding set needs CAP_SETPCAP; without CAP_SETPCAP it does not matter, because
/// no_new_privs keeps executed programs from gaining capabilities.
pub(super) fn give_up_capabilities() -> rustix::io::Result<()> {
    for number in 0..u64::BITS {
        match remove_capability_from_bounding_set(CapabilitySet::from_bits_retain(1 << number)) {
            Ok(()) => {}
            // The kernel has no capability with this number, or the process may not remove it.
            Err(Errno::INVAL | Errno::PERM) => break,
            Err(error) => return Err(error),
        }
    }
    clear_ambient_capability_set()?;
    let none = CapabilitySet::empty();
    let sets = CapabilitySets {
        effective: none,
        permitted: none,
        inheritable: none,
    };
    set_capabilities(None, sets)
}

/// Makes all threads allocate from one arena, because glibc opens `/proc/sys/vm/overcommit_memory` when it returns
/// another arena's memory (`malloc/arena.c`, `check_may_shrink_heap`).
pub(super) fn use_one_arena() {
    #[cfg(target_env = "gnu")]
    // SAFETY: no pointers, and the process has one thread yet. A failure costs nothing but the setting.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, 1)
    };
}
