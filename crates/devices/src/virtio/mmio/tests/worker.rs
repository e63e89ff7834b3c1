//! A device whose queues a worker serves.

use std::sync::atomic::{AtomicU32, Ordering};

use super::*;
use kit::wait::await_that;
use vmbell_hypervisor::IrqTrigger;

const LAYOUTS: [SplitLayout; 3] = [
    SplitLayout::contiguous(0, 8),
    SplitLayout::contiguous(0x1000, 8),
    SplitLayout::contiguous(0x2000, 8),
];

/// A line that counts its interrupts.
#[derive(Clone, Debug, Default)]
pub struct Line(Arc<AtomicU32>);

impl Line {
    pub fn raised(&self) -> u32 {
        self.0.load(Ordering::Acquire)
    }
}

impl IrqTrigger for Line {
    fn signal(&self) {
        self.0.fetch_add(1, Ordering::AcqRel);
    }
}

/// Waits until `raised` interrupts have been raised, and fails if there are more.
fn wait(line: &Line, raised: u32) {
    await_that("the interrupt", || line.raised() >= raised);
    assert_eq!(line.raised(), raised);
}

/// A device whose driver has set everything up except for DRIVER_OK.
pub fn set_up() -> (Device, Double, Line) {
    let (worker, line) = (Double::default(), Line::default());
    let memory = GuestMemoryMmap::from_ranges(&[(GuestAddress(0), RAM)]).unwrap();
    let interrupt = Interrupt::new(Box::new(line.clone()));
    let device = VirtioDevice::with_worker(worker.clone(), VirtioConfig::default());
    let backlog = Backlog::default();
    let transport = VirtioMmio::new(device, &memory, interrupt, backlog.clone());
    let device = Device {
        memory,
        transport: transport.unwrap(),
        backlog,
    };
    device.negotiate(0);
    for (queue, layout) in (0..).zip(LAYOUTS) {
        assert!(device.set_up(queue, 8, &layout), "{queue}");
    }
    (device, worker, line)
}

#[test]
fn worker_gets_what_the_driver_has_set_up_and_loses_it_at_a_reset() {
    let (device, worker, _) = set_up();
    assert_eq!(device.read(register::DEVICE_ID), 1);
    let mut config = [0; 6];
    device.transport.read(register::CONFIG, &mut config);
    assert_eq!(&config, b"config");
    assert!(worker.told().running.is_empty(), "before DRIVER_OK");
    device.go_live();
    assert_eq!(worker.told().running, [0, 1]);
    assert_eq!(worker.told().memory, RAM as u64);
    device.write(register::STATUS, 0);
    assert!(worker.told().running.is_empty());
}

#[test]
fn worker_is_woken_by_the_eventfd_of_a_doorbell_and_by_the_register() {
    let (device, worker, _) = set_up();
    device.go_live();
    device.transport.kick(0).unwrap().write(1).unwrap();
    device.write(register::QUEUE_NOTIFY, 1);
    for queue in [0, 1] {
        assert_eq!(worker.told().kicks[queue].read().unwrap(), 1, "{queue}");
    }
    // The worker does not get the third queue, and there is no queue after it.
    assert_eq!(worker.told().kicks.len(), 2);
    device.write(register::QUEUE_NOTIFY, 3);
    assert!(device.transport.kick(3).is_none());
}

#[test]
fn each_call_sets_the_status_before_it_raises_the_line() {
    let (device, worker, line) = set_up();
    device.go_live();
    for (raised, queue) in (1..).zip([0, 1, 0]) {
        let call = worker.told().calls[queue].try_clone().unwrap();
        call.write(1).unwrap();
        wait(&line, raised);
        assert_eq!(device.read(register::INTERRUPT_STATUS), 1, "{queue}");
        device.write(register::INTERRUPT_ACK, 1);
        assert_eq!(device.read(register::INTERRUPT_STATUS), 0, "{queue}");
    }
}

#[test]
fn driver_is_told_of_a_queue_that_the_worker_finds_broken() {
    let (device, worker, line) = set_up();
    device.go_live();
    worker.told().errors.as_ref().unwrap().write(1).unwrap();
    wait(&line, 1);
    assert_eq!(device.read(register::INTERRUPT_STATUS), 2);
    assert_eq!(device.status() & NEEDS_RESET, NEEDS_RESET);
    device.write(register::STATUS, 0);
    assert_eq!(device.status(), 0);
    assert!(worker.told().running.is_empty());
}
