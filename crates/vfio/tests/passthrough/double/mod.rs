//! A double of a VFIO device: the kernel's rules for regions and interrupts (Linux `drivers/vfio/pci`,
//! `drivers/vfio/platform`) around the registers of QEMU's edu (`docs/specs/edu.rst`).
//!
//! It replaces the kernel below [`Device`](vmbell_vfio::device::Device), so that the code above is the same. The
//! registers are in a memory file, which a guest may have mapped: a thread looks there for stores and does what the
//! real device would do. The kernel's part runs on the thread that makes the request, and on a thread for each unmask
//! eventfd.

mod file;
mod interrupts;
mod registers;
mod space;

use std::io;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Weak};
use std::time::Duration;

use vmbell::sync::{Mutex, MutexGuard};
use vmbell_vfio::device::Device;

use file::Handle;
use interrupts::Interrupts;
use registers::Registers;
use testbed::await_that;

pub use registers::{ACK, IDENT, RAISE, STATUS, start_dma};
pub use space::Space;

/// The index of INTx, or the first line of a platform device.
pub const INTX: u32 = 0;
/// The index of MSI.
pub const MSI: u32 = 1;
/// The index of the request to give the device back.
pub const REQUEST: u32 = 4;

/// Bytes of region 0.
pub const BAR: u64 = 0x10_0000;
/// The region of PCI's configuration space.
pub const CONFIG: u32 = 7;

/// How often the thread looks at the registers.
const PERIOD: Duration = Duration::from_micros(20);

/// The device, whether it is open or not.
#[derive(Debug)]
pub struct Edu {
    registers: Registers,
    state: Mutex<State>,
    is_open: AtomicBool,
    is_broken: AtomicBool,
    me: Weak<Self>,
}

#[derive(Debug)]
struct State {
    interrupts: Interrupts,
    space: Option<Arc<Space>>,
    config: Vec<u8>,
    resets: u32,
}

impl Edu {
    /// A PCI device with INTx, MSI and the request to give it back.
    pub fn pci() -> Arc<Self> {
        Self::new(Interrupts::pci())
    }

    /// A platform device with these lines: whether each is level-triggered.
    pub fn platform(lines: &[bool]) -> Arc<Self> {
        Self::new(Interrupts::platform(lines))
    }

    fn new(interrupts: Interrupts) -> Arc<Self> {
        Arc::new_cyclic(|me| Self {
            registers: Registers::new(),
            state: Mutex::new(State {
                interrupts,
                space: None,
                config: vec![0; 256],
                resets: 0,
            }),
            is_open: AtomicBool::new(false),
            is_broken: AtomicBool::new(false),
            me: Weak::clone(me),
        })
    }

    /// Opens the device. It must be closed before it can be opened again.
    pub fn open(&self) -> Arc<Device> {
        assert!(!self.is_open.swap(true, SeqCst), "it is open already");
        let edu = self.me.upgrade().unwrap();
        Arc::new(Device::new("edu", Box::new(Handle::new(edu))).unwrap())
    }

    /// Gives the device these addresses.
    pub fn attach(&self, space: &Arc<Space>) {
        self.lock().space = Some(Arc::clone(space));
    }

    /// Makes the kernel refuse accesses and changes of interrupts, or stop refusing them.
    pub fn set_broken(&self, is_broken: bool) {
        self.is_broken.store(is_broken, SeqCst);
    }

    fn check(&self) -> io::Result<()> {
        if self.is_broken.load(SeqCst) {
            return Err(io::Error::from_raw_os_error(libc::EIO));
        }
        Ok(())
    }

    /// Sets the level of a line, or signals an edge.
    pub fn set_line(&self, index: u32, up: bool) {
        let mut state = self.lock();
        state.interrupts.set_line(index, up);
    }

    /// Signals the request to give the device back, as the kernel does again and again.
    pub fn ask_back(&self) {
        self.set_line(REQUEST, true);
    }

    /// How often an index was unmasked, in any way.
    pub fn unmasked(&self, index: u32) -> u64 {
        self.lock().interrupts.unmasked(index)
    }

    /// How often an index has signalled its eventfd.
    pub fn signalled(&self, index: u32) -> u64 {
        self.lock().interrupts.signalled(index)
    }

    /// Waits until the device is closed, since a vCPU may be in the middle of an access. Fails if anything of the
    /// device's user is left.
    pub fn assert_given_back(&self) {
        await_that("the device's end", || !self.is_open.load(SeqCst));
        assert!(self.lock().resets > 0, "it was not reset");
        self.assert_quiet();
    }

    /// Fails if the device has an eventfd or an interrupt.
    pub fn assert_quiet(&self) {
        let state = self.lock();
        assert_eq!(state.interrupts.eventfds(), 0, "{state:?}");
        assert_eq!(self.registers.get(STATUS), 0, "it was not reset");
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Does what stores to the registers ask for.
    fn look(&self, state: &mut State) {
        let up = self.registers.work(state.space.as_deref());
        if let Some(up) = up {
            state.interrupts.set_function(up);
        }
    }

    fn reset(&self) {
        let mut state = self.lock();
        self.registers.reset();
        state.interrupts.set_function(false);
        state.resets += 1;
    }

    /// What the kernel does when the file is closed.
    fn close(&self) {
        let watchers = self.lock().interrupts.disable_all();
        // The watchers take the lock themselves.
        drop(watchers);
        self.reset();
        // The device's group leaves the container, as its last group.
        if let Some(space) = self.lock().space.take() {
            space.end();
        }
        self.is_open.store(false, SeqCst);
    }
}
