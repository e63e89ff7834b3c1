//! Rings in C from Debian's source packages: the newest Linux' `virtio_ring.c` and `vringh.c`, and QEMU's `libvhost-user`.
//!
//! `c/build.sh` compiles them with a few lines around them (`c/subject.h`), so that one side can be called one step at
//! a time. Their signals go to the thread's [`Bells`].
#![allow(unsafe_code)]

mod values;

use std::cell::Cell;
use std::mem;
use std::ptr::NonNull;

use vmbell_check::Format;

use crate::poll::{Poller, Polls};
use crate::{
    About, BOTH, Bells, Chains, Device, DeviceSide, Driver, DriverSide, SPLIT, Site, handle_chains,
};

pub use values::LinuxValues;

/// `struct subject_ring` of `c/subject.h`.
#[repr(C)]
struct CRing {
    memory: *mut u8,
    descriptors: u32,
    driver: u32,
    device: u32,
    size: u32,
    packed: bool,
    event_idx: bool,
    in_order: bool,
    start: u16,
}

/// How Linux's driver asks for interrupts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub enum Callbacks {
    /// `virtqueue_enable_cb`.
    Enable = 0,
    /// `virtqueue_enable_cb_prepare` and `virtqueue_poll`.
    PrepareAndPoll = 1,
    /// `virtqueue_enable_cb_delayed`.
    Delayed = 2,
    /// Interrupts stay enabled.
    AlwaysOn = 3,
}

/// When a device that uses libvhost-user checks whether the driver wants an interrupt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
enum Service {
    Each = 0,
    AskAtTheEnd = 1,
    TakeAllFirst = 2,
}

/// `struct linux_driver`, `struct linux_device` and `struct qemu_device` of `c/subject.h`.
macro_rules! opaque {
    ($($name:ident)*) => {$(
        #[repr(C)]
        struct $name {
            _fields: [u8; 0],
        }
    )*};
}

opaque!(CLinuxDriver CLinuxDevice CQemuDevice);

unsafe extern "C-unwind" {
    fn linux_driver_new(ring: *const CRing) -> NonNull<CLinuxDriver>;
    fn linux_driver_free(driver: NonNull<CLinuxDriver>);
    fn linux_driver_run(
        driver: NonNull<CLinuxDriver>,
        requests: u32,
        depth: u32,
        callbacks: Callbacks,
    );
    fn linux_driver_add(driver: NonNull<CLinuxDriver>);
    fn linux_driver_take(driver: NonNull<CLinuxDriver>) -> bool;
    fn linux_driver_wants_kick(driver: NonNull<CLinuxDriver>) -> bool;
    fn linux_driver_disable_cb(driver: NonNull<CLinuxDriver>);
    fn linux_driver_enable_cb(driver: NonNull<CLinuxDriver>) -> bool;
    fn linux_driver_enable_cb_delayed(driver: NonNull<CLinuxDriver>) -> bool;
    fn linux_driver_holds_batch(driver: NonNull<CLinuxDriver>) -> bool;
    fn linux_driver_prepare(driver: NonNull<CLinuxDriver>) -> u32;
    fn linux_driver_poll(driver: NonNull<CLinuxDriver>, opaque: u32) -> bool;
    fn linux_device_new(ring: *const CRing) -> NonNull<CLinuxDevice>;
    fn linux_device_free(device: NonNull<CLinuxDevice>);
    fn linux_device_disable(device: NonNull<CLinuxDevice>);
    fn linux_device_serve(device: NonNull<CLinuxDevice>) -> bool;
    fn linux_device_wants_interrupt(device: NonNull<CLinuxDevice>) -> bool;
    fn linux_device_enable(device: NonNull<CLinuxDevice>) -> bool;
    fn qemu_device_new(ring: *const CRing, memory_size: u64) -> NonNull<CQemuDevice>;
    fn qemu_device_free(device: NonNull<CQemuDevice>);
    fn qemu_device_serve(device: NonNull<CQemuDevice>, service: Service, mended: bool);
}

thread_local! {
    /// The notifications of the side in C that runs on this thread.
    static BELLS: Cell<Option<&'static dyn Bells>> = const { Cell::new(None) };
}

/// Runs code in C that may notify the other side.
fn with_bells<R>(bells: &dyn Bells, call: impl FnOnce() -> R) -> R {
    // SAFETY: the tasks of an execution share one value, which lives until all of them have ended, as do the two
    // threads of a native run. `BELLS` belongs to this thread, and code in C calls the value only while `call` runs.
    let bells = unsafe { mem::transmute::<&dyn Bells, &'static dyn Bells>(bells) };
    BELLS.set(Some(bells));
    call()
}

fn bells() -> &'static dyn Bells {
    BELLS.get().expect("a side in C runs within `with_bells`")
}

