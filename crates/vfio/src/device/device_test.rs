use std::fs::File;
use std::sync::Arc;

use super::*;

use vmbell::sync::Mutex;

/// A device with chosen answers, which logs the requests about its interrupts and the writes to its regions.
#[derive(Debug, Default)]
struct Scripted {
    info: DeviceInfo,
    /// The answer about every region, before the region's index is put in.
    region: Vec<u8>,
    irq: (u32, u32),
    log: Arc<Mutex<Vec<String>>>,
}

const PCI_WITH_RESET: u32 = VFIO_DEVICE_FLAGS_PCI | VFIO_DEVICE_FLAGS_RESET;

impl DeviceFile for Scripted {
    fn info(&self) -> io::Result<DeviceInfo> {
        Ok(self.info)
    }

    fn region_info(&self, index: u32, room: usize) -> io::Result<Vec<u8>> {
        let mut answer = self.region.clone();
        answer.truncate(room);
        if let Some(place) = answer.get_mut(8..12) {
            place.copy_from_slice(&index.to_ne_bytes());
        }
        Ok(answer)
    }

    fn irq_info(&self, _index: u32) -> io::Result<(u32, u32)> {
        Ok(self.irq)
    }

    fn set_irqs(&self, request: &SetIrqs<'_>) -> io::Result<()> {
        let data = match request.data {
            Data::None(count) => format!("none {count}"),
            Data::Eventfds(fds) => {
                let set: Vec<_> = fds.iter().map(Option::is_some).collect();
                format!("{set:?}")
            }
        };
        let line = format!("{:?} {} {data}", request.action, request.index);
        self.log.lock().push(line);
        Ok(())
    }

    fn read(&self, offset: u64, data: &mut [u8]) -> io::Result<()> {
        data.fill((offset & 0xff) as u8);
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let line = format!("write {offset:#x} {data:x?}");
        self.log.lock().push(line);
        Ok(())
    }

    fn reset(&self) -> io::Result<()> {
        self.log.lock().push("reset".to_owned());
        Ok(())
    }

    fn mappable(&self) -> Arc<File> {
        Arc::new(File::open("/dev/null").unwrap())
    }
}

/// An answer about a region of `size` bytes at 1 MiB of the file.
fn region(argsz: u32, size: u64) -> Vec<u8> {
    let words = [argsz, 7, 0, 0];
    let head = words.into_iter().flat_map(u32::to_ne_bytes);
    let tail = [size, 1 << 20].into_iter().flat_map(u64::to_ne_bytes);
    head.chain(tail).collect()
}

/// A device with a level-triggered interrupt at each of three indexes.
fn scripted() -> Scripted {
    Scripted {
        info: DeviceInfo {
            flags: PCI_WITH_RESET,
            regions: 2,
            irqs: 3,
        },
        region: region(32, 0x1000),
        irq: (7, 1),
        log: Arc::default(),
    }
}

fn open(file: Scripted) -> Result<Device, PassthroughError> {
    Device::new("0000:00:03.0", Box::new(file))
}

#[test]
fn access_is_refused_where_it_leaves_its_region() {
    let device = open(scripted()).unwrap();
    let mut data = [0; 4];
    device.read(0, 0xffc, &mut data).unwrap();
    assert_eq!(data, [0xfc; 4]);
    for (region, offset, len) in [(0, 0xffe, 4), (1, u64::MAX, 2), (0, 0x1000, 1)] {
        let error = device.read(region, offset, &mut data[..len]).unwrap_err();
        assert!(
            matches!(error.kind, PassthroughErrorKind::Access { .. }),
            "{error}"
        );
        let error = device.write(region, offset, &data[..len]).unwrap_err();
        assert!(
            matches!(error.kind, PassthroughErrorKind::Access { .. }),
            "{error}"
        );
    }
    let error = device.read(2, 0, &mut data).unwrap_err();
    assert_eq!(error.to_string(), "0000:00:03.0: no region 2");
}

