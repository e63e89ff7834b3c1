//! Requests whose every field depends on their number, so that a field of another request, or a stale one, is noticed.
//!
//! Request `n` has its own buffers. The driver writes the request's number into the buffer that the device reads, and the
//! device writes an answer.

use std::sync::atomic::AtomicU16;
use std::sync::atomic::Ordering::Relaxed;

use vmbell_check::claim;
use vmbell_virtqueue::Buffer;

use crate::Site;
use crate::memory::BUFFER;

/// Where the device reads request `n`, and where it writes the answer.
pub(crate) fn buffers(n: u64) -> [Buffer; 2] {
    let at = BUFFER + 32 * n;
    [
        Buffer::new(at, 2 + small(n)),
        Buffer::new(at + 16, written(n)),
    ]
}

/// The length of the part that the device writes: it writes all of it.
pub(crate) fn written(n: u64) -> u32 {
    8 + small(n)
}

fn small(n: u64) -> u32 {
    u32::try_from(n).unwrap_or(0)
}

const REQUEST: u16 = 0x100;
const ANSWER: u16 = 0x200;

fn low(n: u64) -> u16 {
    u16::try_from(n).unwrap_or(u16::MAX)
}

/// The word at the beginning of a buffer.
fn word<'s>(site: &'s Site, buffer: &Buffer) -> &'s AtomicU16 {
    site.field(low(buffer.addr))
}

/// The driver writes request `n` into its buffer.
pub(crate) fn write_request(site: &Site, n: u64) {
    word(site, &buffers(n)[0]).store(REQUEST + low(n), Relaxed);
}

/// The driver checks the length of the answer to request `n`.
pub(crate) fn check_length(n: u64, len: u32) {
    claim(len == written(n), || {
        format!("request {n} has length {len}")
    });
}

/// The driver checks the answer to request `n`.
pub(crate) fn check_answer(site: &Site, n: u64) {
    let answer = word(site, &buffers(n)[1]).load(Relaxed);
    claim(answer == ANSWER + low(n), || {
        format!("the answer to request {n} is {answer:#x}")
    });
}

/// The device checks a request and writes the answer. Returns how much it has written.
pub(crate) fn answer(
    site: &Site,
    readable: &[Buffer],
    writable: &[Buffer],
    is_chained: bool,
) -> u32 {
    let to = writable.first().map_or(0, |buffer| buffer.addr);
    let n = to.saturating_sub(BUFFER) / 32;
    let [from, to] = buffers(n);
    claim(writable == [to], || {
        format!("the device may write {writable:?}")
    });
    if is_chained {
        claim(readable == [from], || {
            format!("the device may read {readable:?}")
        });
        let request = word(site, &from).load(Relaxed);
        claim(request == REQUEST + low(n), || {
            format!("request {n} is {request:#x}")
        });
    }
    word(site, &to).store(ANSWER + low(n), Relaxed);
    written(n)
}
