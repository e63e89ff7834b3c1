//! The doorbells for a device's notifications: one for each queue, at the queue's address in a BAR, which the guest may
//! move. Each doorbell signals the eventfd that wakes the thread that serves the queue.
//!
//! If the device has ports for notifications, the doorbells are at the ports, until a notification comes through
//! memory, because some drivers do not use ports.
//!
//! The doorbells are registered while the driver runs the device (DRIVER_OK). A guest that looks for devices switches
//! their decoding off and on, and each removal of a doorbell waits for the vCPUs in the kernel.

use std::fmt;
use std::sync::Arc;

use super::OnError;
use super::layout::{Space, notify_address};
use crate::virtio::ring::NOTIFICATION_DATA;
use crate::virtio::server::Server;
use vmbell::doorbell::{Datamatch, IoEventAddress, Sharing};
use vmbell::eventfd::EventFd;
use vmbell::sync::{Mutex, MutexGuard};
use vmbell_hypervisor::{Doorbell, Error, IoEvents};

/// Bytes of a notification with `VIRTIO_F_NOTIFICATION_DATA` (virtio 1.3, 4.1.5.2).
const DATA_LEN: u32 = 4;

/// The doorbells of a device, until the value is dropped.
pub(super) struct Bells {
    server: Arc<dyn Server>,
    queues: u16,
    events: Arc<dyn IoEvents>,
    on_error: OnError,
    state: Mutex<BellsState>,
}

#[derive(Debug, Default)]
struct BellsState {
    /// The address of the BAR in memory, and of the BAR at ports, if it is mapped.
    memory: Option<u64>,
    ports: Option<u64>,
    /// Whether the driver has notified through memory although there are ports.
    prefers_memory: bool,
    /// The features with which the driver runs the device; `None` while it does not.
    live: Option<u64>,
    /// The doorbells that only signal; the server of the queues has the others.
    registered: Vec<Doorbell>,
}

impl Bells {
    /// Creates the doorbells of the queues that have an eventfd; none is registered yet.
    pub(super) fn new(
        server: Arc<dyn Server>,
        queues: u16,
        events: Arc<dyn IoEvents>,
        on_error: OnError,
    ) -> Self {
        Self {
            server,
            queues,
            events,
            on_error,
            state: Mutex::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, BellsState> {
        self.state.lock()
    }

    /// Moves the doorbells with a BAR; without a base, no doorbell is in it.
    pub(super) fn moved(&self, space: Space, base: Option<u64>) {
        let mut state = self.lock();
        match space {
            Space::Memory => state.memory = base,
            Space::Ports => state.ports = base,
        }
        self.register(&mut state);
    }

    /// Called when a notification has come through the BAR in memory, as an exit.
    pub(super) fn missed_in_memory(&self) {
        let mut state = self.lock();
        if state.ports.is_some() && !std::mem::replace(&mut state.prefers_memory, true) {
            self.register(&mut state);
        }
    }

    /// Registers the doorbells when the driver starts to run the device, and removes them when it stops. `read_live`
    /// returns the features with which the driver runs the device. It is called under the lock: of two vCPUs that
    /// change the status, the last one sees both changes.
    pub(super) fn update(&self, read_live: impl FnOnce() -> Option<u64>) {
        let mut state = self.lock();
        let features = read_live();
        if std::mem::replace(&mut state.live, features) != features {
            state.prefers_memory = false;
            self.register(&mut state);
        }
    }

    /// Removes the doorbells, and registers them at their current place.
    fn register(&self, state: &mut BellsState) {
        self.remove(state);
        let ports = state.ports.filter(|_| !state.prefers_memory);
        let (space, base) = match ports {
            Some(base) => (Space::Ports, Some(base)),
            None => (Space::Memory, state.memory),
        };
        let (Some(base), Some(features)) = (base, state.live) else {
            return;
        };
        for queue in 0..self.queues {
            let Some(kick) = self.server.kick(queue) else {
                continue;
            };
            let place = notify_address(space, base, queue);
            if let Err(error) = self.add(state, queue, kick, place, features) {
                // The other notifications reach the device as exits, and it signals the eventfds.
                return (self.on_error)(error);
            }
        }
    }

    fn add(
        &self,
        state: &mut BellsState,
        queue: u16,
        kick: &Arc<EventFd>,
        place: IoEventAddress,
        features: u64,
    ) -> Result<(), Error> {
        if features & NOTIFICATION_DATA != 0
            && let Some(notification) = self.server.notification(queue)
        {
            let doorbell = self.events.register_payload(kick, place, DATA_LEN)?;
            notification.replace(Some(doorbell));
        } else {
            let (any, alone) = (Datamatch::AnyLength, Sharing::Exclusive);
            let doorbell = self.events.register_ioevent(kick, place, any, alone)?;
            state.registered.push(doorbell);
        }
        Ok(())
    }

    fn remove(&self, state: &mut BellsState) {
        let queues = 0..self.queues;
        let with_data = queues.filter_map(|queue| self.server.notification(queue)?.replace(None));
        for mut doorbell in with_data.chain(state.registered.drain(..)) {
            if let Err(error) = doorbell.remove() {
                (self.on_error)(error);
            }
        }
    }
}

impl Drop for Bells {
    fn drop(&mut self) {
        self.remove(&mut self.lock());
    }
}

impl fmt::Debug for Bells {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bells")
            .field("state", &self.state)
            .finish_non_exhaustive()
    }
}
