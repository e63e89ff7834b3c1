//! Doorbells rung by a real guest: which writes ring, which leave the guest, and what removal means.

mod abi;
// On arm64 no device access crosses a page: it has to be aligned.
#[cfg(target_arch = "x86_64")]
mod crossing;
mod delivery;
mod groups;
mod limits;
mod page;
mod payload;
mod places;
mod race;
mod removal;
mod rules;
mod saturation;
