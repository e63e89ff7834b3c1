//! libFuzzer's entry: see `src/pci.rs`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| vmbell_fuzz::pci::fuzz(data));