#[test]
fn interrupt_that_the_device_has_not_is_refused() {
    let device = open(scripted()).unwrap();
    let event = EventFd::new(0).unwrap();
    let error = device.set_triggers(3, 0, &[Some(&event)]).unwrap_err();
    let text = "0000:00:03.0: no interrupt 0 of index 3, which has 0";
    assert_eq!(error.to_string(), text);
    for (start, count) in [(1, 1), (0, 2), (u32::MAX, 1)] {
        let events = vec![Some(&event); count];
        let error = device.set_triggers(0, start, &events).unwrap_err();
        assert!(matches!(
            error.kind,
            PassthroughErrorKind::NoInterrupt { .. }
        ));
    }
    assert!(device.unmask(0, 1).is_err());
}

#[test]
fn edges_cannot_be_masked() {
    let edges = Scripted {
        irq: (9, 4),
        ..scripted()
    };
    let device = open(edges).unwrap();
    for error in [
        device.mask(1, 0).unwrap_err(),
        device.unmask(1, 0).unwrap_err(),
        device.set_unmask(1, 0, None).unwrap_err(),
    ] {
        assert!(matches!(
            error.kind,
            PassthroughErrorKind::NotMaskable { .. }
        ));
    }
    device.trigger(1, 3).unwrap();
}

#[test]
fn device_that_is_given_back_is_masked_and_then_reset() {
    let file = scripted();
    let log = Arc::clone(&file.log);
    let device = open(file).unwrap();
    log.lock().clear();
    drop(device);
    let expected = [
        "Trigger 0 none 0",
        "Trigger 1 none 0",
        "Trigger 2 none 0",
        "reset",
    ];
    assert_eq!(*log.lock(), expected);
}

#[test]
fn counts_that_no_device_has_are_refused() {
    for (regions, irqs) in [(u32::MAX, 0), (0, u32::MAX), (257, 1)] {
        let mut file = scripted();
        file.info.regions = regions;
        file.info.irqs = irqs;
        let error = open(file).unwrap_err();
        assert!(
            matches!(error.kind, PassthroughErrorKind::Indexes { .. }),
            "{error}"
        );
    }
    let mut file = scripted();
    file.irq.1 = u32::MAX;
    let error = open(file).unwrap_err();
    assert!(
        matches!(error.kind, PassthroughErrorKind::IrqCount(_)),
        "{error}"
    );
}

#[test]
fn answer_that_wants_endless_room_is_refused() {
    let mut file = scripted();
    file.region = region(u32::MAX, 0x1000);
    let error = open(file).unwrap_err();
    let PassthroughErrorKind::Region { source, .. } = &error.kind else {
        panic!("{error}")
    };
    assert_eq!(*source, RegionError::Long { len: u32::MAX });
}

#[test]
fn device_of_another_bus_is_refused() {
    let mut file = scripted();
    file.info.flags = 1 << 4;
    let error = open(file).unwrap_err();
    assert!(matches!(
        error.kind,
        PassthroughErrorKind::Kind { flags: 16, .. }
    ));
}

#[test]
fn device_without_a_reset_says_so() {
    let mut file = scripted();
    file.info.flags = VFIO_DEVICE_FLAGS_PLATFORM;
    let device = open(file).unwrap();
    assert_eq!(device.kind(), DeviceKind::Platform);
    let error = device.reset().unwrap_err();
    assert_eq!(error.to_string(), "0000:00:03.0: no reset");
}

#[test]
fn pci_device_decodes_memory_and_masters_its_bus_once_it_is_enabled() {
    let mut file = scripted();
    file.info.regions = 9;
    let log = Arc::clone(&file.log);
    let device = open(file).unwrap();
    device.enable().unwrap();
    // The register read as 0x0404 before; its set bits stay set.
    assert_eq!(*log.lock(), ["write 0x100004 [6, 4]"]);
    let mut file = scripted();
    file.info.flags = VFIO_DEVICE_FLAGS_PLATFORM;
    let log = Arc::clone(&file.log);
    open(file).unwrap().enable().unwrap();
    let log = log.lock();
    assert!(log.iter().all(|line| !line.starts_with("write")), "{log:?}");
}
