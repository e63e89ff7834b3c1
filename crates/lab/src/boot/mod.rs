//! One boot of L1: QEMU as a child process, from its start to its end, with its channels.
//!
//! Standard streams, files and the report travel over virtio-serial ports, each a socket pair. Those of a Linux inside L1 travel
//! over virtio-vsock, and L1 connects them with such pairs.
//! The kernel's console is kept apart and shown only when something goes wrong. One thread reads
//! each channel; the calling thread waits for what they report, for the end of QEMU, a panic of the kernel or a
//! time limit.

mod arguments;
mod channel;
mod console;
mod machine;
mod monitor;
mod process;
mod result;
mod supervise;
mod vsock;

pub use arguments::{InnerVmm, Settings, TimeMode};
pub(crate) use arguments::{WINDOW, machine_arguments, parameters as kernel_parameters};
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
