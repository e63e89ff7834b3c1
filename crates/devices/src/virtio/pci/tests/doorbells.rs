//! Notifications, through doorbells that move with the BAR, or through exits.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use super::super::bells::Bells;
use super::super::layout::Space;
use super::*;
use crate::snapshot::SnapshotError;
use crate::virtio::ring::QueueRegisters;
use crate::virtio::server::{Server, ServerSnapshot};
use crate::virtio::{Handled, HandlerError, Refusal, Request};
use kit::wait::await_that;
use vmbell::eventfd::{EFD_NONBLOCK, EventFd};
use vmbell_virtqueue::{Buffer, DeviceState, Features, SplitDriver, brand};

const LAYOUTS: [SplitLayout; 2] = [
    SplitLayout::contiguous(0, 8),
    SplitLayout::contiguous(0x2000, 8),
];

/// The slot of the device, after the host bridge.
const FIRST_SLOT: usize = 1;

/// A live device with two queues.
fn live(notify: Notify) -> Pc {
    live_as(VirtioConfig {
        notify,
        ..VirtioConfig::default()
    })
}

/// Like [`live`], with notifications at ports.
fn live_with_ports(notify: Notify) -> Pc {
    live_as(VirtioConfig {
        notify,
        notify_ports: true,
        ..VirtioConfig::default()
    })
}

fn live_as(config: VirtioConfig) -> Pc {
    let mut pc = Pc::new(config);
    go_live(&mut pc);
    pc
}

fn go_live(pc: &mut Pc) {
    pc.negotiate();
    for (queue, layout) in (0..).zip(&LAYOUTS) {
        assert!(pc.set_up(queue, layout, 0xffff));
    }
    pc.go_live();
}

/// Waits for the answer to a request that `notify` announces.
fn await_answer(pc: &mut Pc, queue: usize, notify: impl FnOnce(&mut Pc)) {
    brand::scoped(|brand| {
        let memory = pc.memory.clone();
        let memory = &memory;
        let layout = &LAYOUTS[queue];
        let mut driver = SplitDriver::new(&memory, layout, Features::default(), brand).unwrap();
        driver.add(&[Buffer::new(0x8000, 4)], &[], ()).unwrap();
        notify(pc);
        await_that("the answer", || driver.get_used().unwrap().is_some());
    });
}

#[test]
fn each_queue_has_a_doorbell_of_its_own_for_writes_of_any_length() {
    for queue in [0, 1] {
        let mut pc = live(Notify::Doorbell);
        let address = NOTIFY + 4 * queue as u64;
        await_answer(&mut pc, queue, |pc| {
            assert!(pc.store(address, 2, queue as u64));
        });
        for len in [1, 4, 8] {
            assert!(pc.store(address, len, 0));
        }
        assert_eq!(pc.errors(), 0);
    }
}

#[test]
fn doorbells_move_with_the_bar_and_go_with_its_decoding() {
    let mut pc = live(Notify::Doorbell);
    let moved = BASE + 0x10_0000;
    pc.configure(0x10, 4, moved);
    assert!(!pc.bell.ring(IoEventAddress::Mmio(NOTIFY), &[0; 2]));
    await_answer(&mut pc, 0, |pc| {
        assert!(pc.store(moved + 0x3000, 2, 0));
    });
    assert_eq!(pc.registry.registered(), 2);
    pc.configure(0x04, 2, 0);
    assert_eq!(pc.registry.registered(), 0);
    pc.configure(0x04, 2, 2);
    assert_eq!(pc.registry.registered(), 2);
    assert_eq!(pc.errors(), 0);
}

#[test]
fn a_notification_at_a_port_rings_the_doorbell_of_its_queue() {
    for queue in [0, 1] {
        let mut pc = live_with_ports(Notify::Doorbell);
        assert_eq!(pc.registry.registered(), 2);
        let port = PORTS + 4 * queue as u64;
        await_answer(&mut pc, queue, |pc| {
            assert!(pc.out(port, 2, queue as u64));
        });
        assert!(pc.out(port, 4, 0), "with data");
        assert_eq!(pc.errors(), 0);
    }
}

