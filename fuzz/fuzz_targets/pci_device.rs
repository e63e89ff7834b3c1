//! libFuzzer's entry: see `crates/fuzz/src/pci.rs`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| vmbell_fuzz::pci::fuzz(data));
