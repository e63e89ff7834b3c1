//! A hint for the compiler, for paths where every instruction counts.

/// Marks the branch that calls it as unlikely. No call is made, so no registers are saved.
#[cold]
#[inline(always)]
pub(super) const fn unlikely() {}
