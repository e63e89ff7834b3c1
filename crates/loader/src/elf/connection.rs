//! Receives the header and the archive of a run over a vsock connection to this Linux's host. The host waits for the
//! connection.

use super::sys::{self, die};
use crate::window::{Header, PORT};

/// How many times to try to connect, and the pause before each further attempt: the driver that was just loaded finds
/// its device a little later.
const ATTEMPTS: u32 = 500;
const PAUSE_NANOSECONDS: usize = 10_000_000;

/// Receives the archive, in memory that stays mapped. `begin` does what the header says.
pub fn receive(begin: impl FnOnce(&[u8]) -> Header) -> &'static [u8] {
    let Some(host) = connect() else {
        die("there is neither a window nor a host");
    };
    let mut header = [0; Header::SIZE];
    read_all(host, &mut header);
    let length = begin(&header).length();
    let Some(archive) = sys::new_memory(length) else {
        die("out of memory: its files do not fit (--memory)");
    };
    read_all(host, archive);
    sys::close(host);
    archive
}

fn connect() -> Option<usize> {
    for _ in 0..ATTEMPTS {
        if let Some(host) = sys::connect_to_host(PORT) {
            return Some(host);
        }
        sys::sleep(PAUSE_NANOSECONDS);
    }
    None
}

fn read_all(host: usize, to: &mut [u8]) {
    if sys::read_some(host, to) != to.len() {
        die("the host has gone");
    }
}
