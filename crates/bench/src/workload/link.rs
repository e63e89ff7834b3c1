//! What the two threads use to wake each other: eventfds, and an order for the device thread.

use std::{
    io,
    sync::atomic::{AtomicU8, AtomicU64, Ordering},
};

use vmm_sys_util::eventfd::EventFd;

const RUN: u8 = 0;
const RESET: u8 = 1;
const STOP: u8 = 2;

/// The numbers of notifications, counted by both sides.
#[derive(Debug, Default)]
pub(super) struct NotificationCounters {
    pub(super) kicks: AtomicU64,
    pub(super) calls: AtomicU64,
}

/// What the device thread has to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DeviceOrder {
    /// Serve the queue.
    Run,
    /// Drop the queue, and take it again after it has been emptied.
    Reset,
    /// Return.
    Stop,
}

/// The eventfds and the order that the two threads share.
#[derive(Debug)]
pub(super) struct ThreadLink {
    kick: EventFd,
    call: EventFd,
    order: AtomicU8,
    /// Signalled by the device thread when it has dropped the queue for a reset.
    dropped: EventFd,
}

impl ThreadLink {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self {
            kick: EventFd::new(0)?,
            call: EventFd::new(0)?,
            order: AtomicU8::new(RUN),
            dropped: EventFd::new(0)?,
        })
    }

    pub(super) fn kick(&self) -> io::Result<()> {
        self.kick.write(1)
    }

    pub(super) fn call(&self) -> io::Result<()> {
        self.call.write(1)
    }

    pub(super) fn wait_for_kick(&self) -> io::Result<()> {
        self.kick.read().map(drop)
    }

    pub(super) fn wait_for_call(&self) -> io::Result<()> {
        self.call.read().map(drop)
    }

    /// The current order, which the device thread reads after every kick.
    pub(super) fn order(&self) -> DeviceOrder {
        match self.order.load(Ordering::Acquire) {
            RUN => DeviceOrder::Run,
            RESET => DeviceOrder::Reset,
            _ => DeviceOrder::Stop,
        }
    }

    /// Whether the run continues, because neither side has stopped it.
    pub(super) fn is_running(&self) -> bool {
        self.order() != DeviceOrder::Stop
    }

    /// Stops the run, and wakes both threads wherever they wait.
    pub(super) fn stop(&self) -> io::Result<()> {
        self.order.store(STOP, Ordering::Release);
        for event in [&self.kick, &self.call, &self.dropped] {
            event.write(1)?;
        }
        Ok(())
    }

    /// Makes the device thread drop the queue, and waits for it. Returns false if the run was stopped meanwhile.
    pub(super) fn reset_queue(&self) -> io::Result<bool> {
        self.change(RUN, RESET);
        self.kick()?;
        self.dropped.read()?;
        Ok(self.is_running())
    }

    /// Makes the device thread take the queue again.
    pub(super) fn resume(&self) -> io::Result<()> {
        self.change(RESET, RUN);
        self.kick()
    }

    /// The device thread's part of [`reset_queue`](Self::reset_queue): waits for the next order and returns it.
    pub(super) fn await_order(&self) -> io::Result<DeviceOrder> {
        self.dropped.write(1)?;
        while self.order() == DeviceOrder::Reset {
            self.wait_for_kick()?;
        }
        Ok(self.order())
    }

    /// Replaces the device's order `from` with `to`, unless the run was stopped meanwhile.
    fn change(&self, from: u8, to: u8) {
        let order = Ordering::AcqRel;
        let _stopped = self
            .order
            .compare_exchange(from, to, order, Ordering::Acquire);
    }
}
