//! libFuzzer's entry: see `crates/fuzz/src/state.rs`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| vmbell_fuzz::state::fuzz(data));