#[unsafe(no_mangle)]
extern "C-unwind" fn subject_kick() {
    bells().kick();
}

#[unsafe(no_mangle)]
extern "C-unwind" fn subject_interrupt() {
    bells().interrupt();
}

#[unsafe(no_mangle)]
extern "C-unwind" fn subject_wait_interrupt() {
    bells().wait_for_interrupt();
}

fn ring(site: &Site) -> CRing {
    CRing {
        memory: site.base().as_ptr(),
        descriptors: site.layout.0.into(),
        driver: site.layout.1.into(),
        device: site.layout.2.into(),
        size: site.shape.size.into(),
        packed: site.shape.format == Format::Packed,
        event_idx: site.shape.event_idx,
        in_order: site.shape.in_order,
        start: site.shape.start,
    }
}

/// Linux's driver, one step at a time.
pub(crate) const LINUX_DRIVER: Driver = Driver {
    about: About {
        name: "linux",
        version: env!("VMBELL_SUBJECTS_LINUX"),
        formats: BOTH,
        starts: true,
        in_order: true,
    },
    new: Some(|site, mended| {
        let mut linux = LinuxDriver::new(site);
        linux.mended = mended;
        Box::new(linux)
    }),
    layout: None,
    pieces_if_split: 1,
    pieces_if_packed: 1,
};

/// Linux's in-kernel device side.
pub(crate) const LINUX_DEVICE: Device = Device {
    about: About {
        name: "vringh",
        version: env!("VMBELL_SUBJECTS_LINUX"),
        formats: SPLIT,
        starts: true,
        // This device gives each chain back before it takes the next.
        in_order: true,
    },
    new: Some(|site, _| Box::new(Vringh::new(site))),
    interrupts: true,
    memory: None,
};

const QEMU: About = About {
    name: "libvhost-user",
    version: "7.2",
    formats: SPLIT,
    starts: true,
    in_order: false,
};

/// QEMU's library for vhost-user devices. The device takes all chains, then returns each and asks after each.
pub(crate) const QEMU_TAKES_ALL_FIRST: Device = Device {
    about: QEMU,
    new: Some(|site, mended| new_libvhost_user(site, Service::TakeAllFirst, mended)),
    interrupts: true,
    memory: None,
};

/// libvhost-user with a device that takes and returns all chains, and then asks.
pub(crate) const QEMU_ASKS_AT_THE_END: Device = Device {
    about: About {
        name: "libvhost-user, asks at the end",
        ..QEMU
    },
    new: Some(|site, mended| new_libvhost_user(site, Service::AskAtTheEnd, mended)),
    ..QEMU_TAKES_ALL_FIRST
};

/// libvhost-user with a device that asks after each chain.
pub(crate) const QEMU_ASKS_EACH_TIME: Device = Device {
    about: About {
        name: "libvhost-user, asks each time",
        ..QEMU
    },
    new: Some(|site, mended| new_libvhost_user(site, Service::Each, mended)),
    ..QEMU_TAKES_ALL_FIRST
};

/// Linux's driver, used as a driver that polls.
pub const LINUX_POLLER: Poller = Poller {
    name: "linux, 16-bit index",
    new: |site, before| {
        assert_eq!(before, 0, "its state is its own");
        let mut linux = LinuxDriver::new(site);
        // SAFETY: see `LinuxDriver`.
        linux.opaque = unsafe { linux_driver_prepare(linux.driver) };
        Box::new(linux)
    },
};

/// Linux's driver of one queue.
#[derive(Debug)]
pub struct LinuxDriver {
    /// Made by `linux_driver_new`, used by this value only, and valid until it is dropped.
    driver: NonNull<CLinuxDriver>,
    /// What `virtqueue_enable_cb_prepare` returned.
    opaque: u32,
    /// Whether the driver stays awake while it has taken only a part of a batch.
    mended: bool,
}

// SAFETY: the queue in C is used through this value only, and depends on no thread.
unsafe impl Send for LinuxDriver {}

impl LinuxDriver {
    /// The driver of a ring in zeroed memory.
    pub fn new(site: &Site) -> LinuxDriver {
        // SAFETY: the ring is in memory that outlives the driver (`Site::new`).
        let driver = unsafe { linux_driver_new(&ring(site)) };
        LinuxDriver {
            driver,
            opaque: 0,
            mended: false,
        }
    }