#[test]
fn doorbells_move_with_the_ports_and_are_in_memory_without_them() {
    const IO: u64 = 1;
    const MEMORY: u64 = 2;
    let mut pc = live_with_ports(Notify::Doorbell);
    pc.configure(0x14, 4, 0xd000);
    await_answer(&mut pc, 1, |pc| {
        assert!(!pc.out(PORTS + 4, 2, 1));
        assert!(pc.out(0xd004, 2, 1));
    });
    pc.configure(0x04, 2, MEMORY);
    assert!(pc.store(NOTIFY + 4, 2, 1));
    pc.configure(0x04, 2, IO | MEMORY);
    assert!(pc.out(0xd004, 2, 1));
    assert_eq!(pc.registry.registered(), 2);
    pc.configure(0x04, 2, 0);
    assert_eq!(pc.registry.registered(), 0);
    assert_eq!(pc.errors(), 0);
}

#[test]
fn a_driver_that_notifies_in_memory_has_its_doorbells_there_until_a_reset() {
    let mut pc = live_with_ports(Notify::Doorbell);
    await_answer(&mut pc, 1, |pc| assert!(!pc.store(NOTIFY + 4, 2, 1)));
    assert_eq!(pc.registry.registered(), 2);
    await_answer(&mut pc, 0, |pc| assert!(pc.store(NOTIFY, 2, 0)));
    assert!(pc.store(NOTIFY + 4, 2, 1));
    assert!(!pc.out(PORTS + 4, 2, 1), "by an exit");
    pc.set(STATUS, 1, 0);
    go_live(&mut pc);
    assert!(pc.out(PORTS + 4, 2, 1));
    assert!(!pc.store(NOTIFY, 2, 0));
    assert_eq!(pc.errors(), 0);
}

#[test]
fn without_doorbells_a_queue_is_served_before_the_access_to_its_port_returns() {
    let mut pc = live_with_ports(Notify::Exit);
    brand::scoped(|brand| {
        let memory = &pc.memory.clone();
        let mut driver =
            SplitDriver::new(&memory, &LAYOUTS[1], Features::default(), brand).unwrap();
        driver.add(&[Buffer::new(0x8000, 4)], &[], ()).unwrap();
        assert!(!pc.out(PORTS, 2, 0));
        assert!(driver.get_used().unwrap().is_none(), "another queue's");
        assert!(!pc.out(PORTS + 4, 2, 1));
        assert!(driver.get_used().unwrap().is_some());
    });
}

#[test]
fn doorbells_are_registered_while_the_driver_runs_the_device() {
    let mut pc = Pc::new(VirtioConfig::default());
    pc.configure(0x04, 2, 0);
    pc.configure(0x04, 2, 2);
    pc.negotiate();
    for (queue, layout) in (0..).zip(&LAYOUTS) {
        assert!(pc.set_up(queue, layout, 0xffff));
    }
    assert_eq!(pc.registry.registered(), 0);
    pc.go_live();
    assert_eq!(pc.registry.registered(), 2);
    pc.set(STATUS, 1, 0);
    assert_eq!(pc.registry.registered(), 0, "after a reset");
    assert_eq!(pc.errors(), 0);
}

/// A server of one queue, whose eventfd the doorbells need.
struct Kicked(Arc<EventFd>);

impl ServerSnapshot for Kicked {
    fn pause(&self) -> Result<Vec<Option<DeviceState>>, SnapshotError> {
        unreachable!("not for doorbells")
    }

    fn restore(&self, _: &[Option<&DeviceState>]) -> Result<(), SnapshotError> {
        unreachable!("not for doorbells")
    }
}

impl Server for Kicked {
    fn check(&self, _: u16, _: &QueueRegisters, _: u64) -> Result<(), Refusal> {
        unreachable!("not for doorbells")
    }

    fn start(&self, _: u64, _: &[QueueRegisters]) -> Result<(), Refusal> {
        unreachable!("not for doorbells")
    }

    fn stop(&self) {}

    fn stop_queue(&self, _: u16) {}

    fn kick(&self, _: u16) -> Option<&Arc<EventFd>> {
        Some(&self.0)
    }

    fn notify(&self, _: u16) {}
}

