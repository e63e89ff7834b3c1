//! What a reset clears: the lines of the table for both transports, and the lines for this transport only.

use std::time::Duration;

use super::worker::{Line, set_up};
use super::*;
use crate::virtio::reset_test::{Driven, Field, LAYOUT, Puppet, on_transport};

impl Driven for Device {
    fn new(puppet: Puppet) -> Self {
        Self::of(puppet, Notify::Exit, Interrupt::none())
    }

    fn memory(&self) -> &GuestMemoryMmap {
        &self.memory
    }

    fn get(&mut self, field: Field) -> u32 {
        self.read(register_of(field))
    }

    fn set(&mut self, field: Field, value: u32) {
        self.write(register_of(field), value);
    }

    fn set_up(&mut self, queue: u16, layout: &SplitLayout) -> bool {
        Device::set_up(self, queue.into(), layout.size.into(), layout)
    }

    fn notify(&mut self, queue: u16) {
        self.write(register::QUEUE_NOTIFY, queue.into());
    }
}

const fn register_of(field: Field) -> u64 {
    match field {
        Field::Status => register::STATUS,
        Field::DeviceFeatureSelector => register::DEVICE_FEATURES_SEL,
        Field::DeviceFeatures => register::DEVICE_FEATURES,
        Field::DriverFeatureSelector => register::DRIVER_FEATURES_SEL,
        Field::DriverFeatures => register::DRIVER_FEATURES,
        Field::QueueSelector => register::QUEUE_SEL,
        Field::QueueSize => register::QUEUE_SIZE_MAX,
        Field::QueueReady => register::QUEUE_READY,
        Field::Reasons => register::INTERRUPT_STATUS,
    }
}

on_transport! { Device }

#[test]
fn size_and_addresses_of_a_queue_are_zero() {
    let device = Device::new(Notify::Exit);
    device.negotiate(0);
    assert!(device.set_up(0, 8, &LAYOUT));
    device.negotiate(0);
    device.write(register::QUEUE_READY, 1);
    let text = device.refusal().to_string();
    assert_eq!(text, "queue 0 cannot be set up", "without a size");
    device.write(register::QUEUE_SIZE_MAX, 8);
    device.write(register::QUEUE_READY, 1);
    assert_eq!(device.read(register::QUEUE_READY), 0, "without addresses");
}

/// A worker that signals after its stop, on the thread that waits for the worker.
fn signals_after_a_reset(signal: impl FnOnce(&Double)) -> (Device, Line) {
    let (device, worker, line) = set_up();
    device.go_live();
    device.write(register::STATUS, 0);
    signal(&worker);
    // Gives the thread time to see the signal.
    std::thread::sleep(Duration::from_millis(50));
    (device, line)
}

#[test]
fn call_of_a_worker_after_it_is_not_heard() {
    let (device, line) = signals_after_a_reset(|worker| worker.told().calls[0].write(1).unwrap());
    assert_eq!(line.raised(), 0);
    assert_eq!(device.read(register::INTERRUPT_STATUS), 0);
}

#[test]
fn queue_that_a_worker_finds_broken_after_it_is_not_heard() {
    let (device, line) = signals_after_a_reset(|worker| {
        let told = worker.told();
        told.errors.as_ref().unwrap().write(1).unwrap();
    });
    assert_eq!(line.raised(), 0);
    assert!(device.transport.take_refusal().is_none());
    device.write(register::STATUS, ACKNOWLEDGE);
    assert_eq!(device.status(), ACKNOWLEDGE);
}
