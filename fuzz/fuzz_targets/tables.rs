//! libFuzzer's entry: see `crates/fuzz/src/tables.rs`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| vmbell_fuzz::tables::fuzz(data));
