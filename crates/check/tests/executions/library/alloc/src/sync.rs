//! Code in a file with the path of the standard library's `Arc`. Its functions are not inlined, as at opt-level 0.

use std::hint::black_box;

use crate::atomic_of_core::fence;
use crate::hooked::ACQUIRE;

#[inline(never)]
pub fn drop() {
    fence(ACQUIRE);
    black_box(());
}
