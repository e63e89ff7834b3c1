//! A device that calls a function for each write, on the thread of the vCPU that writes.

use std::fmt;

use vmbell::bus::BusDevice;

/// Calls a function for each write. Reads return zeros.
pub struct Hook<F>(pub F);

impl<F> fmt::Debug for Hook<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hook")
    }
}

impl<F: Fn() + Send + Sync> BusDevice for Hook<F> {
    fn read(&self, _offset: u64, data: &mut [u8]) {
        data.fill(0);
    }

    fn write(&self, _offset: u64, _data: &[u8]) {
        (self.0)();
    }
}
