//! What a reset by the driver clears (virtio 1.3, 2.4), on each transport: a test for each line of the table in
//! `docs/architecture.md`. The lines for only one transport are tested with that transport.

use std::sync::Arc;

use vm_memory::{Bytes, GuestAddress, GuestMemoryMmap};

use super::{Handled, Handler, HandlerError, Pending, Request};
use vmbell::sync::{Mutex, MutexGuard};
use vmbell_virtqueue::SplitLayout;

pub(super) const LAYOUT: SplitLayout = SplitLayout::contiguous(0, 8);
/// What the driver writes to the status, up to each step.
const ACKNOWLEDGED: u32 = 1;
const PROBED: u32 = 3;
const FEATURES_OK: u32 = 11;
const DRIVER_OK: u32 = 15;
const NEEDS_RESET: u32 = 64;

/// A device of a [`Puppet`] on a transport, as its driver sees it. The notifying thread serves its two queues.
pub(super) trait Driven {
    fn new(puppet: Puppet) -> Self;
    fn memory(&self) -> &GuestMemoryMmap;
    fn get(&mut self, field: Field) -> u32;
    fn set(&mut self, field: Field, value: u32);
    /// Describes a queue and makes it ready; returns whether it is ready.
    fn set_up(&mut self, queue: u16, layout: &SplitLayout) -> bool;
    fn notify(&mut self, queue: u16);
}

/// Registers of every transport. A selector picks the queue, or the half of the features, that other registers show.
#[derive(Clone, Copy, Debug)]
pub(super) enum Field {
    Status,
    DeviceFeatureSelector,
    DeviceFeatures,
    DriverFeatureSelector,
    DriverFeatures,
    QueueSelector,
    /// Not 0 if the device has the queue.
    QueueSize,
    QueueReady,
    /// The reasons for which the device has interrupted the driver.
    Reasons,
}

/// Does with requests what the test tells it to.
#[derive(Clone, Default)]
pub(super) struct Puppet(Arc<Mutex<PuppetState>>);

#[derive(Default)]
struct PuppetState {
    does: Does,
    handled: usize,
    pending: Vec<Pending>,
}

#[derive(Clone, Copy, Default)]
enum Does {
    #[default]
    Completes,
    Waits,
    Defers,
}

impl Puppet {
    fn lock(&self) -> MutexGuard<'_, PuppetState> {
        self.0.lock()
    }
}

impl Handler for Puppet {
    const DEVICE_ID: u32 = 0xffff;

    fn handle(&self, request: Request<'_>) -> Result<Handled, HandlerError> {
        let mut state = self.lock();
        state.handled += 1;
        Ok(match state.does {
            Does::Completes => request.complete(0),
            Does::Waits => request.wait(),
            Does::Defers => {
                let (pending, handled) = request.defer();
                state.pending.push(pending);
                handled
            }
        })
    }
}

/// A live device with queue 0, which does `does` with requests.
fn live<D: Driven>(does: Does) -> (D, Puppet) {
    let puppet = Puppet::default();
    puppet.lock().does = does;
    let mut device = D::new(puppet.clone());
    start(&mut device);
    (device, puppet)
}

/// Starts the device with a ring that has no chain.
fn start(device: &mut impl Driven) {
    let zeros = [0; 0x1000];
    device
        .memory()
        .write_slice(&zeros, GuestAddress(0))
        .unwrap();
    for status in [ACKNOWLEDGED, PROBED] {
        device.set(Field::Status, status);
    }
    device.set(Field::DriverFeatureSelector, 1);
    device.set(Field::DriverFeatures, 1);
    device.set(Field::Status, FEATURES_OK);
    assert!(device.set_up(0, &LAYOUT));
    device.set(Field::Status, DRIVER_OK);
    assert_eq!(device.get(Field::Status), DRIVER_OK);
}

fn reset(device: &mut impl Driven) {
    device.set(Field::Status, 0);
    assert_eq!(device.get(Field::Status), 0);
}

/// Makes `chains` chains available, each with an empty buffer, and notifies.
fn offer(device: &mut impl Driven, chains: u16) {
    let index = GuestAddress(LAYOUT.avail + 2);
    device.memory().write_obj(chains, index).unwrap();
    device.notify(0);
}

/// How many chains the device has given back.
fn used(device: &impl Driven) -> u16 {
    let index = GuestAddress(LAYOUT.used + 2);
    device.memory().read_obj(index).unwrap()
}

pub(super) fn need_of_a_reset_is_over<D: Driven>() {
    let (mut device, _) = live::<D>(Does::Completes);
    // Further ahead than the ring's length.
    offer(&mut device, 9);
    assert_eq!(device.get(Field::Status), DRIVER_OK | NEEDS_RESET);
    reset(&mut device);
    device.set(Field::Status, ACKNOWLEDGED);
    assert_eq!(device.get(Field::Status), ACKNOWLEDGED);
}

