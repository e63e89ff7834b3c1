use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use super::*;
use crate::filled::FULL;
use kit::wait::HANG;
use vmbell::eventfd::drain;
use vmbell::sync::Mutex;

type Heard = Box<dyn FnMut() -> bool + Send>;

/// Starts each kind of listener.
const KINDS: [fn(Heard) -> Listener; 2] = [
    |heard| Listener::start(|| {}, heard).unwrap(),
    |mut heard| Listener::start_resting(|| {}, move || Rest::after(heard())).unwrap(),
];

/// A function for a listener to call, and a receiver of its calls.
fn counted() -> (Heard, Receiver<()>) {
    let (sender, calls) = channel();
    let heard = move || {
        let _ = sender.send(());
        false
    };
    (Box::new(heard), calls)
}

/// Fills an eventfd again whenever it has room, as a guest may do, until `over`.
fn fill(event: &EventFd, over: &AtomicBool) {
    while !over.load(Relaxed) {
        let _ = event.write(FULL);
    }
}

#[test]
fn listener_whose_count_is_filled_all_the_time_ends() {
    for start in KINDS.into_iter().cycle().take(40) {
        let listener = start(Box::new(|| false));
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
            // The threads that fill the eventfd sleep until the count is read.
            while !fillers.iter().all(|filler| filler.is_finished()) {
                drain(&event);
                std::thread::yield_now();
            }
            result.expect("the listener has not ended");
        });
    }
}

#[test]
fn signal_of_a_full_count_waits_for_nothing_and_is_heard() {
    for start in KINDS {
        let (heard, calls) = counted();
        let listener = start(heard);
        listener.event().write(FULL).unwrap();
        calls.recv_timeout(HANG).unwrap();
        for _ in 0..3 {
            listener.signal();
            calls.recv_timeout(HANG).unwrap();
        }
    }
}

#[test]
fn every_signal_after_a_call_is_heard() {
    for start in KINDS {
        let (heard, calls) = counted();
        let listener = start(heard);
        for _ in 0..1000 {
            listener.event().write(1).unwrap();
            calls.recv_timeout(HANG).unwrap();
        }
    }
}

#[test]
fn a_signal_of_during_the_call_is_heard_after_it() {
    for start in KINDS {
        let ((began, begun), (go_on, told)) = (channel(), channel::<()>());
        let heard = move || {
            let _ = began.send(());
            let _ = told.recv();
            false
        };
        let listener = start(Box::new(heard));
        listener.event().write(1).unwrap();
        for _ in 0..100 {
            begun.recv_timeout(HANG).unwrap();
            listener.event().write(1).unwrap();
            go_on.send(()).unwrap();
        }
        drop(go_on);
    }
}

#[test]
fn a_nap_ends_by_itself_and_with_a_signal() {
    let (sender, calls) = channel();
    let mut naps = [
        Rest::Nap(Duration::from_millis(1)),
        Rest::Nap(HANG),
        Rest::Sleep,
    ]
    .into_iter();
    let heard = move || {
        let _ = sender.send(());
        naps.next().unwrap_or(Rest::Sleep)
    };
    let listener = Listener::start_resting(|| {}, heard).unwrap();
    listener.signal();
    for _ in 0..2 {
        calls.recv_timeout(HANG).unwrap();
    }
    listener.signal();
    calls.recv_timeout(HANG).unwrap();
    listener.signal();
    calls.recv_timeout(HANG).unwrap();
}

#[test]
fn a_listener_may_be_dropped_by_its_own_call() {
    let place = Arc::new(Mutex::new(None::<Listener>));
    let (sender, dropped) = channel();
    let heard = {
        let place = Arc::clone(&place);
        move || {
            drop(place.lock().take());
            let _ = sender.send(());
            true
        }
    };
    let listener = Listener::start(|| {}, heard).unwrap();
    let event = Arc::clone(listener.event());
    *place.lock() = Some(listener);
    event.write(1).unwrap();
    dropped.recv_timeout(HANG).unwrap();
    assert!(dropped.recv_timeout(HANG).is_err(), "the thread has ended");
}
