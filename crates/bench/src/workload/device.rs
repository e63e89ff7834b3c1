//! The device's side of the workload: it checks every buffer and gives it back.

use std::{io, sync::atomic::Ordering};

use super::{
    error::WorkloadError,
    link::NotificationCounters,
    link::{DeviceOrder, ThreadLink},
    options::BUFFER_LEN,
};
use vmbell_virtqueue::{Chain, DeviceQueue};

/// Gives back all available buffers. Returns whether there were any.
pub(super) fn drain(
    device: &mut impl DeviceQueue,
    chain: &mut Chain,
) -> Result<bool, WorkloadError> {
    let mut any = false;
    while let Some(head) = device.pop(chain)? {
        let len = chain.readable_len();
        if len != BUFFER_LEN || chain.writable_len() != 0 {
            return Err(WorkloadError::Buffer { len });
        }
        device.add_used(head, 0)?;
        any = true;
    }
    Ok(any)
}

/// Runs the device thread until it is stopped. `take` creates the device's side of an empty queue.
pub(super) fn serve<V: DeviceQueue>(
    take: impl Fn() -> V,
    link: &ThreadLink,
    counters: &NotificationCounters,
) -> Result<(), WorkloadError> {
    let eventfd = |source: io::Error| WorkloadError::EventFd { source };
    let mut device = take();
    let mut chain = Chain::with_capacity(usize::from(device.size()));
    loop {
        link.wait_for_kick().map_err(eventfd)?;
        match link.order() {
            DeviceOrder::Stop => return Ok(()),
            DeviceOrder::Reset => {
                if link.await_order().map_err(eventfd)? == DeviceOrder::Stop {
                    return Ok(());
                }
                device = take();
            }
            DeviceOrder::Run => {}
        }
        loop {
            device.disable_notification();
            if drain(&mut device, &mut chain)? && device.needs_notification() {
                counters.calls.fetch_add(1, Ordering::Relaxed);
                link.call().map_err(eventfd)?;
            }
            if !device.enable_notification() || link.order() != DeviceOrder::Run {
                break;
            }
        }
    }
}
