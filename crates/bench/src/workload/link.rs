//! What wakes the sides: eventfds, and what the device thread is to do.

use std::{
    io,
    sync::atomic::{AtomicU8, Ordering},
};

use vmm_sys_util::eventfd::EventFd;

const RUN: u8 = 0;
const RESET: u8 = 1;
const STOP: u8 = 2;

/// What the driver wants the device thread to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// Serve the queue.
    Run,
    /// Let go of the queue, and take it anew when it is empty.
    Reset,
    /// End.
    Stop,
}

/// The wires between the two threads.
#[derive(Debug)]
pub(super) struct Link {
    kick: EventFd,
    call: EventFd,
    order: AtomicU8,
    /// The device thread's answer to a reset.
    let_go: EventFd,
}

impl Link {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self {
            kick: EventFd::new(0)?,
            call: EventFd::new(0)?,
            order: AtomicU8::new(RUN),
            let_go: EventFd::new(0)?,
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

    /// What the driver wants; looked at after every kick.
    pub(super) fn order(&self) -> Order {
        match self.order.load(Ordering::Acquire) {
            RUN => Order::Run,
            RESET => Order::Reset,
            _ => Order::Stop,
        }
    }

    /// Whether neither side has stopped the run.
    pub(super) fn is_running(&self) -> bool {
        self.order() != Order::Stop
    }

    /// Has both threads end, wherever they wait.
    pub(super) fn stop(&self) -> io::Result<()> {
        self.order.store(STOP, Ordering::Release);
        for event in [&self.kick, &self.call, &self.let_go] {
            event.write(1)?;
        }
        Ok(())
    }

    /// Has the device thread let go of the queue; whether it has, and not stopped.
    pub(super) fn hold(&self) -> io::Result<bool> {
        self.change(RUN, RESET);
        self.kick()?;
        self.let_go.read()?;
        Ok(self.is_running())
    }

    /// Has the device thread take the queue again.
    pub(super) fn resume(&self) -> io::Result<()> {
        self.change(RESET, RUN);
        self.kick()
    }

    /// The device thread's part of [`hold`](Self::hold); returns on the order that comes next.
    pub(super) fn let_go(&self) -> io::Result<Order> {
        self.let_go.write(1)?;
        while self.order() == Order::Reset {
            self.wait_for_kick()?;
        }
        Ok(self.order())
    }

    /// Changes the order, unless the run was stopped meanwhile.
    fn change(&self, from: u8, to: u8) {
        let order = Ordering::AcqRel;
        let _stopped = self
            .order
            .compare_exchange(from, to, order, Ordering::Acquire);
    }
}
