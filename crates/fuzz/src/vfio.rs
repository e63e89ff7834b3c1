//! A VFIO device and an IOMMU with random answers. Nothing panics, no chain is endless, and what is taken from the
//! answers keeps its rules.

use std::fs::File;
use std::io;
use std::sync::Arc;

use vmbell::sync::Mutex;
use vmbell_vfio::device::{Device, DeviceFile, DeviceInfo, SetIrqs};
use vmbell_vfio::iova::Iova;
use vmbell_vfio::region::{self, Region};

const PAGE: u64 = 4096;
/// A region of 64 KiB with two capabilities: its type, then two areas that can be mapped.
const REGION: &[u32] = &[
    88,
    15,
    0,
    32,
    0x10000,
    0,
    0,
    1, // struct vfio_region_info
    0x0001_0002,
    48,
    0,
    0, // VFIO_REGION_INFO_CAP_TYPE
    0x0001_0001,
    0,
    2,
    0,
    0,
    0,
    0x1000,
    0,
    0x8000,
    0, // VFIO_REGION_INFO_CAP_SPARSE_MMAP
];
/// An IOMMU with two ranges of addresses, followed by the number of its free entries.
const IOMMU: &[u32] = &[
    84,
    3,
    0xffff_f000,
    0xffff_ffff,
    24,
    0, // struct vfio_iommu_type1_info
    0x0001_0001,
    72,
    2,
    0,
    0,
    0,
    0xfedf_ffff,
    0,
    0xfef0_0000,
    0,
    0xffff_ffff,
    0x7f,
    0x0001_0003,
    0,
    65535, // VFIO_IOMMU_TYPE1_INFO_DMA_AVAIL
];

/// Does what the bytes say.
pub fn fuzz(data: &[u8]) {
    let mut input = Input(data.to_vec());
    match input.byte() % 4 {
        0 => {
            let answer = input.answer(REGION);
            let index = u32::from(input.byte() % 2);
            if let Ok(region) = region::parse(index, &answer) {
                assert_eq!(region.index, index);
                check_region(&region);
            }
        }
        1 => {
            let answer = input.answer(IOMMU);
            if let Ok(iova) = Iova::parse(&answer) {
                check_iova(&iova, &mut input);
            }
        }
        _ => open(input),
    }
}

/// The decisions.
#[derive(Debug)]
struct Input(Vec<u8>);

impl Input {
    fn byte(&mut self) -> u8 {
        self.0.pop().unwrap_or_default()
    }

    fn word(&mut self) -> u32 {
        u32::from_le_bytes([self.byte(), self.byte(), self.byte(), self.byte()])
    }

    fn long(&mut self) -> u64 {
        u64::from(self.word()) | u64::from(self.word()) << 32
    }

    /// A number that is likely to be wrong: small, near a limit, or anything.
    fn number(&mut self) -> u32 {
        match self.byte() % 4 {
            0 => u32::from(self.byte()),
            1 => u32::MAX - u32::from(self.byte()),
            2 => 1 << (self.byte() % 32),
            _ => self.word(),
        }
    }

    /// A valid answer with some words changed, and perhaps truncated or extended.
    fn answer(&mut self, sound: &[u32]) -> Vec<u8> {
        let mut words = sound.to_vec();
        for _ in 0..self.byte() % 8 {
            let at = usize::from(self.byte()) % words.len();
            words[at] = self.number();
        }
        let mut bytes: Vec<u8> = words.into_iter().flat_map(u32::to_ne_bytes).collect();
        if self.byte().is_multiple_of(4) {
            bytes.resize(usize::from(self.byte()), self.byte());
        }
        bytes
    }
}

fn check_region(region: &Region) {
    let end = region.offset.checked_add(region.size).expect("no wrap");
    assert!(i64::try_from(end).is_ok(), "{region:?}");
    let mut before = 0;
    for area in &region.areas {
        let paged = [area.start, area.end].map(|at| at.is_multiple_of(PAGE));
        assert_eq!(paged, [true; 2], "{region:?}");
        assert!(before <= area.start && area.start < area.end, "{region:?}");
        before = area.end;
    }
    assert!(before <= region.size, "{region:?}");
}

