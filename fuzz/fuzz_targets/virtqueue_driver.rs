//! libFuzzer's entry: see `crates/fuzz/src/driver.rs`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| vmbell_fuzz::driver::fuzz(data));
