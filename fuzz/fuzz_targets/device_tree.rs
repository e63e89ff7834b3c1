//! libFuzzer's entry: see `crates/fuzz/src/device_tree.rs`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| vmbell_fuzz::device_tree::fuzz(data));
