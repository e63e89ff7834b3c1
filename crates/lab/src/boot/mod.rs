//! One boot of L1: QEMU or Bochs as a child process, from its start to its end, with its channels.
//!
//! Standard streams, files and the report travel over channels. In QEMU a channel is a virtio-serial port whose other
//! end is a socket or a memory file, in Bochs it is `frames` over an I/O port, and for a Linux inside L1 it is a
//! virtio-vsock connection. The kernel's console is separate and shown only if something goes wrong. One thread reads
//! each channel. The calling thread waits for their reports, the end of the VMM, a kernel panic or a time limit.

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

pub use arguments::{InnerVmm, Settings};
pub(crate) use arguments::{WINDOW, machine_arguments, parameters as kernel_parameters};
pub(crate) use bochs::BochsPlan;
pub(crate) use channel::{BootEvent, ProgramStream};
pub use console::ConsoleTail;
pub use machine::{LabBootPlan, SavedFiles, Sinks};
pub(crate) use machine::{RunningVmm, channels};
pub(crate) use monitor::does_not;
pub use process::exec_applet;
pub use result::LabBootResult;
pub(crate) use supervise::{ANSWERING, LEAVING, LONGEST, Patience};
pub use supervise::{TimeLimits, TimeMode};
pub(crate) use vsock::{Listeners, accept};
