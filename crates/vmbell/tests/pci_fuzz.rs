//! The fuzz target `pci_device` of `fuzz/` on stable Rust, the same random cases in every run.
//! `VMBELL_FUZZ_CASES` asks for more of them.
#![allow(
    clippy::tests_outside_test_module,
    clippy::unwrap_used,
    reason = "the whole program is tests"
)]

#[path = "../../../fuzz/src/pci.rs"]
mod pci;

use proptest::prelude::*;
use proptest::test_runner::{RngSeed, TestRunner};

const CASES: u32 = 10_000;
/// Bytes of a case: enough for the device and for a hundred accesses of the guest.
const LONGEST: usize = 512;

#[test]
fn an_assigned_device_and_its_guest_are_survived() {
    let cases = match std::env::var("VMBELL_FUZZ_CASES") {
        Ok(text) => text.parse().unwrap(),
        Err(_) => CASES,
    };
    let config = ProptestConfig {
        cases,
        rng_seed: RngSeed::Fixed(0x5eed),
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    let bytes = prop::collection::vec(any::<u8>(), 0..LONGEST);
    TestRunner::new(config)
        .run(&bytes, |bytes| {
            pci::fuzz(&bytes);
            Ok(())
        })
        .unwrap();
}
