//! Packages from the distribution's own client, without root and without touching the system.
//!
//! `apt-get` runs with a state folder of its own and a package database that holds one stand-in
//! package, which "provides" what the lab never runs (firmware for network boot, sound, initramfs
//! tools): so apt's own solver finds a small set that is complete. The system's sources, keys and
//! network settings are used; its hooks are not, for they write where only root may. What arrives
//! is compared with the digests of the signed index once more before `dpkg-deb -x` unpacks it.

mod client;
mod error;
mod package;
mod state;

pub use client::Apt;
pub use error::AptError;
pub use package::Package;
