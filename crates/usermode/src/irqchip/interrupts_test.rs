use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::channel;

use kit::wait::HANG;
use vmbell::eventfd::drain;

use super::*;

/// The largest count that a write can produce.
const FULL: u64 = u64::MAX - 1;

/// How much room the count has. Each of the two threads alone could fill it.
const ROOM: u32 = 400;

#[test]
fn ack_of_a_count_that_is_filled_meanwhile_returns() {
    let event = EventFd::new(0).unwrap();
    let resampler = Resampler::new(event.try_clone().unwrap(), 100);
    let signaller = Signaller::of_process().unwrap();
    for round in 0..100 {
        drain(&event);
        event.write(FULL - u64::from(ROOM)).unwrap();
        let ready = AtomicU32::new(0);
        let begin = || {
            ready.fetch_add(1, Ordering::SeqCst);
            while ready.load(Ordering::SeqCst) < 2 {
                std::hint::spin_loop();
            }
        };
        let (acked, wait) = channel();
        let result = std::thread::scope(|scope| {
            let (resampler, begin) = (&resampler, &begin);
            let acker = scope.spawn(move || {
                begin();
                (0..ROOM).for_each(|_| resampler.ack(signaller));
                acked.send(()).unwrap();
            });
            // The guest blocks as soon as there is no room.
            let guest = scope.spawn(|| {
                begin();
                (0..ROOM).for_each(|_| event.write(1).unwrap());
            });
            let result = wait.recv_timeout(HANG);
            while !guest.is_finished() || !acker.is_finished() {
                drain(&event);
                std::thread::yield_now();
            }
            result
        });
        result.unwrap_or_else(|_| panic!("round {round}: the ack waits for a reader"));
    }
}