fn check_iova(iova: &Iova, input: &mut Input) {
    assert!(iova.page.is_power_of_two(), "{iova:?}");
    let mut before = None;
    for window in &iova.windows {
        assert!(window.start() <= window.end(), "{iova:?}");
        assert!(before.is_none_or(|end| end < *window.start()), "{iova:?}");
        before = Some(*window.end());
    }
    for _ in 0..4 {
        let (address, size) = (input.long() & !0xfff, u64::from(input.word()) & !0xfff);
        if iova.has(address, size) {
            let last = address + (size - 1);
            let inside = |at| iova.windows.iter().position(|window| window.contains(at));
            assert!(inside(&address).is_some(), "{iova:?}");
            assert_eq!(inside(&address), inside(&last), "{iova:?}");
        }
    }
    assert!(!iova.to_string().is_empty());
}

/// A device whose answers are all decided by the input.
#[derive(Debug)]
struct Hostile(Mutex<Input>);

impl Hostile {
    fn ask<T>(&self, with: impl FnOnce(&mut Input) -> T) -> T {
        with(&mut self.0.lock())
    }

    fn may_fail<T>(&self, value: T) -> io::Result<T> {
        match self.ask(Input::byte) {
            number @ 1..=8 => Err(io::Error::from_raw_os_error(number.into())),
            9 => Err(io::Error::from_raw_os_error(22)),
            _ => Ok(value),
        }
    }
}

impl DeviceFile for Hostile {
    fn info(&self) -> io::Result<DeviceInfo> {
        let info = self.ask(|input| DeviceInfo {
            flags: 1 << (input.byte() % 8) | 1,
            regions: input.number(),
            irqs: input.number(),
        });
        self.may_fail(info)
    }

    fn region_info(&self, index: u32, room: usize) -> io::Result<Vec<u8>> {
        assert!(room <= region::REGION_INFO_MAX, "{room}");
        let mut answer = self.ask(|input| input.answer(REGION));
        if let Some(place) = answer.get_mut(8..12) {
            place.copy_from_slice(&index.to_ne_bytes());
        }
        answer.truncate(room);
        self.may_fail(answer)
    }

    fn irq_info(&self, _index: u32) -> io::Result<(u32, u32)> {
        let answer = self.ask(|input| (input.number(), input.number() % 4096));
        self.may_fail(answer)
    }

    fn set_irqs(&self, _request: &SetIrqs<'_>) -> io::Result<()> {
        self.may_fail(())
    }

    fn read(&self, offset: u64, data: &mut [u8]) -> io::Result<()> {
        assert!(i64::try_from(offset + data.len() as u64).is_ok());
        self.may_fail(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        assert!(i64::try_from(offset + data.len() as u64).is_ok());
        self.may_fail(())
    }

    fn reset(&self) -> io::Result<()> {
        self.may_fail(())
    }

    fn mappable(&self) -> Arc<File> {
        Arc::new(File::open("/dev/null").expect("a file that is always there"))
    }
}

/// Opens a device and uses it in the ways that it says are possible.
fn open(mut input: Input) {
    let uses: Vec<_> = (0..8).map(|_| (input.number(), input.number())).collect();
    let Ok(device) = Device::new("hostile", Box::new(Hostile(Mutex::new(input)))) else {
        return;
    };
    assert!(device.regions().len() <= 256 && device.irqs().len() <= 256);
    for region in device.regions() {
        check_region(region);
        for area in &region.areas {
            let memory = device.memory(region, area);
            assert!(memory.size > 0 && memory.offset.checked_add(memory.size).is_some());
        }
    }
    assert!(device.irqs().iter().all(|irq| irq.count <= 2048));
    for (index, at) in uses {
        let mut data = [0; 8];
        let offset = u64::from(at) << (index % 33);
        let _ = device.read(index % 16, offset, &mut data);
        let _ = device.write(index % 16, offset, &data[..index as usize % 9]);
        let _ = device.enable();
        let _ = device.set_triggers(index, at, &[None]);
        let _ = device.set_unmask(index % 16, at % 4, None);
        let _ = device.unmask(index, at);
        let _ = device.trigger(index % 16, at % 4);
    }
}
