//! Why a machine could not run its guest.

use vmbell::bus::BusError;
use vmbell_hypervisor::{Error, Fault};

/// Why the machine could not run its guest.
#[derive(Debug, thiserror::Error)]
pub enum MachineError {
    /// The backend failed.
    #[error("the vcpu could not run")]
    Vcpu(#[source] Error),
    /// The guest faulted.
    #[error("guest fault: {0}")]
    Fault(Fault),
    /// The guest accessed a system register that the machine does not have.
    #[error("the guest accessed system register {index:#x}, which this machine does not have")]
    Register {
        /// The register.
        index: u32,
    },
    /// The interrupt of the serial port could not be set up.
    #[error("cannot make the serial port")]
    Serial(#[source] Error),
    /// A virtio device on MMIO registers could not be plugged in.
    #[error("cannot make a {device}")]
    Virtio {
        /// The name of the device.
        device: &'static str,
        /// What it lacks.
        source: Error,
    },
    /// Two devices have overlapping addresses.
    #[error("two devices of the machine clash")]
    Bus(#[from] BusError),
    /// A thread of the machine could not be started.
    #[error("cannot start a thread for the machine")]
    Thread {
        /// The error of the thread's start.
        source: std::io::Error,
    },
}
