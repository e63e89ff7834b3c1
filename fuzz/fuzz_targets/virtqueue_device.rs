//! libFuzzer's entry: see `crates/fuzz/src/device.rs`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| vmbell_fuzz::device::fuzz(data));
