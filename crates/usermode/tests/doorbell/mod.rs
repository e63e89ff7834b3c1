//! Doorbells in the sandbox: replaced instructions, storms of rings, and descriptors.

mod fd_limit;
mod stores;
mod storm;
mod taken_back;
