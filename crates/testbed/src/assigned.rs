//! An in-memory device in an in-memory guest: the kernel's rules for regions and interrupts, and the guest's irqfds,
//! routes and mappings. It records the events, and checks their order.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::sync::Arc;

use vmbell::eventfd::EventFd;
use vmbell::irq::{ForwardedLine, Gsi, IrqError, Msi, Route, Routing, Target};
use vmbell::memory::{GuestMemoryMmap, GuestRegionMmap};
use vmbell::sync::{Mutex, MutexGuard};
use vmbell_devices::pci::{BARS, CONFIG_SIZE, Routes};
use vmbell_hypervisor::{
    AssignedDevices, DeviceMemory, Error, ForwardedInterrupt, IRQ_ARCH, Irqfd, Irqs,
};
use vmbell_vfio::PassthroughError;
use vmbell_vfio::device::{Action, Data, DeviceFile, DeviceInfo, SetIrqs};
use vmbell_vfio::dma::{DmaMap, DmaSpace};
use vmbell_vfio::iova::Iova;
use vmbell_vfio::pci::GuestParts;

/// VFIO_DEVICE_FLAGS_RESET and VFIO_DEVICE_FLAGS_PCI.
const FLAGS: u32 = 1 | 1 << 1;
const CONFIG: u32 = 7;
/// Where a region is in the file, as in the kernel.
const REGION_SHIFT: u32 = 40;

/// What happened to the device, except reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// Configuration space was written: offset and bytes.
    Config(usize, Vec<u8>),
    /// A BAR was written: its number, offset and bytes.
    Bar(usize, u64, Vec<u8>),
    /// A part of a BAR was mapped at the guest's address.
    Map(usize, Range<u64>, u64),
    /// A part of a BAR was unmapped from the guest's address.
    Unmap(usize, Range<u64>, u64),
    /// The interrupts have a new destination.
    Wired(Wired),
    /// The device was reset.
    Reset,
}

/// Where the device's interrupts go. A vector signals an eventfd; its entry is the message of the eventfd's irqfd.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Wired {
    /// No index is on, or INTx is on without an irqfd.
    #[default]
    Nothing,
    /// INTx, to this line.
    Intx(Gsi),
    /// The messages of MSI.
    Msi(Vec<Option<Msi>>),
    /// The messages of MSI-X.
    Msix(Vec<Option<Msi>>),
}

/// What the device reports about itself, except its configuration space.
#[derive(Clone, Debug)]
pub struct Parts {
    /// The size of each BAR, and its areas that can be mapped.
    pub bars: [(u64, Vec<(u64, u64)>); BARS],
    /// How many interrupts INTx, MSI and MSI-X have.
    pub irqs: [u32; 3],
}

/// The state of the device and its guest.
#[derive(Debug)]
pub struct State {
    /// The configuration space.
    pub config: [u8; CONFIG_SIZE],
    /// What happened, in order.
    pub events: Vec<Event>,
    /// Where the interrupts lead.
    pub wired: Wired,
    /// What is mapped: a BAR and its part, by the guest's address.
    pub mapped: BTreeMap<u64, (usize, Range<u64>)>,
    /// Whether everything that can fail fails.
    pub fails: bool,
    /// Whether the guest has resample eventfds.
    pub resamples: bool,
    /// Whether the guest's line is up.
    pub line: bool,
    /// The index that is on, and the eventfds that it signals.
    on: Option<(u32, Vec<EventFd>)>,
    /// The triggers, as descriptor numbers of the caller's eventfds.
    triggers: Vec<RawFd>,
    irqfds: BTreeMap<RawFd, Gsi>,
    routes: BTreeMap<u32, Msi>,
}

/// The device and its guest.
#[derive(Debug)]
pub struct Device {
    parts: Parts,
    state: Mutex<State>,
}

fn refused<T>(number: i32) -> io::Result<T> {
    Err(io::Error::from_raw_os_error(number))
}

