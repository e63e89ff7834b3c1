//! libFuzzer's entry: see `crates/fuzz/src/image.rs`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| vmbell_fuzz::image::fuzz(data));
