//! Explores the interleavings of a virtqueue driver and a device for lost notifications.
//!
//! `cargo vmbell-check test` compiles the code under test so that each of its loads, stores, atomic operations and
//! fences calls a function of this crate: LLVM's ThreadSanitizer instrumentation, without its runtime.