#[test]
fn doorbells_are_as_the_status_is_after_two_vcpus_have_changed_it_at_once() {
    let registry = Arc::new(Registry::default());
    let event = Arc::new(EventFd::new(EFD_NONBLOCK).unwrap());
    let events = Arc::clone(&registry) as _;
    let bells = Bells::new(Arc::new(Kicked(event)), 1, events, Arc::new(|_| {}));
    bells.moved(Space::Memory, Some(BASE));
    let is_live = AtomicBool::new(false);
    let change = |live| {
        is_live.store(live, Ordering::Release);
        bells.update(|| is_live.load(Ordering::Acquire).then_some(0));
    };
    for round in 0..1000 {
        let ends_live = round % 2 == 0;
        is_live.store(!ends_live, Ordering::Release);
        std::thread::scope(|scope| {
            bells.update(|| {
                // What this vCPU reads is already out of date when it is used.
                let read = is_live.load(Ordering::Acquire);
                scope.spawn(|| change(ends_live));
                await_that("the other change", || {
                    is_live.load(Ordering::Acquire) == ends_live
                });
                read.then_some(0)
            });
        });
        assert_eq!(registry.registered(), usize::from(ends_live), "{round}");
    }
}

#[test]
fn a_notification_that_reaches_the_device_rings_its_doorbell() {
    let mut pc = live(Notify::Doorbell);
    await_answer(&mut pc, 1, |pc| {
        assert!(pc.mmio.write(NOTIFY + 4, &[1, 0]));
    });
}

#[test]
fn without_doorbells_the_queue_is_served_before_the_write_returns() {
    let mut pc = live(Notify::Exit);
    assert_eq!(pc.registry.registered(), 0);
    brand::scoped(|brand| {
        let memory = pc.memory.clone();
        let memory = &memory;
        let mut driver =
            SplitDriver::new(&memory, &LAYOUTS[1], Features::default(), brand).unwrap();
        driver.add(&[Buffer::new(0x8000, 4)], &[], ()).unwrap();
        pc.store(NOTIFY, 2, 0);
        assert!(driver.get_used().unwrap().is_none(), "another queue's");
        pc.store(NOTIFY + 4, 2, 1);
        assert!(driver.get_used().unwrap().is_some());
    });
    assert!(pc.backlog.is_empty());
}

#[test]
fn a_thread_that_polls_before_it_sleeps_misses_no_request() {
    let mut pc = live(Notify::Poll);
    brand::scoped(|brand| {
        let memory = &pc.memory.clone();
        let mut driver =
            SplitDriver::new(&memory, &LAYOUTS[0], Features::default(), brand).unwrap();
        for request in 0..500 {
            driver.add(&[Buffer::new(0x8000, 4)], &[], ()).unwrap();
            if driver.kick_prepare() {
                assert!(pc.store(NOTIFY, 2, 0));
            }
            await_that("the answer", || driver.get_used().unwrap().is_some());
            // Some requests come while the thread polls, and some after it has gone to sleep.
            if request % 50 == 0 {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    });
    assert_eq!(pc.errors(), 0);
}

#[test]
fn a_device_that_goes_takes_its_doorbells_along() {
    let pc = live(Notify::Doorbell);
    let registry = Arc::clone(&pc.registry);
    drop(pc);
    assert_eq!(registry.registered(), 0);
}

#[test]
fn a_device_that_is_pulled_out_takes_its_doorbells_along() {
    let pc = live(Notify::Doorbell);
    assert!(pc.registry.registered() > 0);
    assert!(pc.root.remove(FIRST_SLOT));
    assert_eq!(pc.registry.registered(), 0);
}

#[test]
fn a_device_that_a_full_bus_refuses_ends() {
    struct Ends {
        _alive: Arc<()>,
    }

    impl Handler for Ends {
        const DEVICE_ID: u32 = 0xffff;

        fn handle(&self, request: Request<'_>) -> Result<Handled, HandlerError> {
            Ok(request.complete(0))
        }
    }

    let (alive, mut guest) = (Arc::new(()), None);
    let pc = Pc::of(|parts| {
        let device = VirtioDevice::new(Inverter, QUEUES, VirtioConfig::default());
        let parts = guest.insert(parts);
        VirtioPci::new(device, parts.clone()).unwrap()
    });
    let add = || {
        let _alive = Arc::clone(&alive);
        let handler = Ends { _alive };
        let device = VirtioDevice::new(handler, 1, VirtioConfig::default());
        let function = VirtioPci::new(device, guest.clone().unwrap()).unwrap();
        pc.root.add(Arc::new(function))
    };
    let slots: Vec<usize> = std::iter::from_fn(|| add().ok()).collect();
    let devices = || Arc::strong_count(&alive) - 1;
    assert_eq!(devices(), slots.len(), "the refused one has ended");
    assert!(pc.root.remove(slots[0]));
    assert_eq!(devices(), slots.len() - 1, "another was pulled out");
}
