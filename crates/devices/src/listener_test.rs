use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::channel;

use super::*;
use crate::filled::{FULL, is_empty};
use crate::wait::HANG;
use vmbell::eventfd::drain;

/// Fills an eventfd again as soon as it has room, as a guest does, until `over`.
fn fill(event: &EventFd, over: &AtomicBool) {
    while !over.load(Relaxed) {
        let _ = event.write(FULL);
    }
}

#[test]
fn listener_whose_count_is_filled_all_the_time_ends() {
    for _ in 0..20 {
        let listener = Listener::start(EventFd::new(0).unwrap(), || {}, |_| false).unwrap();
        let event = listener.event().try_clone().unwrap();
        let over = AtomicBool::new(false);
        let (ended, wait) = channel();
        std::thread::scope(|scope| {
            let fillers = [(); 2].map(|()| scope.spawn(|| fill(&event, &over)));
            std::thread::spawn(move || {
                drop(listener);
                ended.send(()).unwrap();
            });
            let result = wait.recv_timeout(HANG);
            over.store(true, Relaxed);
            // Those who fill it sleep until it is read.
            while !fillers.iter().all(|filler| filler.is_finished()) {
                drain(&event);
                std::thread::yield_now();
            }
            result.expect("the listener has not ended");
        });
    }
}

#[test]
fn signal_of_a_full_count_does_not_wait_for_the_thread() {
    let (go_on, wait) = channel::<()>();
    let heard = move |_| {
        let _ = wait.recv();
        false
    };
    let listener = Listener::start(EventFd::new(0).unwrap(), || {}, heard).unwrap();
    listener.signal();
    let event = listener.event().try_clone().unwrap();
    // The thread has taken the count, and is busy.
    while !is_empty(&event) {
        std::thread::yield_now();
    }
    event.write(FULL).unwrap();
    listener.signal();
    assert_eq!(event.read().unwrap(), u64::MAX);
    drop(go_on);
}
