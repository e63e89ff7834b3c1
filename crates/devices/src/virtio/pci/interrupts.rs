//! The device's interrupts (virtio 1.3, 4.1.4.5 and 4.1.5.1.2): each queue, and the configuration, has an MSI-X vector.
//! While MSI-X is off, the interrupt status shows the reason of an interrupt.
//!
//! The messages of unmasked vectors are sent, and those of masked vectors are remembered (PCI 3.0, 6.8.2.9 and
//! 6.8.3.4). The threads that serve queues signal vectors, and vCPU threads write the table. A lock makes each of these
//! one step, so that a vector that is unmasked while it is signalled sends its message exactly once.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU16, Ordering};

use serde::{Deserialize, Serialize};

use super::OnError;
use crate::pci::{MessageIrqfd, MsixControl, MsixTable, Routes, read_pending};
use crate::virtio::config::Raise;
use crate::virtio::driver::Interrupts;
use vmbell::eventfd::{EFD_NONBLOCK, EventFd};
use vmbell::irq::Msi;
use vmbell::sync::{Mutex, MutexGuard};
use vmbell_hypervisor::{Error, IrqTrigger, Irqfd};

/// There is no vector (`VIRTIO_MSI_NO_VECTOR`).
pub(super) const NO_VECTOR: u16 = 0xffff;

/// Bits of the interrupt status.
const QUEUE: u8 = 1 << 0;
const CONFIGURATION: u8 = 1 << 1;

/// The length of an entry of the table of messages.
const ENTRY: usize = 16;

/// The state of a device's interrupts.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct InterruptsState {
    status: u8,
    config_vector: u16,
    queue_vectors: Vec<u16>,
    vectors: Vec<VectorState>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct VectorState {
    entry: [u8; ENTRY],
    pending: bool,
}

/// The interrupts of a device.
#[derive(Debug)]
pub(super) struct PciInterrupts {
    pub(super) messages: Messages,
    vectors: u16,
    config_vector: AtomicU16,
    queue_vectors: Vec<AtomicU16>,
    status: AtomicU8,
}

impl PciInterrupts {
    /// Creates interrupts for `queues` queues, in the state after a reset.
    pub(super) fn new(messages: Messages, vectors: u16, queues: u16) -> Self {
        Self {
            messages,
            vectors,
            config_vector: AtomicU16::new(NO_VECTOR),
            queue_vectors: (0..queues).map(|_| AtomicU16::new(NO_VECTOR)).collect(),
            status: AtomicU8::new(0),
        }
    }

    /// The vector of configuration changes.
    pub(super) fn config_vector(&self) -> u16 {
        self.config_vector.load(Ordering::Relaxed)
    }

    /// Sets the vector of configuration changes. A vector that does not exist becomes "no vector", which the driver
    /// sees when it reads the register.
    pub(super) fn set_config_vector(&self, vector: u16) {
        let vector = self.checked(vector);
        self.config_vector.store(vector, Ordering::Relaxed);
    }

    /// The vector of a queue.
    pub(super) fn queue_vector(&self, queue: u16) -> u16 {
        let vector = self.queue_vectors.get(usize::from(queue));
        vector.map_or(NO_VECTOR, |vector| vector.load(Ordering::Relaxed))
    }

    /// Sets the vector of a queue. A vector that does not exist becomes "no vector".
    pub(super) fn set_queue_vector(&self, queue: u16, vector: u16) {
        if let Some(place) = self.queue_vectors.get(usize::from(queue)) {
            place.store(self.checked(vector), Ordering::Relaxed);
        }
    }

    const fn checked(&self, vector: u16) -> u16 {
        if vector < self.vectors {
            vector
        } else {
            NO_VECTOR
        }
    }

    /// The state for a snapshot.
    pub(super) fn save(&self) -> InterruptsState {
        let state = self.messages.lock();
        let vectors = (0..u64::from(self.vectors)).zip(&state.vectors);
        let vector = |(index, vector): (u64, &Vector)| {
            let mut entry = [0; ENTRY];
            state.table.read(index * ENTRY as u64, &mut entry[..8]);
            state.table.read(index * ENTRY as u64 + 8, &mut entry[8..]);
            let pending = vector.is_pending();
            VectorState { entry, pending }
        };
        InterruptsState {
            status: self.status.load(Ordering::Acquire),
            config_vector: self.config_vector(),
            queue_vectors: (0..)
                .take(self.queue_vectors.len())
                .map(|queue| self.queue_vector(queue))
                .collect(),
            vectors: vectors.map(vector).collect(),
        }
    }

