//! An assigned PCI device whose configuration space is anything, and a guest that writes anything to it: no panic, the
//! capabilities are inside the space, and only one kind of interrupts is on at a time.

use std::fs::File;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex};

use vm_memory::{GuestMemoryMmap, GuestRegionMmap};
use vmbell::bus::{Bus, BusRange};
use vmbell::eventfd::EventFd;
use vmbell::irq::{ForwardedLine, Gsi, IrqError, Msi, Route, Routing};
use vmbell_devices::pci::{
    Board, CONFIG_PORTS, CONFIG_SIZE, PciRoot, Routes, Window, Windows, find_capabilities,
};
use vmbell_hypervisor::{
    AssignedDevices, DeviceMemory, Error, ForwardedInterrupt, IRQ_ARCH, Irqfd, Irqs,
};
use vmbell_vfio::PassthroughError;
use vmbell_vfio::device::{Action, Data, Device, DeviceFile, DeviceInfo, SetIrqs};
use vmbell_vfio::dma::{DmaMap, DmaSpace};
use vmbell_vfio::iova::Iova;
use vmbell_vfio::pci::{AssignedPci, GuestParts};

/// A device to begin with: offset and bytes. It has power management, MSI, and MSI-X in BAR2.
const DEVICE: &[(usize, &[u8])] = &[
    (0x00, &[0x86, 0x80, 0xd3, 0x10, 0, 0, 0x10, 0]),
    (0x14, &[0x01, 0, 0, 0, 0x0c]),
    (0x34, &[0x40]),
    (0x3d, &[1]),
    (0x40, &[0x01, 0x50]),
    (0x50, &[0x05, 0x70, 0x8a, 0x01]),
    (
        0x70,
        &[0x11, 0, 0x03, 0, 0x02, 0x20, 0, 0, 0x02, 0x30, 0, 0],
    ),
];
const SIZES: [u64; 6] = [0x4000, 32, 0x8000, 0, 0, 0];

/// How many interrupts INTx, MSI and MSI-X have. Each is a descriptor of this process.
const IRQS: [u32; 3] = [1, 32, 64];
/// The region of configuration space.
const CONFIG: u32 = 7;
/// Where a region is in the file, as in the kernel.
const REGION_SHIFT: u32 = 40;

/// The device: its configuration space, the areas of its BARs, and which interrupts are on.
#[derive(Debug)]
struct Fuzzed {
    areas: [(u64, u64); 6],
    state: Mutex<([u8; CONFIG_SIZE], Option<u32>)>,
}

impl DeviceFile for Fuzzed {
    fn info(&self) -> io::Result<DeviceInfo> {
        // VFIO_DEVICE_FLAGS_RESET and VFIO_DEVICE_FLAGS_PCI.
        Ok(DeviceInfo {
            flags: 3,
            regions: 9,
            irqs: 3,
        })
    }

    fn region_info(&self, index: u32, _room: usize) -> io::Result<Vec<u8>> {
        // VFIO_REGION_INFO_FLAG_READ and _WRITE; _MMAP and _CAPS with one VFIO_REGION_INFO_CAP_SPARSE_MMAP.
        let (flags, size) = match index {
            CONFIG => (3, CONFIG_SIZE as u64),
            _ => (15, SIZES.get(index as usize).copied().unwrap_or(0)),
        };
        let (offset, len) = self.areas.get(index as usize).copied().unwrap_or((0, 0));
        let place = u64::from(index) << REGION_SHIFT;
        let mut answer = [64_u32, flags, index, 32].map(u32::to_ne_bytes).concat();
        answer.extend([size, place].map(u64::to_ne_bytes).concat());
        answer.extend([1_u32, 0, 1, 0].map(u32::to_ne_bytes).concat());
        answer.extend([offset, len].map(u64::to_ne_bytes).concat());
        Ok(answer)
    }

    fn irq_info(&self, index: u32) -> io::Result<(u32, u32)> {
        Ok((if index == 0 { 7 } else { 1 }, IRQS[index as usize]))
    }

    fn set_irqs(&self, request: &SetIrqs<'_>) -> io::Result<()> {
        let mut state = self.state.lock().expect("no panic before");
        let on = &mut state.1;
        match (request.action, request.data) {
            (Action::Trigger, Data::Eventfds(fds)) => {
                assert!(on.is_none(), "{request:?} while {on:?} is on");
                assert!((1..=IRQS[request.index as usize] as usize).contains(&fds.len()));
                *on = Some(request.index);
            }
            (Action::Trigger, Data::None(0)) if *on == Some(request.index) => *on = None,
            (Action::Unmask, _) if *on == Some(0) => {}
            _ => return Err(io::ErrorKind::InvalidInput.into()),
        }
        Ok(())
    }

    fn read(&self, offset: u64, data: &mut [u8]) -> io::Result<()> {
        data.fill(0);
        if offset >> REGION_SHIFT == u64::from(CONFIG) {
            let state = self.state.lock().expect("no panic before");
            let at = (offset & 0xff) as usize;
            data.copy_from_slice(&state.0[at..at + data.len()]);
        }
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        if offset >> REGION_SHIFT == u64::from(CONFIG) {
            let mut state = self.state.lock().expect("no panic before");
            let at = (offset & 0xff) as usize;
            state.0[at..at + data.len()].copy_from_slice(data);
        }
        Ok(())
    }

    fn reset(&self) -> io::Result<()> {
        Ok(())
    }

    fn mappable(&self) -> Arc<File> {
        Arc::new(File::open("/dev/null").expect("a file"))
    }
}