    /// Returns whether the driver may sleep. `says` is Linux's answer.
    fn may_sleep(&self, says: bool) -> bool {
        // SAFETY: see `LinuxDriver`.
        says && !(self.mended && unsafe { linux_driver_holds_batch(self.driver) })
    }

    /// Makes requests until all of them are answered.
    pub fn run(&mut self, requests: u32, depth: u32, callbacks: Callbacks, bells: &dyn Bells) {
        // SAFETY: see `LinuxDriver`.
        with_bells(bells, || unsafe {
            linux_driver_run(self.driver, requests, depth, callbacks);
        });
    }
}

impl Drop for LinuxDriver {
    fn drop(&mut self) {
        // SAFETY: see `LinuxDriver`.
        unsafe { linux_driver_free(self.driver) };
    }
}

impl DriverSide for LinuxDriver {
    fn add(&mut self) {
        // SAFETY: see `LinuxDriver`.
        unsafe { linux_driver_add(self.driver) };
    }
    fn wants_kick(&mut self) -> bool {
        // SAFETY: as above.
        unsafe { linux_driver_wants_kick(self.driver) }
    }
    fn take(&mut self) -> bool {
        // SAFETY: as above.
        unsafe { linux_driver_take(self.driver) }
    }
    fn quiet(&mut self) {
        // SAFETY: as above.
        unsafe { linux_driver_disable_cb(self.driver) };
    }
    fn listen(&mut self) -> bool {
        // SAFETY: as above.
        self.may_sleep(unsafe { linux_driver_enable_cb(self.driver) })
    }
    fn listen_late(&mut self) -> bool {
        // SAFETY: as above.
        self.may_sleep(unsafe { linux_driver_enable_cb_delayed(self.driver) })
    }
}

impl Polls for LinuxDriver {
    fn side(&mut self) -> &mut dyn DriverSide {
        self
    }
    fn poll(&self) -> bool {
        // SAFETY: see `LinuxDriver`.
        unsafe { linux_driver_poll(self.driver, self.opaque) }
    }
}

/// Made by `linux_device_new`, used by this value only, and valid until it is dropped.
struct Vringh(NonNull<CLinuxDevice>);

// SAFETY: the queue in C is used through this value only, and depends on no thread.
unsafe impl Send for Vringh {}

impl Vringh {
    fn new(site: &Site) -> Vringh {
        // SAFETY: the ring is in memory that outlives the device (`Site::new`).
        Vringh(unsafe { linux_device_new(&ring(site)) })
    }
}

impl Drop for Vringh {
    fn drop(&mut self) {
        // SAFETY: see `Vringh`.
        unsafe { linux_device_free(self.0) };
    }
}

impl DeviceSide for Vringh {
    fn handle(&mut self, bells: &dyn Bells) {
        handle_chains(self, bells);
    }
}

impl Chains for Vringh {
    fn quiet(&mut self) {
        // SAFETY: see `Vringh`.
        unsafe { linux_device_disable(self.0) };
    }
    fn serve(&mut self) -> bool {
        // SAFETY: as above.
        unsafe { linux_device_serve(self.0) }
    }
    fn wants_interrupt(&mut self) -> bool {
        // SAFETY: as above.
        unsafe { linux_device_wants_interrupt(self.0) }
    }
    fn listen(&mut self) -> bool {
        // SAFETY: as above.
        unsafe { linux_device_enable(self.0) }
    }
}

struct LibvhostUser {
    /// Made by `qemu_device_new`, used by this value only, and valid until it is dropped.
    device: NonNull<CQemuDevice>,
    service: Service,
    mended: bool,
}

// SAFETY: the device in C is used through this value only, and depends on no thread.
unsafe impl Send for LibvhostUser {}

fn new_libvhost_user(site: &Site, service: Service, mended: bool) -> Box<dyn DeviceSide> {
    // SAFETY: the ring is in memory that outlives the device (`Site::new`).
    let device = unsafe { qemu_device_new(&ring(site), site.len as u64) };
    Box::new(LibvhostUser {
        device,
        service,
        mended,
    })
}

impl Drop for LibvhostUser {
    fn drop(&mut self) {
        // SAFETY: see `LibvhostUser::device`.
        unsafe { qemu_device_free(self.device) };
    }
}

impl DeviceSide for LibvhostUser {
    fn handle(&mut self, bells: &dyn Bells) {
        // SAFETY: see `LibvhostUser::device`.
        with_bells(bells, || unsafe {
            qemu_device_serve(self.device, self.service, self.mended);
        });
    }
}