    /// Restores a state with this number of vectors. Returns false, and changes nothing, if the state has another number
    /// of vectors or queues.
    pub(super) fn restore(&self, state: &InterruptsState) -> bool {
        let numbers = (state.vectors.len(), state.queue_vectors.len());
        if numbers != (usize::from(self.vectors), self.queue_vectors.len()) {
            return false;
        }
        self.status.store(state.status, Ordering::Release);
        self.set_config_vector(state.config_vector);
        for (queue, vector) in (0..).zip(&state.queue_vectors) {
            self.set_queue_vector(queue, *vector);
        }
        for (vector, saved) in (0..).zip(&state.vectors) {
            let at = u64::from(vector) * ENTRY as u64;
            self.messages.write(at, &saved.entry[..8]);
            self.messages.write(at + 8, &saved.entry[8..]);
            if saved.pending {
                self.messages.remember(vector);
            }
        }
        true
    }

    /// Reads and clears the interrupt status.
    pub(super) fn take_status(&self) -> u8 {
        self.status.swap(0, Ordering::AcqRel)
    }

    fn raise(&self, reason: u8, vector: u16) {
        if !self.messages.signal(vector) {
            self.status.fetch_or(reason, Ordering::AcqRel);
        }
    }
}

impl Interrupts for PciInterrupts {
    fn used_buffer(&self, queue: u16) {
        self.raise(QUEUE, self.queue_vector(queue));
    }

    fn irqfd(&self, queue: u16) -> Option<Arc<EventFd>> {
        self.messages.share_eventfd(self.queue_vector(queue))
    }

    fn configuration(&self) {
        self.raise(CONFIGURATION, self.config_vector());
    }

    fn reset(&self) {
        self.config_vector.store(NO_VECTOR, Ordering::Relaxed);
        for vector in &self.queue_vectors {
            vector.store(NO_VECTOR, Ordering::Relaxed);
        }
        self.status.store(0, Ordering::Relaxed);
        self.messages.forget();
    }
}

/// The messages of a device.
pub(super) struct Messages {
    routes: Arc<Routes>,
    raise: Raise,
    on_error: OnError,
    state: Mutex<MessagesState>,
}

#[derive(Debug)]
struct MessagesState {
    table: MsixTable,
    vectors: Vec<Vector>,
}

#[derive(Debug, Default)]
struct Vector {
    /// Whether a signal of the irqfd sends the message: the vector is unmasked, its irqfd has the message of the table,
    /// and no worker shares it. Decided when one of these changes, and not for each interrupt.
    sends: bool,
    pending: bool,
    /// Created for the vector's first message, or for a worker. Kept until the device is dropped, or until a worker
    /// that shares it has to stop.
    irqfd: Option<MessageIrqfd>,
    /// Whether a worker also signals the eventfd. While the vector is masked, the eventfd's count is the pending state.
    /// The worker can fill the eventfd and make it blocking, so this process does not write to it.
    is_shared: bool,
}

impl Messages {
    /// Creates the messages of this number of vectors; MSI-X is off.
    pub(super) fn new(routes: Arc<Routes>, raise: Raise, vectors: u16, on_error: OnError) -> Self {
        Self {
            routes,
            raise,
            on_error,
            state: Mutex::new(MessagesState {
                table: MsixTable::new(vectors),
                vectors: (0..vectors).map(|_| Vector::default()).collect(),
            }),
        }
    }