impl Device {
    /// A device with this configuration space.
    pub fn new(config: [u8; CONFIG_SIZE], parts: &Parts) -> Arc<Self> {
        let state = State {
            config,
            events: Vec::new(),
            wired: Wired::Nothing,
            mapped: BTreeMap::new(),
            fails: false,
            resamples: true,
            line: false,
            on: None,
            triggers: Vec::new(),
            irqfds: BTreeMap::new(),
            routes: BTreeMap::new(),
        };
        Arc::new(Self {
            parts: parts.clone(),
            state: Mutex::new(state),
        })
    }

    /// Opens the device. An error says why the device is invalid.
    pub fn open(self: &Arc<Self>) -> Result<vmbell_vfio::device::Device, PassthroughError> {
        vmbell_vfio::device::Device::new("a device", Box::new(Handle(Arc::clone(self))))
    }

    /// The parts of the guest that the device uses.
    pub fn guest(self: &Arc<Self>) -> GuestParts {
        let dma = DmaMap::new(Arc::clone(self) as _, &GuestMemoryMmap::default());
        GuestParts {
            backend: Arc::clone(self) as _,
            routes: Routes::new(Arc::new(Irqchip(Arc::clone(self))), Vec::new()),
            dma: Arc::new(dma.unwrap()),
        }
    }

    /// Locks the state, for a test to read or change.
    pub fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Returns what happened since the last call.
    pub fn take(&self) -> Vec<Event> {
        std::mem::take(&mut self.lock().events)
    }

    /// Signals an interrupt of the index that is on.
    pub fn signal(&self, vector: usize) {
        let state = self.lock();
        let (_, events) = state.on.as_ref().unwrap();
        events[vector].write(1).unwrap();
    }

    /// Changes how the interrupts are wired, and records an event if their destination has changed.
    fn wire<T>(&self, change: impl FnOnce(&mut State) -> io::Result<T>) -> io::Result<T> {
        let mut state = self.lock();
        if state.fails {
            return refused(libc::EIO);
        }
        let done = change(&mut state)?;
        let wired = state.leads_to();
        if state.wired != wired {
            state.wired = wired.clone();
            state.events.push(Event::Wired(wired));
        }
        Ok(done)
    }

    fn happen(&self, event: Event, change: impl FnOnce(&mut State)) -> io::Result<()> {
        let mut state = self.lock();
        state.events.push(event);
        if state.fails {
            return refused(libc::EIO);
        }
        change(&mut state);
        Ok(())
    }
}

impl State {
    fn leads_to(&self) -> Wired {
        let Some((index, _)) = self.on else {
            return Wired::Nothing;
        };
        let irqfds = self.triggers.iter().map(|fd| self.irqfds.get(fd));
        let messages = irqfds
            .clone()
            .map(|gsi| self.routes.get(&gsi?.number()).copied());
        match index {
            0 => {
                let mut gsis = irqfds.flatten();
                gsis.next().map_or(Wired::Nothing, |gsi| Wired::Intx(*gsi))
            }
            1 => Wired::Msi(messages.collect()),
            _ => Wired::Msix(messages.collect()),
        }
    }

    /// VFIO_DEVICE_SET_IRQS, as in Linux `drivers/vfio/pci/vfio_pci_intrs.c`.
    fn set(&mut self, request: &SetIrqs<'_>, has: u32) -> io::Result<()> {
        let is_on = matches!(self.on, Some((index, _)) if index == request.index);
        let fds = match (request.action, request.data) {
            (Action::Trigger, Data::None(0)) if is_on => {
                (self.on, self.triggers) = (None, Vec::new());
                return Ok(());
            }
            (Action::Trigger, Data::Eventfds(fds)) => fds,
            (Action::Unmask, _) if is_on && request.index == 0 => return Ok(()),
            _ => return refused(libc::EINVAL),
        };
        assert!(self.on.is_none(), "two kinds at a time, or one twice");
        assert!(request.start == 0 && (1..=has as usize).contains(&fds.len()));
        let fds: Vec<_> = fds.iter().map(|fd| fd.unwrap()).collect();
        self.triggers = fds.iter().map(|fd| fd.as_raw_fd()).collect();
        let events = fds.iter().map(|fd| fd.try_clone());
        self.on = Some((request.index, events.collect::<io::Result<_>>()?));
        Ok(())
    }
}

