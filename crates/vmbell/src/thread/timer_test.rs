use std::sync::mpsc::{Receiver, channel};
use std::time::Instant;

use super::*;
use crate::thread::ThreadKind;

/// Longer than any answer takes on a busy machine.
const HANG: Duration = Duration::from_secs(60);

fn timer() -> (EventLoop, Timer, Receiver<Instant>) {
    let (event_loop, (sender, expired)) = (
        EventLoop::new(ThreadKind::Device, "timer").unwrap(),
        channel(),
    );
    let expire = move |_: &Timer| {
        let _ = sender.send(Instant::now());
    };
    let timer = event_loop.add_timer(expire).unwrap();
    (event_loop, timer, expired)
}

#[test]
fn a_timer_expires_once_and_not_too_early() {
    let (event_loop, timer, expired) = timer();
    for millis in [0, 1, 20] {
        let (after, begin) = (Duration::from_millis(millis), Instant::now());
        timer.set(after);
        assert!(expired.recv_timeout(HANG).unwrap() >= begin + after);
    }
    drop(event_loop);
    assert!(expired.recv().is_err(), "once for each setting");
}

#[test]
fn a_timer_that_is_cleared_does_not_expire() {
    let (event_loop, timer, expired) = timer();
    timer.set(Duration::from_millis(50));
    timer.clear();
    std::thread::sleep(Duration::from_millis(100));
    drop(event_loop);
    assert!(expired.recv().is_err());
}

#[test]
fn a_timer_outlives_its_loop_and_then_does_nothing() {
    let (event_loop, timer, expired) = timer();
    drop(event_loop);
    timer.set(Duration::ZERO);
    assert!(expired.recv().is_err());
}

#[test]
fn a_callback_sets_its_own_timer() {
    let event_loop = EventLoop::new(ThreadKind::Device, "timer").unwrap();
    let (sender, expired) = channel();
    let again = move |timer: &Timer| {
        let _ = sender.send(());
        timer.set(Duration::ZERO);
    };
    let timer = event_loop.add_timer(again).unwrap();
    timer.set(Duration::ZERO);
    for _ in 0..10 {
        expired.recv_timeout(HANG).unwrap();
    }
}
