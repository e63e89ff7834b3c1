//! One boot of L1: QEMU as a child process, from its start to its end, with its channels.
//!
//! Standard streams, files and the report travel over virtio-serial ports, each a socket pair.
//! The kernel's console is kept apart and shown only when something goes wrong. One thread reads
//! each channel; the calling thread waits for what they report, for the end of QEMU, a panic of the kernel or a
//! time limit.

mod arguments;
mod channel;
mod console;
mod error;
mod machine;
mod process;
mod supervise;

pub(crate) use arguments::machine_arguments;
pub use arguments::{Mode, Settings};
pub use console::Console;
pub use error::BootError;
pub use machine::{Boot, Booted, Sinks};
pub use process::exec_applet;
pub use supervise::Limits;
