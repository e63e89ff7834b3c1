//! What tests of full eventfds share.

use std::os::fd::AsRawFd;
use std::time::Duration;

use vmm_sys_util::epoll::{ControlOperation, Epoll, EpollEvent, EventSet};
use vmm_sys_util::eventfd::EventFd;

/// The largest count that a write makes.
pub const FULL: u64 = u64::MAX - 1;

/// Longer than any host takes for what does not hang.
pub const LIMIT: Duration = Duration::from_secs(60);

/// Whether the count is 0.
pub fn is_empty(event: &EventFd) -> bool {
    let epoll = Epoll::new().unwrap();
    let interest = EpollEvent::new(EventSet::IN, 0);
    epoll
        .ctl(ControlOperation::Add, event.as_raw_fd(), interest)
        .unwrap();
    epoll.wait(0, &mut [EpollEvent::default()]).unwrap() == 0
}
