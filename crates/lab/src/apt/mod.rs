//! Downloads packages with the distribution's own client, without root and without changing the system.
//!
//! `apt-get` runs with the lab's own state folder and a package database with one placeholder package. It "provides"
//! what the lab never runs (firmware for network boot, sound, initramfs tools), so that apt's own solver finds a small
//! but complete set of packages. apt uses the system's sources, keys and network settings, but not its hooks, which
//! write where only root may. Each downloaded file is checked again against the digest in the signed index before
//! `dpkg-deb -x` unpacks it.

mod client;
mod package;
mod program;
mod sources;
mod state;

pub use client::Apt;
pub use package::Package;
