//! libFuzzer's entry: see `crates/fuzz/src/virtio/mod.rs`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| vmbell_fuzz::virtio::fuzz(data));
