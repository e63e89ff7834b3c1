//! The messages of MSI-X: sends those of vectors that the guest lets through, and remembers those that it masks (PCI 3.0,
//! 6.8.2.9 and 6.8.3.4). The threads that serve queues signal vectors, and vCPU threads write the table; a lock makes
//! each of these one step, so that a vector that is unmasked while it is signalled sends its message exactly once.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{OnError, Raise};
use crate::device::pci::{MsixControl, MsixTable, Routes, read_pending};
use crate::eventfd::{EFD_NONBLOCK, EventFd};
use crate::hypervisor::{Error, IrqTrigger};
use crate::irq::{Gsi, Msi};

/// The messages of a device.
pub(super) struct Messages {
    routes: Arc<Routes>,
    raise: Raise,
    on_error: OnError,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    table: MsixTable,
    vectors: Vec<Vector>,
}

#[derive(Debug, Default)]
struct Vector {
    pending: bool,
    /// Made with the vector's first message, and kept until the device goes.
    irqfd: Option<Irqfd>,
}

#[derive(Debug)]
struct Irqfd {
    event: EventFd,
    trigger: Box<dyn IrqTrigger>,
    gsi: Gsi,
    /// The message that the GSI leads to.
    message: Msi,
}

impl Messages {
    /// The messages of so many vectors; MSI-X is off.
    pub(super) fn new(routes: Arc<Routes>, raise: Raise, vectors: u16, on_error: OnError) -> Self {
        Self {
            routes,
            raise,
            on_error,
            state: Mutex::new(State {
                table: MsixTable::new(vectors),
                vectors: (0..vectors).map(|_| Vector::default()).collect(),
            }),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends the message of a vector, or remembers it while it is masked; there may be no such vector. Returns false if
    /// MSI-X is off, so that the interrupt has to take another way.
    pub(super) fn signal(&self, vector: u16) -> bool {
        let mut state = self.lock();
        if !state.table.is_enabled() {
            return false;
        }
        if let Some(found) = state.vectors.get_mut(usize::from(vector)) {
            found.pending = true;
            self.settle(&mut state, vector);
        }
        true
    }

    /// Reads the table.
    pub(super) fn read(&self, offset: u64, data: &mut [u8]) {
        self.lock().table.read(offset, data);
    }

    /// Writes the table.
    pub(super) fn write(&self, offset: u64, data: &[u8]) {
        let mut state = self.lock();
        if let Some(vector) = state.table.write(offset, data) {
            self.settle(&mut state, vector);
        }
    }

    /// Reads the pending bits.
    pub(super) fn read_pending(&self, offset: u64, data: &mut [u8]) {
        let state = self.lock();
        read_pending(offset, data, |vector| {
            let vector = state.vectors.get(usize::from(vector));
            vector.is_some_and(|vector| vector.pending)
        });
    }

    /// Turns MSI-X on or off, and the mask of all vectors.
    pub(super) fn set_control(&self, control: MsixControl) {
        let mut state = self.lock();
        if state.table.control() != control {
            state.table.set_control(control);
            for vector in (0..).take(state.vectors.len()) {
                self.settle(&mut state, vector);
            }
        }
    }

    /// Masks all vectors and forgets their messages.
    pub(super) fn reset(&self) {
        let mut state = self.lock();
        let count = u16::try_from(state.vectors.len()).unwrap_or(u16::MAX);
        state.table = MsixTable::new(count);
        for vector in &mut state.vectors {
            vector.pending = false;
        }
    }

    /// Prepares the message of a vector that is not masked, and sends it if it is pending.
    fn settle(&self, state: &mut State, vector: u16) {
        let message = state.table.message(vector);
        let (Some(message), Some(vector)) = (message, state.vectors.get_mut(usize::from(vector)))
        else {
            return;
        };
        let pending = std::mem::take(&mut vector.pending);
        let sent = match self.raise {
            Raise::Irqfd => vector.irqfd(message, &self.routes).map(|irqfd| {
                if pending {
                    irqfd.trigger.signal();
                }
            }),
            Raise::Call if pending => self.routes.irqs().signal_msi(message).map(drop),
            Raise::Call => Ok(()),
        };
        if let Err(error) = sent {
            (self.on_error)(error);
        }
    }
}

impl Vector {
    /// The irqfd, whose GSI leads to `message`.
    fn irqfd(&mut self, message: Msi, routes: &Routes) -> Result<&Irqfd, Error> {
        let irqfd = match self.irqfd.take() {
            Some(irqfd) => irqfd,
            None => Irqfd::new(message, routes)?,
        };
        let irqfd = self.irqfd.insert(irqfd);
        if irqfd.message != message {
            routes.set(irqfd.gsi, message)?;
            irqfd.message = message;
        }
        Ok(irqfd)
    }
}

impl Irqfd {
    fn new(message: Msi, routes: &Routes) -> Result<Self, Error> {
        let event = EventFd::new(EFD_NONBLOCK).map_err(|source| Error::System {
            operation: "make an eventfd",
            source,
        })?;
        let gsi = routes.add(message)?;
        let trigger = routes
            .irqs()
            .register_irqfd(&event, gsi, None)
            .and_then(|()| routes.irqs().irq_trigger(&event));
        match trigger {
            Ok(trigger) => Ok(Self {
                event,
                trigger,
                gsi,
                message,
            }),
            Err(error) => {
                routes.remove(gsi)?;
                Err(error)
            }
        }
    }
}

impl Drop for Messages {
    fn drop(&mut self) {
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        for Irqfd { event, gsi, .. } in state.vectors.iter().filter_map(|v| v.irqfd.as_ref()) {
            // Nobody could be told of an error, and the guest's end does all of it again.
            let _ = self.routes.irqs().unregister_irqfd(event, *gsi);
            let _ = self.routes.remove(*gsi);
        }
    }
}

impl fmt::Debug for Messages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Messages")
            .field("raise", &self.raise)
            .field("state", &self.state)
            .finish_non_exhaustive()
    }
}