/// The device as an open file.
#[derive(Debug)]
struct Handle(Arc<Device>);

impl DeviceFile for Handle {
    fn info(&self) -> io::Result<DeviceInfo> {
        Ok(DeviceInfo {
            flags: FLAGS,
            regions: 9,
            irqs: 3,
        })
    }

    fn region_info(&self, index: u32, room: usize) -> io::Result<Vec<u8>> {
        // VFIO_REGION_INFO_FLAG_READ and _WRITE; _MMAP and _CAPS.
        let none = (0, Vec::new());
        let (flags, (size, areas)) = match index {
            CONFIG => (3, &(CONFIG_SIZE as u64, Vec::new())),
            _ => (15, self.0.parts.bars.get(index as usize).unwrap_or(&none)),
        };
        // The list of areas is the only capability (VFIO_REGION_INFO_CAP_SPARSE_MMAP).
        let len = u32::try_from(48 + 16 * areas.len()).unwrap();
        let offset = u64::from(index) << REGION_SHIFT;
        let mut answer = [len, flags, index, 32].map(u32::to_ne_bytes).concat();
        answer.extend([*size, offset].map(u64::to_ne_bytes).concat());
        let count = u32::try_from(areas.len()).unwrap();
        answer.extend([1, 0, count, 0].map(u32::to_ne_bytes).concat());
        for (offset, len) in areas {
            answer.extend([*offset, *len].map(u64::to_ne_bytes).concat());
        }
        answer.truncate(room);
        Ok(answer)
    }

    fn irq_info(&self, index: u32) -> io::Result<(u32, u32)> {
        // VFIO_IRQ_INFO_EVENTFD; _MASKABLE and _AUTOMASKED.
        let flags = if index == 0 { 7 } else { 1 };
        Ok((flags, self.0.parts.irqs[index as usize]))
    }

    fn set_irqs(&self, request: &SetIrqs<'_>) -> io::Result<()> {
        let has = self.0.parts.irqs[request.index as usize];
        self.0.wire(|state| state.set(request, has))
    }

    /// A BAR reads as the low byte of the offset.
    fn read(&self, offset: u64, data: &mut [u8]) -> io::Result<()> {
        let state = self.0.lock();
        if state.fails {
            return refused(libc::EIO);
        }
        if offset >> REGION_SHIFT == u64::from(CONFIG) {
            let at = usize::try_from(offset & 0xff).unwrap();
            data.copy_from_slice(&state.config[at..at + data.len()]);
        } else {
            data.fill(offset.to_le_bytes()[0]);
        }
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let (region, at) = place(offset);
        let data = data.to_vec();
        if region != CONFIG as usize {
            return self.0.happen(Event::Bar(region, at, data), |_| {});
        }
        let at = usize::try_from(at).unwrap();
        self.0.happen(Event::Config(at, data.clone()), |state| {
            state.config[at..at + data.len()].copy_from_slice(&data);
        })
    }

    fn reset(&self) -> io::Result<()> {
        self.0.happen(Event::Reset, |state| {
            assert_eq!(state.wired, Wired::Nothing, "reset with interrupts on");
            state.config[4..6].fill(0);
        })
    }

    fn mappable(&self) -> Arc<File> {
        Arc::new(File::open("/dev/null").unwrap())
    }
}

/// Splits a file offset into the region and the offset in it.
fn place(offset: u64) -> (usize, u64) {
    let region = usize::try_from(offset >> REGION_SHIFT).unwrap();
    (region, offset & ((1 << REGION_SHIFT) - 1))
}

fn failed(operation: &'static str) -> impl Fn(io::Error) -> Error {
    move |source| Error::System { operation, source }
}

