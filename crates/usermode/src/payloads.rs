//! The last values of doorbells with a payload, which the sandbox stores before it signals their eventfds.
//!
//! The doorbell table has the index of such a value in place of the number of an eventfd; the sandbox finds both by it. Any
//! thread takes an index and reads its value; the sandbox can write any value, as its guest can.

use std::sync::Weak;
use std::sync::atomic::Ordering::{Acquire, Relaxed};

use stub::layout::MAX_PAYLOADS;
use vmbell::doorbell::DoorbellError;
use vmbell::sync::Mutex;
use vmbell_core::table::{CODE, PAYLOAD};
use vmbell_hypervisor::Payload;

use super::sandbox::Sandbox;
use super::vm::UsermodeGuest;

/// Hands out the indexes of the values.
#[derive(Debug, Default)]
pub struct Payloads {
    indexes: Mutex<Indexes>,
}

#[derive(Debug, Default)]
struct Indexes {
    free: Vec<u32>,
    next: u32,
}

impl Payloads {
    /// Takes an index that no doorbell has.
    pub fn take(&self, guest: Weak<UsermodeGuest>) -> Result<PayloadIndex, DoorbellError> {
        let mut indexes = self.indexes.lock();
        let index = match indexes.free.pop() {
            Some(index) => index,
            None if (indexes.next as usize) < MAX_PAYLOADS => {
                indexes.next += 1;
                indexes.next - 1
            }
            None => {
                return Err(DoorbellError::Full {
                    what: "payloads",
                    capacity: MAX_PAYLOADS,
                });
            }
        };
        Ok(PayloadIndex { guest, index })
    }

    fn give_back(&self, index: u32) {
        let mut indexes = self.indexes.lock();
        indexes.free.push(index);
    }
}

/// The index of a value, which its doorbell has until it is dropped.
#[derive(Debug)]
pub struct PayloadIndex {
    guest: Weak<UsermodeGuest>,
    index: u32,
}

impl PayloadIndex {
    /// Makes the sandbox signal descriptor `number` for this value, from 0 on. Returns the signal for the doorbell table.
    pub fn prepare(&self, sandbox: &Sandbox, number: u32) -> u32 {
        let index = self.index as usize;
        sandbox.shared.payloads[index].store(0, Relaxed);
        sandbox.control.payload_fds[index].store(number, Relaxed);
        self.index | PAYLOAD
    }
}

impl Payload for PayloadIndex {
    fn value(&self) -> Option<u64> {
        let guest = self.guest.upgrade()?;
        Some(guest.sandbox.shared.payloads[self.index as usize].load(Acquire))
    }
}

impl Drop for PayloadIndex {
    fn drop(&mut self) {
        if let Some(guest) = self.guest.upgrade() {
            guest.payloads.give_back(self.index);
        }
    }
}

/// The descriptor in the sandbox that a signal of the doorbell table stands for.
pub fn descriptor_of(sandbox: &Sandbox, signal: u32) -> u32 {
    if signal & PAYLOAD == 0 {
        return signal;
    }
    sandbox.control.payload_fds[(signal & CODE) as usize].load(Relaxed)
}
