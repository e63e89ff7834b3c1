//! How a device of this process signals its irqfd.

use std::fmt;

use vmm_sys_util::eventfd::EventFd;

/// Signals an irqfd, from any thread of this process. On a backend whose interrupt controllers are
/// here too it raises the interrupt on the calling thread; else it writes the eventfd.
pub trait IrqTrigger: Send + Sync + fmt::Debug {
    /// One signal. Nothing happens if the eventfd is no irqfd any more.
    fn signal(&self);
}

impl IrqTrigger for EventFd {
    fn signal(&self) {
        // A saturated counter is an interrupt that nobody has taken yet.
        let _ = self.write(1);
    }
}
