//! The PC as images see it when a real CPU runs them, and several vCPUs of any backend.

mod board;
mod edu;
mod ends;
mod init;
mod kernel;
mod micro;
mod nic;
mod pc_testdev;
mod pci;
mod player;
mod probe_image;
mod sleep;
mod smp;
mod snapshots;
mod testdev;
mod together;
mod virtio;
