//! The guests of these tests.
#![allow(unsafe_code)]

vmbell_guest::guest_programs! {
    /// Plays a list of accesses that the host writes.
    accesses = | "accesses.S";
    /// Takes an interrupt again and again.
    taker = | "taker.S";
}
