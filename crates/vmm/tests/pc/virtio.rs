//! Virtio devices on the PC's PCI bus: notifications that never leave the kernel, and notifications that do.

use vmbell_devices::virtio::{Entropy, Notify, VirtioConfig, VirtioDevice};
use vmbell_hypervisor::Hypervisor;
use vmbell_vmm::{Pc, PcConfig, Stop};

use super::player::{Op, Play, Played};
use testbed::chain;
use testbed::paper::Paper;

/// Where queue 0 is notified.
const NOTIFY: u32 = 0xe000_3000;
/// The number of queues.
const NUM_QUEUES: u32 = 0xe000_0012;
/// The driver begins: it takes VERSION_1 and no queue.
const BEGIN: [Op; 6] = [
    Op::Store(1, STATUS, 1),
    Op::Store(1, STATUS, 3),
    Op::Store(4, 0xe000_0008, 1),
    Op::Store(4, 0xe000_000c, 1),
    Op::Store(1, STATUS, 0xb),
    Op::Store(1, STATUS, 0xf),
];
const STATUS: u32 = 0xe000_0014;

fn rng(notify: Notify, ops: Vec<Op>) -> Play {
    Play {
        rng: Some(VirtioConfig {
            notify,
            ..VirtioConfig::default()
        }),
        ..Play::new(ops)
    }
}

fn exits<H: Hypervisor>(hypervisor: &H, notify: Notify, width: u32, times: usize) -> u64 {
    let stores = vec![Op::Store(width, NOTIFY, 0); times];
    let ops = [&BEGIN[..], &stores].concat();
    let Played { end, exits, .. } = rng(notify, ops).run(hypervisor);
    assert_eq!(end, Ok(Stop::Done(0)));
    exits.heavy
}

fn doorbell_takes_notifications_with_no_exit_to_the_vmm<H: Hypervisor>(hypervisor: &H) {
    for width in [2, 4] {
        let exits = |times| exits(hypervisor, Notify::Doorbell, width, times);
        assert_eq!(exits(200), exits(1), "{width} bytes");
    }
}

fn without_a_doorbell_each_notification_is_an_exit<H: Hypervisor>(hypervisor: &H) {
    let exits = |times| exits(hypervisor, Notify::Exit, 2, times);
    assert_eq!(exits(200) - exits(1), 199);
}

fn registers_beside_the_doorbell_reach_the_device<H: Hypervisor>(hypervisor: &H) {
    let ops = vec![Op::Load(2, NUM_QUEUES), Op::Load(4, NOTIFY)];
    let results = rng(Notify::Doorbell, ops).results(hypervisor);
    assert_eq!(results, [1, 0]);
}

fn device_that_could_not_be_made_takes_no_pin<H: Hypervisor>(hypervisor: &H) {
    let pc = Pc::new(hypervisor, PcConfig::default(), &Paper::default().output).unwrap();
    let impossible = VirtioConfig {
        notification_data: true,
        ..VirtioConfig::default()
    };
    let plug = |config| pc.add_virtio_mmio(VirtioDevice::new(Entropy, 1, config));
    let error = chain(&plug(impossible).unwrap_err());
    assert!(error.contains("notification data needs PCI"), "{error}");
    for pin in 1..=9 {
        plug(VirtioConfig::default()).unwrap_or_else(|error| panic!("pin {pin}: {error}"));
    }
    let error = chain(&plug(VirtioConfig::default()).unwrap_err());
    assert!(error.contains("no free pins left"), "{error}");
}

fn full_bus_refuses_a_device_that_has_room_in_memory<H: Hypervisor>(hypervisor: &H) {
    let pc = Pc::new(hypervisor, PcConfig::default(), &Paper::default().output).unwrap();
    let config = VirtioConfig {
        notify: Notify::Exit,
        ..VirtioConfig::default()
    };
    let device = || VirtioDevice::new(Entropy, 1, config);
    let plugged = std::iter::repeat_with(|| pc.add_virtio_pci(device()));
    let error = plugged.flat_map(Result::err).next();
    let error = chain(&error.unwrap());
    assert!(error.contains("virtio-rng"), "{error}");
    pc.add_virtio_mmio(device()).unwrap();
}

testbed::on_kvm! {
    full_bus_refuses_a_device_that_has_room_in_memory;
    device_that_could_not_be_made_takes_no_pin;
    doorbell_takes_notifications_with_no_exit_to_the_vmm;
    without_a_doorbell_each_notification_is_an_exit;
    registers_beside_the_doorbell_reach_the_device;
}