pub(super) fn selector_of_device_features_is_zero<D: Driven>() {
    let mut device = D::new(Puppet::default());
    let lower = device.get(Field::DeviceFeatures);
    device.set(Field::DeviceFeatureSelector, 1);
    assert_ne!(device.get(Field::DeviceFeatures), lower);
    reset(&mut device);
    assert_eq!(device.get(Field::DeviceFeatures), lower);
}

pub(super) fn selector_of_driver_features_is_zero<D: Driven>() {
    let (mut device, _) = live::<D>(Does::Completes);
    reset(&mut device);
    device.set(Field::Status, PROBED);
    // In the upper half, this bit would be VERSION_1.
    device.set(Field::DriverFeatures, 1);
    device.set(Field::Status, FEATURES_OK);
    assert_eq!(device.get(Field::Status), PROBED);
}

pub(super) fn driver_features_are_none<D: Driven>() {
    let (mut device, _) = live::<D>(Does::Completes);
    reset(&mut device);
    device.set(Field::Status, PROBED);
    device.set(Field::Status, FEATURES_OK);
    assert_eq!(device.get(Field::Status), PROBED, "without VERSION_1");
}

pub(super) fn selector_of_queues_is_zero<D: Driven>() {
    let mut device = D::new(Puppet::default());
    device.set(Field::QueueSelector, 7);
    assert_eq!(device.get(Field::QueueSize), 0);
    reset(&mut device);
    assert_ne!(device.get(Field::QueueSize), 0);
}

pub(super) fn queue_is_not_ready<D: Driven>() {
    let (mut device, _) = live::<D>(Does::Completes);
    device.set(Field::QueueSelector, 0);
    assert_eq!(device.get(Field::QueueReady), 1);
    reset(&mut device);
    device.set(Field::QueueSelector, 0);
    assert_eq!(device.get(Field::QueueReady), 0);
}

pub(super) fn reasons_of_interrupts_are_none<D: Driven>() {
    for resets in [false, true] {
        let (mut device, _) = live::<D>(Does::Completes);
        offer(&mut device, 1);
        if resets {
            reset(&mut device);
        }
        assert_eq!(device.get(Field::Reasons), u32::from(!resets));
    }
}

pub(super) fn ring_begins_at_its_start<D: Driven>() {
    let (mut device, puppet) = live::<D>(Does::Completes);
    for lives in 1..=3 {
        offer(&mut device, 1);
        assert_eq!((used(&device), puppet.lock().handled), (1, lives));
        reset(&mut device);
        start(&mut device);
    }
}

pub(super) fn ring_is_not_looked_at<D: Driven>() {
    let (mut device, puppet) = live::<D>(Does::Completes);
    reset(&mut device);
    offer(&mut device, 1);
    assert_eq!((used(&device), puppet.lock().handled), (0, 0));
}

pub(super) fn chain_that_waits_is_forgotten<D: Driven>() {
    let (mut device, puppet) = live::<D>(Does::Waits);
    offer(&mut device, 1);
    assert_eq!((used(&device), puppet.lock().handled), (0, 1));
    reset(&mut device);
    puppet.lock().does = Does::Completes;
    start(&mut device);
    device.notify(0);
    assert_eq!((used(&device), puppet.lock().handled), (0, 1));
}

pub(super) fn request_that_is_pending_has_no_effect<D: Driven>() {
    let (mut device, puppet) = live::<D>(Does::Defers);
    offer(&mut device, 2);
    let mut pending = std::mem::take(&mut puppet.lock().pending);
    reset(&mut device);
    pending
        .remove(0)
        .complete(|_| unreachable!("after a reset"));
    assert_eq!((used(&device), device.get(Field::Reasons)), (0, 0));
    start(&mut device);
    pending
        .remove(0)
        .complete(|_| unreachable!("after a reset"));
    assert_eq!((used(&device), device.get(Field::Reasons)), (0, 0));
}

/// Wraps the bodies as tests of a transport.
macro_rules! on_transport {
    ($driven:ty) => {
        $crate::virtio::reset_test::on_transport! { $driven:
            need_of_a_reset_is_over;
            selector_of_device_features_is_zero;
            selector_of_driver_features_is_zero;
            driver_features_are_none;
            selector_of_queues_is_zero;
            queue_is_not_ready;
            reasons_of_interrupts_are_none;
            ring_begins_at_its_start;
            ring_is_not_looked_at;
            chain_that_waits_is_forgotten;
            request_that_is_pending_has_no_effect;
        }
    };
    ($driven:ty: $($name:ident;)*) => {
        $(#[test]
        fn $name() {
            $crate::virtio::reset_test::$name::<$driven>();
        })*
    };
}
pub(super) use on_transport;
