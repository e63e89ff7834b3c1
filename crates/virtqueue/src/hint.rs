//! A hint for the compiler, for the paths where each instruction counts.

/// Marks the branch that calls it as unlikely, without a call for which values would have to be saved.
#[cold]
#[inline(always)]
pub(super) const fn unlikely() {}
