//! libFuzzer's entry: see `crates/fuzz/src/vfio.rs`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| vmbell_fuzz::vfio::fuzz(data));