    fn lock(&self) -> MutexGuard<'_, MessagesState> {
        self.state.lock()
    }

    /// Sends the message of a vector, or remembers it while the vector is masked; a vector may not exist. Returns false
    /// if MSI-X is off, so that the interrupt has to be raised in another way.
    pub(super) fn signal(&self, vector: u16) -> bool {
        let mut state = self.lock();
        let found = state.vectors.get(usize::from(vector));
        if let Some(irqfd) = found.and_then(Vector::sender) {
            irqfd.signal();
            return true;
        }
        if !state.table.is_enabled() {
            return false;
        }
        if let Some(found) = state.vectors.get_mut(usize::from(vector)) {
            found.pending = true;
            self.update_irqfd(&mut state, vector);
        }
        true
    }

    /// Makes a message pending, even while MSI-X is off.
    fn remember(&self, vector: u16) {
        let mut state = self.lock();
        if let Some(found) = state.vectors.get_mut(usize::from(vector)) {
            found.pending = true;
            self.update_irqfd(&mut state, vector);
        }
    }

    /// Shares the eventfd of a vector with a worker, which signals it for every interrupt and does not see the mask;
    /// `None` if the vector has no irqfd.
    pub(super) fn share_eventfd(&self, vector: u16) -> Option<Arc<EventFd>> {
        let mut state = self.lock();
        if self.raise != Raise::Irqfd || !state.table.is_enabled() {
            return None;
        }
        let owner = state.vectors.get_mut(usize::from(vector))?;
        let irqfd = made(&mut owner.irqfd, &self.routes).ok()?;
        let event = Arc::clone(irqfd.event());
        owner.is_shared = true;
        self.update_irqfd(&mut state, vector);
        Some(event)
    }

    /// Drops the interrupts that wait to be unmasked: the device is reset. Later signals of a worker, which may still
    /// have the eventfd, have no effect.
    pub(super) fn forget(&self) {
        for vector in &mut self.lock().vectors {
            let removed = vector.remove_shared_irqfd();
            if std::mem::take(&mut vector.is_shared) {
                vector.irqfd = None;
            }
            vector.pending = false;
            if let Err(error) = removed {
                (self.on_error)(error);
            }
        }
    }

    /// Reads the table.
    pub(super) fn read(&self, offset: u64, data: &mut [u8]) {
        self.lock().table.read(offset, data);
    }

    /// Writes the table.
    pub(super) fn write(&self, offset: u64, data: &[u8]) {
        let mut state = self.lock();
        if let Some(vector) = state.table.write(offset, data) {
            self.update_irqfd(&mut state, vector);
        }
    }

    /// Reads the pending bits.
    pub(super) fn read_pending(&self, offset: u64, data: &mut [u8]) {
        let state = self.lock();
        read_pending(offset, data, |vector| {
            let vector = state.vectors.get(usize::from(vector));
            vector.is_some_and(Vector::is_pending)
        });
    }

    /// Turns MSI-X and the mask of all vectors on or off.
    pub(super) fn set_control(&self, control: MsixControl) {
        let mut state = self.lock();
        if state.table.control() != control {
            state.table.set_control(control);
            for vector in (0..).take(state.vectors.len()) {
                self.update_irqfd(&mut state, vector);
            }
        }
    }

    /// Masks all vectors and clears the table, because the PCI function is reset. The device was reset before.
    pub(super) fn reset(&self) {
        let mut state = self.lock();
        let count = u16::try_from(state.vectors.len()).unwrap_or(u16::MAX);
        state.table = MsixTable::new(count);
        for vector in &mut state.vectors {
            vector.sends = false;
        }
    }

    /// Prepares the message of an unmasked vector, and sends it if it is pending. For a masked vector, disconnects a
    /// shared eventfd.
    fn update_irqfd(&self, state: &mut MessagesState, vector: u16) {
        let message = state.table.message(vector);
        let Some(vector) = state.vectors.get_mut(usize::from(vector)) else {
            return;
        };
        vector.sends = false;
        let result = match (message, self.raise) {
            (Some(message), Raise::Irqfd) => vector.send(message, &self.routes),
            (Some(message), Raise::Call) if std::mem::take(&mut vector.pending) => {
                self.routes.irqs().signal_msi(message).map(drop)
            }
            (None, Raise::Irqfd) => vector.remove_shared_irqfd(),
            (_, Raise::Call) => Ok(()),
        };
        if let Err(error) = result {
            (self.on_error)(error);
        }
    }
}

impl Vector {
    /// The irqfd whose signal sends the message.
    fn sender(&self) -> Option<&Irqfd> {
        self.irqfd.as_ref().filter(|_| self.sends)?.connected()
    }

    /// Whether a message waits to be unmasked.
    fn is_pending(&self) -> bool {
        let irqfd = self.irqfd.as_ref();
        self.pending || irqfd.is_some_and(MessageIrqfd::is_pending)
    }

    /// Registers the irqfd, whose GSI is routed to `message`, and signals it if a message is pending.
    fn send(&mut self, message: Msi, routes: &Arc<Routes>) -> Result<(), Error> {
        let irqfd = made(&mut self.irqfd, routes)?.connect(message)?;
        self.sends = !self.is_shared;
        if std::mem::take(&mut self.pending) {
            if self.is_shared {
                routes.irqs().signal_msi(message)?;
            } else {
                irqfd.signal();
            }
        }
        Ok(())
    }

    /// Removes the irqfd of a shared eventfd, so that its signals wait in the count.
    fn remove_shared_irqfd(&mut self) -> Result<(), Error> {
        match &mut self.irqfd {
            Some(irqfd) if self.is_shared => irqfd.disconnect(),
            _ => Ok(()),
        }
    }
}

/// Returns the irqfd of a vector, and makes its eventfd on first use.
#[inline]
fn made<'a>(
    irqfd: &'a mut Option<MessageIrqfd>,
    routes: &Arc<Routes>,
) -> Result<&'a mut MessageIrqfd, Error> {
    Ok(match irqfd {
        Some(irqfd) => irqfd,
        none => {
            let event = EventFd::new(EFD_NONBLOCK).map_err(Error::system("make an eventfd"))?;
            none.insert(MessageIrqfd::new(Arc::new(event), Arc::clone(routes)))
        }
    })
}

impl fmt::Debug for Messages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Messages")
            .field("raise", &self.raise)
            .field("state", &self.state)
            .finish_non_exhaustive()
    }
}
