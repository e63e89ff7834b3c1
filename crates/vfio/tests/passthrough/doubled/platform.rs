//! Platform devices in the guest of a PC.

use std::io;
use std::sync::Arc;

use vmbell::memory::GuestRegionMmap;
use vmbell_hypervisor::Hypervisor;
use vmbell_vfio::PassthroughError;
use vmbell_vfio::dma::DmaSpace;
use vmbell_vfio::host::{Bus, HostDevice, Identity, Reset};
use vmbell_vfio::interrupt::InterruptPath;
use vmbell_vfio::iova::Iova;
use vmbell_vfio::node::{NodeInterrupt, NodeRegion, Trigger};
use vmbell_vmm::{BoardError, OnEvent, Pc, PcConfig};

use crate::passthrough::double::{BAR, Edu};
use testbed::chain;
use testbed::paper::Paper;

fn pc<H: Hypervisor>(h: &H) -> Pc {
    Pc::new(h, PcConfig::default(), &Paper::default().output).unwrap()
}

/// Panics at any event, for devices that must have none.
fn unexpected() -> OnEvent {
    Arc::new(|event| panic!("{event}"))
}

/// Addresses for devices that do no DMA. The double's own address space needs memory of a file, and a PC has none.
#[derive(Debug)]
struct Anywhere;

impl DmaSpace for Anywhere {
    fn iova(&self) -> Result<Iova, PassthroughError> {
        Ok(Iova {
            page: 4096,
            windows: vec![0..=u64::MAX],
            free_entries: None,
        })
    }

    fn map(&self, _address: u64, _region: &GuestRegionMmap) -> io::Result<()> {
        Ok(())
    }

    fn unmap(&self, _address: u64, _size: u64) -> io::Result<()> {
        Ok(())
    }
}

const fn interrupt(number: u32, trigger: Trigger) -> NodeInterrupt {
    NodeInterrupt { number, trigger }
}

fn each_platform_device_has_a_place_of_its_own<H: Hypervisor>(h: &H) {
    let pc = pc(h);
    let doubles = [Edu::platform(&[true, false]), Edu::platform(&[true])];
    let devices = [doubles[0].open(), doubles[1].open()];
    let [first, second] = [0, 1].map(|index: usize| {
        let device = Arc::clone(&devices[index]);
        pc.place(device, Arc::new(Anywhere), true, &unexpected())
            .unwrap()
    });
    let region = |address| NodeRegion { address, size: BAR };
    assert_eq!(first.regions, [region(0xc000_0000)]);
    assert_eq!(second.regions, [region(0xc000_0000 + BAR)]);
    let edge = interrupt(10, Trigger::EdgeRising);
    assert_eq!(first.interrupts, [interrupt(5, Trigger::LevelHigh), edge]);
    assert_eq!(second.interrupts, [interrupt(11, Trigger::LevelHigh)]);
    let paths = [InterruptPath::Resample, InterruptPath::Irqfd];
    assert_eq!(first.paths, paths);
    // Nothing else can be mapped where a device is mapped.
    let registers = devices[0].region(0).unwrap();
    let memory = devices[0].memory(registers, &registers.areas[0]);
    let vm = pc.machine().vm();
    let error = vm.map_device_memory(0xc000_0000, &memory).unwrap_err();
    assert!(error.to_string().contains("other memory"), "{error}");
    drop((devices, pc));
    for edu in doubles {
        edu.assert_given_back();
    }
}

fn platform_device_with_more_lines_than_free_pins_is_refused<H: Hypervisor>(h: &H) {
    let pc = pc(h);
    let edu = Edu::platform(&[true; 10]);
    let placed = pc.place(edu.open(), Arc::new(Anywhere), true, &unexpected());
    let error = chain(&placed.unwrap_err());
    let text = "edu cannot be assigned: the board has no free pins left";
    assert_eq!(error, text);
    edu.assert_given_back();
}

fn device_that_could_not_be_opened_can_be_tried_again<H: Hypervisor>(h: &H) {
    let pc = pc(h);
    let on_bus = |bus| HostDevice {
        bus,
        name: "edu".to_owned(),
        path: "/no/such/device".into(),
        identity: Identity::Described {
            compatible: Vec::new(),
            modalias: None,
        },
        driver: None,
        group: None,
        reset: Reset::Impossible,
        regions: Vec::new(),
        cdev: None,
    };
    let [platform, pci] = [Bus::Platform, Bus::Pci].map(on_bus);
    let tries = |name, open: &dyn Fn() -> Result<(), BoardError>| {
        let [first, second] = [(); 2].map(|()| chain(&open().unwrap_err()));
        assert_eq!(first, second, "{name}");
    };
    tries("platform", &|| {
        pc.assign_platform(&platform, true, &unexpected()).map(drop)
    });
    tries("pci", &|| pc.assign(&pci, true, &unexpected()));
}

testbed::on_kvm! {
    device_that_could_not_be_opened_can_be_tried_again;
    each_platform_device_has_a_place_of_its_own;
    platform_device_with_more_lines_than_free_pins_is_refused;
}