/// The guest, which takes what it is given.
#[derive(Debug)]
struct Guest;

impl Guest {
    fn parts() -> GuestParts {
        let dma = DmaMap::new(Arc::new(Self), &GuestMemoryMmap::default());
        GuestParts {
            backend: Arc::new(Self),
            routes: Routes::new(Arc::new(Self), Vec::new()),
            dma: Arc::new(dma.expect("no memory to map")),
        }
    }
}

impl AssignedDevices for Guest {
    fn map_device_memory(&self, address: u64, memory: &DeviceMemory) -> Result<(), Error> {
        assert!(memory.size > 0 && memory.size.is_multiple_of(4096));
        assert!(address.is_multiple_of(4096));
        Ok(())
    }

    fn unmap_device_memory(&self, _: u64) -> Result<(), Error> {
        Ok(())
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

impl Irqs for Guest {
    fn register_irqfd(
        &self,
        event: &Arc<EventFd>,
        gsi: Gsi,
        _: Option<&EventFd>,
    ) -> Result<Irqfd, Error> {
        Ok(Irqfd::new(event, gsi, None, |_| Ok(())))
    }

    fn set_routing(&self, routes: &[Route]) -> Result<(), Error> {
        Routing::new(routes, IRQ_ARCH)?;
        Ok(())
    }

    fn set_line(&self, _: Gsi, _: bool) -> Result<(), Error> {
        Ok(())
    }

    fn forward_line(&self, gsi: Gsi) -> Result<Box<dyn ForwardedLine>, Error> {
        Err(IrqError::NoLine { gsi }.into())
    }

    fn signal_msi(&self, _: Msi) -> Result<bool, Error> {
        Ok(true)
    }
}

impl DmaSpace for Guest {
    fn iova(&self) -> Result<Iova, PassthroughError> {
        Ok(Iova {
            page: 4096,
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

/// One run, as `data` decides.
pub fn fuzz(data: &[u8]) {
    let mut bytes = data.iter().copied();
    let mut config = [0; CONFIG_SIZE];
    for (at, bytes) in DEVICE {
        config[*at..*at + bytes.len()].copy_from_slice(bytes);
    }
    for _ in 0..bytes.next().unwrap_or(0) % 32 {
        let (at, byte) = (bytes.next().unwrap_or(0), bytes.next().unwrap_or(0));
        config[usize::from(at)] = byte;
    }
    if let Ok(found) = find_capabilities(&config) {
        assert!(found.len() <= 48);
        for capability in found {
            assert!(capability.at() >= 0x40 && capability.end() <= CONFIG_SIZE);
        }
    }
    // The kernel's areas are inside their BAR; others are refused.
    let areas = SIZES.map(|size| {
        let mut number = || u64::from(bytes.next().unwrap_or(0)) << 8;
        let offset = number().min(size);
        (offset, number().min(size - offset))
    });
    let state = Mutex::new((config, None));
    configure(Fuzzed { areas, state }, bytes);
}

/// The guest: each four bytes are an access, of a register or of the first page of the table of MSI-X.
fn configure(device: Fuzzed, mut bytes: impl Iterator<Item = u8>) {
    let device = Device::new("a device", Box::new(device)).expect("regions that make sense");
    let on_error = Box::new(|error| panic!("{error}"));
    let function = AssignedPci::new(Arc::new(device), Guest::parts(), true, on_error);
    let Ok(function) = function else { return };
    let (pio, mmio) = (Arc::new(Bus::new()), Arc::new(Bus::new()));
    let range = |base, len| BusRange::new(base, len).expect("a range");
    let window = |base, len| Window::new(range(base, len));
    let board = Board {
        reserved: vec![range(0, 0x1000_0000)],
        intx: |_, _| Gsi::new(16).ok(),
        ..Board::from(Windows {
            io: window(0xc000, 0x4000),
            memory32: window(0xe000_0000, 0x1000_0000),
            memory64: window(1 << 36, 1 << 38),
        })
    };
    let root = PciRoot::new(&pio, &mmio, board).expect("a root");
    if root.add(Arc::new(function)).is_err() {
        return;
    }
    let (mut ports, mut memory) = (pio.reader(), mmio.reader());
    while let Some(act) = bytes.next() {
        let [at, low, high] = [(); 3].map(|()| bytes.next().unwrap_or(0));
        let len = usize::from(act >> 2 & 3) + 1;
        let value = [low, high, low, 0xfe];
        match act & 3 {
            0 if act == 0 => root.reset(),
            0 | 1 => {
                let address = 1_u32 << 31 | 1 << 11 | u32::from(at & !3);
                ports.write(CONFIG_PORTS, &address.to_le_bytes());
                let port = CONFIG_PORTS + 4 + u64::from(at & 3);
                let len = len.min(4 - usize::from(at & 3));
                ports.write(port, &value[..len]);
                ports.read(port, &mut [0; 4][..len]);
            }
            _ => {
                let entry = [
                    0,
                    0,
                    0xe0,
                    0xfe,
                    0,
                    0,
                    0,
                    0,
                    low,
                    high,
                    0,
                    0,
                    act >> 7,
                    0,
                    0,
                    0,
                ];
                let table = (1 << 36) + 0x2000 + u64::from(at);
                memory.write(table, &entry[usize::from(at & 8)..][..8]);
                memory.write(table, &value[..len]);
                memory.read(table, &mut [0; 8][..len]);
                memory.read(table + 0x1000, &mut [0; 8]);
            }
        }
    }
}
