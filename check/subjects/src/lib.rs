//! Virtqueue implementations of other projects, and vmbell's own, as subjects of `vmbell-check`.
//!
//! Each file adapts one implementation, unmodified from the registry, to [`DriverSide`] or [`DeviceSide`]. The loops
//! around them ([`drive`], [`handle_chains`]) are those of real drivers and devices. The same subjects run under the
//! checker ([`pair`]) and natively on two threads ([`native`]).

pub mod counts;
pub mod native;
pub mod poll;
pub mod resume;
mod scenario;
mod side;
#[cfg(vmbell_check)]
pub mod threads;

#[cfg(feature = "alioth")]
mod alioth;
mod arcbox;
#[cfg(feature = "c")]
pub mod c;
#[cfg(feature = "krun")]
pub mod krun;
mod memory;
mod requests;
mod uhyve;
mod vhost_user;
mod virtio_driver;
mod virtio_drivers;
mod virtio_queue;
mod vmbell;

pub use memory::Site;
pub use scenario::{Checked, pair, weaken};
pub use side::{Bells, Chains, DeviceSide, DriverSide, Work, drive, handle_chains};
pub use vmbell::poll::{INDEX, TOKEN, WRAPS};
pub use vmbell::{CHAINED as CHAINED_DRIVER, RESTORED_DRIVER, Values};

/// How many seconds a test gives a search that takes less than 20 s on a quiet machine.
pub const HANG: u64 = 1200;
use vmbell_check::{Format, Shape};

/// Offsets of a ring's parts in the shared memory: descriptors, driver area and device area.
pub type Layout = (u16, u16, u16);

/// Makes a driver side of a ring. With `true`, the adapter adds what the subject lacks.
pub type NewDriver = fn(&Site, bool) -> Box<dyn DriverSide>;
/// Makes a device side of a ring. With `true`, the adapter adds what the subject lacks.
pub type NewDevice = fn(&Site, bool) -> Box<dyn DeviceSide>;

/// The name of a subject, and what it supports.
#[derive(Clone, Copy, Debug)]
pub struct About {
    /// The name of the subject's package.
    pub name: &'static str,
    /// The version on the registry.
    pub version: &'static str,
    /// The layouts of virtqueues that the subject supports.
    pub formats: &'static [Format],
    /// Whether a split ring can begin at an index other than 0.
    pub starts: bool,
    /// Whether the subject supports `VIRTIO_F_IN_ORDER`.
    pub in_order: bool,
}

/// A driver side. The checker's own reference driver has no `new`.
#[derive(Clone, Copy, Debug)]
pub struct Driver {
    /// The driver's name and abilities.
    pub about: About,
    /// Makes the driver side of a ring in zeroed memory. With `mended`, the adapter adds what the subject lacks.
    pub new: Option<NewDriver>,
    /// Where the subject puts the parts of a ring, if the subject decides that.
    pub layout: Option<fn(Shape) -> Layout>,
    /// How many descriptors of a split ring each request takes.
    pub pieces_if_split: u16,
    /// How many descriptors of a packed ring each request takes.
    pub pieces_if_packed: u16,
}

impl Driver {
    /// How many descriptors each request takes.
    pub fn pieces(&self, format: Format) -> u16 {
        match format {
            Format::Split => self.pieces_if_split,
            Format::Packed => self.pieces_if_packed,
        }
    }

    /// The smallest ring of this format in which the driver can have two requests in flight.
    pub fn smallest_ring(&self, format: Format, event_idx: bool) -> Shape {
        match format {
            Format::Split => Shape::split(2 * self.pieces(format), event_idx),
            Format::Packed => Shape::packed(2 * self.pieces(format), event_idx),
        }
    }
}

/// A device side. The checker's own reference device has no `new`.
#[derive(Clone, Copy, Debug)]
pub struct Device {
    /// The device's name and abilities.
    pub about: About,
    /// Makes the device side of a ring. With `mended`, the adapter adds what the subject lacks.
    pub new: Option<NewDevice>,
    /// Whether the device interrupts the driver. If not, the driver polls.
    pub interrupts: bool,
    /// The address of the guest memory, if the subject maps it itself.
    pub memory: Option<fn() -> std::ptr::NonNull<u8>>,
}

impl Device {
    /// Returns whether the device can serve this driver on a ring of this format.
    pub fn serves(&self, driver: &Driver, format: Format) -> bool {
        let formats = [self.about.formats, driver.about.formats];
        let is_supported = formats.iter().all(|formats| formats.contains(&format));
        // The reference driver sleeps until it is interrupted.
        let is_woken = driver.new.is_some() || self.interrupts;
        // vringh uses the address of an indirect table as a pointer, and the subjects' addresses are offsets.
        let is_followed = (driver.about.name, self.about.name) != ("vmbell, indirect", "vringh");
        is_supported && is_woken && is_followed
    }
}

const BOTH: &[Format] = &[Format::Split, Format::Packed];
const SPLIT: &[Format] = &[Format::Split];

const REFERENCE: About = About {
    name: "reference",
    version: "of vmbell-check",
    formats: BOTH,
    starts: true,
    in_order: true,
};

/// Every driver side.
pub fn drivers() -> Vec<Driver> {
    let reference = Driver {
        about: REFERENCE,
        new: None,
        layout: None,
        pieces_if_split: 1,
        pieces_if_packed: 1,
    };
    vec![
        reference,
        vmbell::DRIVER,
        vmbell::INDIRECT,
        virtio_drivers::DRIVER,
        virtio_driver::DRIVER,
        #[cfg(feature = "c")]
        c::LINUX_DRIVER,
    ]
}

/// Every device side.
pub fn devices() -> Vec<Device> {
    let reference = Device {
        about: REFERENCE,
        new: None,
        interrupts: true,
        memory: None,
    };
    vec![
        reference,
        vmbell::DEVICE,
        virtio_queue::DEVICE,
        vhost_user::RW_LOCK,
        vhost_user::MUTEX,
        #[cfg(feature = "alioth")]
        alioth::DEVICE,
        arcbox::DEVICE,
        #[cfg(feature = "krun")]
        krun::DEVICE,
        uhyve::DEVICE,
        #[cfg(feature = "c")]
        c::LINUX_DEVICE,
        #[cfg(feature = "c")]
        c::QEMU_TAKES_ALL_FIRST,
        #[cfg(feature = "c")]
        c::QEMU_ASKS_AT_THE_END,
        #[cfg(feature = "c")]
        c::QEMU_ASKS_EACH_TIME,
    ]
}

/// virtio-queue, restored from its saved state after it gives a buffer back and before it asks whether to interrupt.
pub const RESTORED_VIRTIO_QUEUE: Device = virtio_queue::RESTORED;

/// virtio-driver, with a user that leaves interrupts enabled while it takes used buffers.
pub const ALWAYS_ON_VIRTIO_DRIVER: Driver = virtio_driver::ALWAYS_ON;

/// The driver with this name.
///
/// # Panics
///
/// If there is no such driver.
pub fn driver(name: &str) -> Driver {
    let found = drivers()
        .into_iter()
        .find(|driver| driver.about.name == name);
    found.unwrap_or_else(|| panic!("there is no driver {name}"))
}

/// The device with this name.
///
/// # Panics
///
/// If there is no such device.
pub fn device(name: &str) -> Device {
    let found = devices()
        .into_iter()
        .find(|device| device.about.name == name);
    found.unwrap_or_else(|| panic!("there is no device {name}"))
}
