//! What is open in a ring.

use serde::{Deserialize, Serialize};

/// What is open in a queue while the VM is paused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenRing {
    /// The number of requests that the device has not answered.
    pub requests: u16,
    /// The number of answers that the driver has not taken: their interrupt may be on its way.
    pub answers: u16,
    /// Whether the driver will not notify the device of its next request, although none is open (EVENT_IDX).
    pub suppressed: bool,
}

impl OpenRing {
    /// Whether a notification can be lost now. Only a guest that waits for the interrupt can lose an answer's.
    pub fn is_open(self, waits_for_interrupt: bool) -> bool {
        self.requests != 0 || self.suppressed || waits_for_interrupt && self.answers != 0
    }
}
