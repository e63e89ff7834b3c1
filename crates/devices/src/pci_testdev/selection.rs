//! The selected test, its count and its doorbell. At most one test is selected, over both BARs.

use std::fmt;
use std::sync::Arc;

use vmm_sys_util::eventfd::EventFd;

use super::header::Header;
use super::test::{Modes, Space, Test};
use vmbell::doorbell::Sharing;
use vmbell_hypervisor::{Doorbell, Error, IoEvents};

/// A function that is called if a doorbell cannot be registered.
pub type OnError = Box<dyn Fn(Error) + Send + Sync>;

/// The state of a device.
pub(super) struct Selection {
    modes: Modes,
    /// The addresses at which BAR0 and BAR1 are mapped.
    bases: [Option<u64>; 2],
    current: Option<Current>,
    /// The registered doorbell of the current test; `None` while its BAR is not mapped.
    doorbell: Option<Doorbell>,
    /// The doorbell's eventfd. No thread waits for it: a test only measures the time to signal it.
    event: Arc<EventFd>,
    events: Arc<dyn IoEvents>,
    on_error: OnError,
}

#[derive(Debug)]
struct Current {
    test: Test,
    count: u32,
    header: Header,
}

impl Selection {
    pub(super) fn new(
        modes: Modes,
        event: EventFd,
        events: Arc<dyn IoEvents>,
        on_error: OnError,
    ) -> Self {
        Self {
            modes,
            bases: [None; 2],
            current: None,
            doorbell: None,
            event: Arc::new(event),
            events,
            on_error,
        }
    }

    /// A byte of the header; 0 if no test is selected.
    pub(super) fn read(&self, offset: u64) -> u8 {
        let Some(current) = &self.current else {
            return 0;
        };
        self.drain();
        current.header.byte(offset)
    }

    /// Handles a write of a byte that signalled no doorbell.
    pub(super) fn write(&mut self, space: Space, offset: u64, byte: u8) {
        if offset == 0 {
            return self.select(space, byte);
        }
        let Some(current) = &mut self.current else {
            return;
        };
        if offset == current.test.offset() && current.test.counts(byte) {
            current.count = current.count.wrapping_add(1);
            current.header.set_count(current.count);
        }
    }

    /// Ends the current test and selects another one; a number without a test selects none.
    fn select(&mut self, space: Space, number: u8) {
        self.stop();
        let Some(test) = self.modes.test(space, number) else {
            return;
        };
        self.drain();
        self.current = Some(Current {
            test,
            count: 0,
            header: Header::new(test),
        });
        self.hang();
    }

    /// Ends the test.
    pub(super) fn stop(&mut self) {
        self.unhang();
        self.current = None;
    }

    /// Called when a BAR was mapped at another address, or unmapped: moves the doorbell of a test in that BAR.
    pub(super) fn moved(&mut self, space: Space, base: Option<u64>) {
        let concerned = self.current.as_ref().map(|current| current.test.space) == Some(space);
        if concerned {
            self.unhang();
        }
        self.bases[space as usize] = base;
        if concerned {
            self.hang();
        }
    }

    /// Registers the doorbell of the current test, if it has one and its BAR is mapped.
    fn hang(&mut self) {
        let Some(Current { test, .. }) = self.current else {
            return;
        };
        let (Some(datamatch), Some(base)) = (test.doorbell(), self.bases[test.space as usize])
        else {
            return;
        };
        let address = test.space.address(base, test.offset());
        let registered =
            self.events
                .register_ioevent(&self.event, address, datamatch, Sharing::Exclusive);
        match registered {
            Ok(doorbell) => self.doorbell = Some(doorbell),
            Err(error) => {
                self.current = None;
                (self.on_error)(error);
            }
        }
    }

    fn unhang(&mut self) {
        if let Some(mut doorbell) = self.doorbell.take()
            && let Err(error) = doorbell.remove()
        {
            (self.on_error)(error);
        }
    }

    /// Resets the count of the eventfd, so that earlier signals are forgotten.
    fn drain(&self) {
        // EAGAIN means that there was no signal.
        let _ = self.event.read();
    }
}

impl Drop for Selection {
    fn drop(&mut self) {
        self.stop();
    }
}

impl fmt::Debug for Selection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Selection")
            .field("current", &self.current)
            .field("doorbell", &self.doorbell)
            .finish_non_exhaustive()
    }
}
