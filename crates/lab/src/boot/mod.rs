//! One boot of L1: its emulator as a child process, from its start to its end, with its channels.
//!
//! Standard streams, files and the report travel over QEMU's virtio-serial ports, each a socket pair. For a Linux inside
//! L1 they travel over virtio-vsock, and L1 connects these to socket pairs. From Bochs they come in [`frames`]. The kernel's console is separate and shown
//! only if something goes wrong. One thread reads each channel. The calling thread waits for their reports, the end of
//! QEMU, a kernel panic or a time limit.

mod arguments;
mod bochs;
mod channel;
mod console;
pub(crate) mod frames;
mod machine;
mod monitor;
mod process;
mod result;
mod supervise;
mod vsock;

pub use arguments::{InnerVmm, Settings, TimeMode};
pub(crate) use arguments::{WINDOW, machine_arguments, parameters as kernel_parameters};
pub(crate) use bochs::BochsPlan;
pub(crate) use channel::{BootEvent, ProgramStream};
pub use console::ConsoleTail;
pub use machine::{LabBootPlan, SavedFiles, Sinks};
pub(crate) use machine::{RunningVmm, channels};
pub(crate) use monitor::does_not;
pub use process::exec_applet;
pub use result::LabBootResult;
pub use supervise::TimeLimits;
pub(crate) use supervise::{ANSWERING, LEAVING, LONGEST, Patience};
pub(crate) use vsock::{Listeners, accept};
