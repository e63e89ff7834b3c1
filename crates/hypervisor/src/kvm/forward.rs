//! Forwarded interrupts of assigned devices, which the guest's EOI completes: the ioctls of `/dev/vfio-forward`. Its
//! module is in this repository (`kernel/vfio-forward`, interface in `vfio_forward.h`); no Linux release has it. The
//! calling thread makes the ioctl.
#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use kvm_ioctls::VmFd;
use vmm_sys_util::ioctl::{ioctl, ioctl_with_mut_ref, ioctl_with_ref};
use vmm_sys_util::{ioctl_io_nr, ioctl_iow_nr, ioctl_iowr_nr};

use super::super::{Error, ForwardedInterrupt, ForwardedState, Support};
use super::error::{ForwardError, KvmError};
use vmbell::irq::Gsi;

const PATH: &str = "/dev/vfio-forward";
const VERSION: i32 = 1;
const TYPE: u32 = 0xf5;

/// `struct vfio_forward_irq`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
struct Irq {
    argsz: u32,
    flags: u32,
    device_fd: i32,
    index: u32,
    vm_fd: i32,
    spi: u32,
}

/// `struct vfio_forward_state`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
struct ForwardState {
    argsz: u32,
    flags: u32,
    device_fd: i32,
    index: u32,
    spi: u32,
    host_irq: u32,
    injected: u64,
    signalled: u64,
}

const IRQ_SIZE: u32 = 24;
const STATE_SIZE: u32 = 40;
const _: () = assert!(size_of::<Irq>() == 24 && size_of::<ForwardState>() == 40);

/// How often to retry forwarding while the guest has not ended an interrupt of the line, and the pause between
/// attempts: the guest may be about to end it.
const TRIES: u32 = 100;
const PAUSE: Duration = Duration::from_millis(1);

/// `VFIO_FORWARD_STATE_ACTIVE`.
const ACTIVE: u32 = 1;

ioctl_io_nr!(GET_API_VERSION, TYPE, 0);
ioctl_iow_nr!(FORWARD, TYPE, 1, Irq);
ioctl_iow_nr!(UNFORWARD, TYPE, 2, Irq);
ioctl_iowr_nr!(GET_STATE, TYPE, 3, ForwardState);

/// Returns whether this host has the module.
pub fn support() -> Support {
    if cfg!(not(target_arch = "aarch64")) {
        return Support::No(
            "only a gic ties an interrupt of a device to one of the guest".to_owned(),
        );
    }
    match open() {
        Ok(_) => Support::Yes,
        Err(error) => Support::No(error.to_string()),
    }
}

fn open() -> Result<File, ForwardError> {
    let opened = File::options().read(true).write(true).open(PATH);
    let module = opened.map_err(|source| ForwardError::NoModule { source })?;
    // SAFETY: `module` is open and owned here; the call takes no pointer.
    let found = unsafe { ioctl(&module, GET_API_VERSION()) };
    match found {
        VERSION => Ok(module),
        0.. => Err(ForwardError::Version { found }),
        _ => Err(io::Error::last_os_error().into()),
    }
}

/// Forwards interrupt `index` of a device to a line of the VM.
pub fn forward(vm: &VmFd, device: &Arc<File>, index: u32, gsi: Gsi) -> Result<Forwarded, Error> {
    let refused = |source| Error::from(KvmError::Forward { index, gsi, source });
    let module = open().map_err(refused)?;
    let request = Irq {
        vm_fd: vm.as_raw_fd(),
        spi: gsi.number(),
        ..irq(device.as_raw_fd(), index)
    };
    let mut left = TRIES;
    // SAFETY: `module` is open and owned here, and `request` is the structure that the call reads.
    while unsafe { ioctl_with_ref(&module, FORWARD(), &request) } < 0 {
        let error = ForwardError::from(io::Error::last_os_error());
        left -= 1;
        if left == 0 || !matches!(error, ForwardError::InProgress) {
            return Err(refused(error));
        }
        thread::sleep(PAUSE);
    }
    Ok(Forwarded {
        module,
        device: Arc::clone(device),
        index,
        gsi,
    })
}

fn irq(device_fd: RawFd, index: u32) -> Irq {
    Irq {
        argsz: IRQ_SIZE,
        device_fd,
        index,
        ..Irq::default()
    }
}

/// A forwarded interrupt.
#[derive(Debug)]
pub struct Forwarded {
    module: File,
    device: Arc<File>,
    index: u32,
    gsi: Gsi,
}

impl ForwardedInterrupt for Forwarded {
    fn state(&self) -> Result<ForwardedState, Error> {
        let mut state = ForwardState {
            argsz: STATE_SIZE,
            device_fd: self.device.as_raw_fd(),
            index: self.index,
            ..ForwardState::default()
        };
        // SAFETY: `module` stays open as long as `self` exists, and `state` is the structure that the call reads and
        // writes.
        if unsafe { ioctl_with_mut_ref(&self.module, GET_STATE(), &mut state) } < 0 {
            let (index, gsi) = (self.index, self.gsi);
            let source = io::Error::last_os_error().into();
            return Err(KvmError::Forward { index, gsi, source }.into());
        }
        Ok(ForwardedState {
            injected: state.injected,
            signalled: state.signalled,
            is_active: state.flags & ACTIVE != 0,
        })
    }
}

impl Drop for Forwarded {
    fn drop(&mut self) {
        let request = irq(self.device.as_raw_fd(), self.index);
        // No caller can receive an error, and closing the file also ends the forwarding.
        // SAFETY: `module` stays open as long as `self` exists, and `request` is the structure that the call reads.
        let _ = unsafe { ioctl_with_ref(&self.module, UNFORWARD(), &request) };
    }
}
