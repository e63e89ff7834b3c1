//! The part of `vmbell` that is process 1 in L1.
//!
//! Called by the name that the lab gives it, `vmbell` mounts the kernel's file systems, loads modules, gives
//! devices their drivers, runs the job's program with pipes whose ends are copied to virtio-serial ports, sends the files that the program left,
//! reports how it ended, waits until the host has read everything, and ends L1 through the debug-exit port. It
//! kills the program if the host says so, and ends L1 at once if the host closes the control port.

mod control;
mod devices;
mod exit;
mod files;
mod held;
mod modules;
mod mounts;
mod ports;
mod program;
mod sequence;

pub use sequence::{is_called, main};
