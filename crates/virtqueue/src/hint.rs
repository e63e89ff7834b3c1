//! A hint for the compiler, for the paths where each instruction counts.

/// Marks the branch that calls it as unlikely. It is not a real call, so no registers are saved for
/// it.
#[cold]
#[inline(always)]
pub(super) const fn unlikely() {}
