//! A device whose own code panics: the driver is notified, and a reset repairs the device, whichever thread served the
//! queue.

use std::sync::atomic::AtomicBool;

use super::*;
use crate::virtio::{Handled, HandlerError, Request};
use kit::wait::await_that;
use vmbell_virtqueue::{Buffer, Features, SplitDriver, brand};

const LAYOUT: SplitLayout = SplitLayout::contiguous(0, 8);

/// Panics at its first request.
#[derive(Default)]
struct Panics(AtomicBool);

impl Handler for Panics {
    const DEVICE_ID: u32 = 0xffff;

    fn handle(&self, request: Request<'_>) -> Result<Handled, HandlerError> {
        assert!(self.0.swap(true, Ordering::Relaxed), "the first request");
        Ok(request.complete(0))
    }
}

/// Starts the device, and gives it a chain; calls `until` to wait for the result.
fn give_a_chain(pc: &mut Pc, until: impl FnOnce(&mut Pc, &mut dyn FnMut() -> bool)) {
    pc.negotiate();
    pc.set(CONFIG_VECTOR, 2, 0);
    assert!(pc.set_up(0, &LAYOUT, 1));
    brand::scoped(|brand| {
        let memory = pc.memory.clone();
        let memory = &memory;
        let mut driver = SplitDriver::new(&memory, &LAYOUT, Features::default(), brand).unwrap();
        driver.add(&[Buffer::new(0x4000, 4)], &[], ()).unwrap();
        pc.go_live();
        pc.store(NOTIFY, 2, 0);
        until(pc, &mut || driver.get_used().unwrap().is_some());
    });
}

fn a_reset_mends_a_device_that_has_panicked(notify: Notify) {
    let config = VirtioConfig {
        notify,
        ..VirtioConfig::default()
    };
    let mut pc = Pc::with(Panics::default(), QUEUES, config);
    pc.set_msix(true, false);
    pc.set_vector(0, false);
    give_a_chain(&mut pc, |pc, _| {
        await_that("the interrupt", || pc.wires.take() == [message(0)]);
        assert_eq!(pc.get(STATUS, 1), DRIVER_OK | NEEDS_RESET);
    });
    give_a_chain(&mut pc, |pc, is_used| {
        await_that("the used buffer", is_used);
        assert_eq!(pc.get(STATUS, 1), DRIVER_OK);
    });
}

#[test]
fn a_reset_mends_a_device_that_has_panicked_on_a_vcpus_thread() {
    a_reset_mends_a_device_that_has_panicked(Notify::Exit);
}

#[test]
fn a_reset_mends_a_device_that_has_panicked_on_the_thread_of_a_doorbell() {
    a_reset_mends_a_device_that_has_panicked(Notify::Doorbell);
}

#[test]
fn a_reset_mends_a_device_that_has_panicked_on_a_thread_that_polls() {
    a_reset_mends_a_device_that_has_panicked(Notify::Poll);
}
