//! The last values of doorbells with a payload, which the sandbox stores before it signals their eventfds.
//!
//! For such a doorbell the table has the index of the value instead of an eventfd's number; the sandbox finds both by
//! the index. Any thread takes an index and reads its value. The sandbox, and so its guest, can write any value.

use std::sync::atomic::Ordering::Relaxed;

use stub::layout::MAX_PAYLOADS;
use vmbell::doorbell::DoorbellError;
use vmbell::sync::Mutex;
use vmbell_core::table::{CODE, PAYLOAD};

use super::sandbox::Sandbox;

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
    /// Takes an index that is not in use.
    pub fn take(&self) -> Result<u32, DoorbellError> {
        let mut indexes = self.indexes.lock();
        match indexes.free.pop() {
            Some(index) => Ok(index),
            None if (indexes.next as usize) < MAX_PAYLOADS => {
                indexes.next += 1;
                Ok(indexes.next - 1)
            }
            None => Err(DoorbellError::Full {
                what: "payloads",
                capacity: MAX_PAYLOADS,
            }),
        }
    }

    /// Frees the index of a doorbell that is gone.
    pub fn give_back(&self, index: u32) {
        let mut indexes = self.indexes.lock();
        indexes.free.push(index);
    }
}

/// Makes the sandbox signal descriptor `number` for the value with this index, and sets the value to 0. Returns the
/// signal for the doorbell table.
pub fn prepare(sandbox: &Sandbox, index: u32, number: u32) -> u32 {
    let value = index as usize;
    sandbox.shared.payloads[value].store(0, Relaxed);
    sandbox.control.payload_fds[value].store(number, Relaxed);
    index | PAYLOAD
}

/// Returns the descriptor in the sandbox for a signal of the doorbell table.
pub fn descriptor_of(sandbox: &Sandbox, signal: u32) -> u32 {
    if signal & PAYLOAD == 0 {
        return signal;
    }
    sandbox.control.payload_fds[(signal & CODE) as usize].load(Relaxed)
}
