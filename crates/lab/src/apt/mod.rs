//! Downloads packages with the distribution's own client, without root and without changing the system.
//!
//! `apt-get` runs with a state folder of the lab and a package database that has one placeholder
//! package, which "provides" what the lab never runs (firmware for network boot, sound, initramfs
//! tools): so apt's own solver finds a small set of packages that is complete. apt uses the system's sources,
//! keys and network settings, but not its hooks, which write where only root may. Each downloaded file is
//! compared with the digest of the signed index once more before `dpkg-deb -x` unpacks it.

mod client;
mod package;
mod program;
mod sources;
mod state;

pub use client::Apt;
pub use package::Package;