impl AssignedDevices for Device {
    fn map_device_memory(&self, address: u64, memory: &DeviceMemory) -> Result<(), Error> {
        let pages = [address, memory.size].map(|number| number.is_multiple_of(4096));
        assert!(memory.size > 0 && pages == [true; 2], "{memory:?}");
        let (bar, offset) = place(memory.offset);
        let area = offset..offset + memory.size;
        let mapped = self.happen(Event::Map(bar, area.clone(), address), |state| {
            assert_ne!(state.config[4] & 2, 0, "mapped without memory decode");
            let before = state.mapped.insert(address, (bar, area));
            assert!(before.is_none(), "mapped twice at {address:#x}");
        });
        mapped.map_err(failed("map"))
    }

    fn unmap_device_memory(&self, address: u64) -> Result<(), Error> {
        let (bar, area) = self.lock().mapped[&address].clone();
        let unmapped = self.happen(Event::Unmap(bar, area, address), |state| {
            state.mapped.remove(&address);
        });
        unmapped.map_err(failed("unmap"))
    }

    fn add_vfio_file(&self, _: BorrowedFd<'_>) -> Result<(), Error> {
        Ok(())
    }

    fn remove_vfio_file(&self, _: BorrowedFd<'_>) -> Result<(), Error> {
        Ok(())
    }

    fn forward_interrupt(
        &self,
        _: &Arc<File>,
        _: u32,
        gsi: Gsi,
    ) -> Result<Box<dyn ForwardedInterrupt>, Error> {
        Err(IrqError::NoLine { gsi }.into())
    }
}

/// The guest's interrupts.
struct Irqchip(Arc<Device>);

impl Irqs for Irqchip {
    fn register_irqfd(
        &self,
        event: &Arc<EventFd>,
        gsi: Gsi,
        resample: Option<&EventFd>,
    ) -> Result<Irqfd, Error> {
        let device = Arc::clone(&self.0);
        if resample.is_some() && !device.lock().resamples {
            return Err(IrqError::NoResample.into());
        }
        let registered = device.wire(|state| {
            let before = state.irqfds.insert(event.as_raw_fd(), gsi);
            assert!(before.is_none(), "registered twice");
            Ok(())
        });
        registered.map_err(failed("register an irqfd"))?;
        let remove = move |event: &EventFd| {
            let removed = device.wire(|state| {
                state.irqfds.remove(&event.as_raw_fd()).unwrap();
                Ok(())
            });
            removed.map_err(failed("remove an irqfd"))
        };
        Ok(Irqfd::new(event, gsi, None, remove))
    }

    fn set_routing(&self, routes: &[Route]) -> Result<(), Error> {
        Routing::new(routes, IRQ_ARCH)?;
        let routes = routes.iter().map(|route| match route.target {
            Target::Msi(message) => (route.gsi.number(), message),
            target => panic!("{target:?}"),
        });
        let set = self.0.wire(|state| {
            state.routes = routes.collect();
            Ok(())
        });
        set.map_err(failed("set the routes"))
    }

    fn set_line(&self, _: Gsi, level: bool) -> Result<(), Error> {
        self.0.lock().line = level;
        Ok(())
    }

    fn forward_line(&self, gsi: Gsi) -> Result<Box<dyn ForwardedLine>, Error> {
        Err(IrqError::NoLine { gsi }.into())
    }

    fn signal_msi(&self, _: Msi) -> Result<bool, Error> {
        Ok(true)
    }
}

impl DmaSpace for Device {
    fn iova(&self) -> Result<Iova, PassthroughError> {
        Ok(Iova {
            page: 0x1000,
            windows: Vec::new(),
            free_entries: None,
        })
    }

    fn map(&self, _: u64, _: &GuestRegionMmap) -> io::Result<()> {
        Ok(())
    }

    fn unmap(&self, _: u64, _: u64) -> io::Result<()> {
        Ok(())
    }
}
