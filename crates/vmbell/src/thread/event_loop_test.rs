use std::os::fd::{FromRawFd, IntoRawFd, OwnedFd};
use std::sync::OnceLock;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{Receiver, Sender, channel};

use super::*;

use crate::sync::Mutex;

/// Longer than any answer takes on a busy machine.
const HANG: Duration = Duration::from_secs(60);

fn new() -> EventLoop {
    EventLoop::new(ThreadKind::Device, "under-test").unwrap()
}

fn event() -> EventFd {
    EventFd::new(EFD_NONBLOCK).unwrap()
}

/// An eventfd whose signals are sent to a channel as long as the channel has a receiver.
fn heard(event_loop: &EventLoop) -> (EventFd, Token, Receiver<()>) {
    let (event, (sender, receiver)) = (event(), channel());
    let mine = event.try_clone().unwrap();
    let hear = move || {
        let _ = mine.read();
        let _ = sender.send(());
        false
    };
    let token = event_loop.add(event.try_clone().unwrap(), EventSet::IN, hear);
    (event, token.unwrap(), receiver)
}

/// A callback that reports that it has begun, and returns on a message or when the channel closes.
fn held(event_loop: &EventLoop) -> (Token, Receiver<()>, Sender<()>) {
    let (began, begun) = channel();
    let (go_on, told) = channel();
    let event = event();
    event.write(1).unwrap();
    let hold = move || {
        let _ = began.send(());
        let _ = told.recv();
        false
    };
    let token = event_loop.add(event, EventSet::IN, hold).unwrap();
    (token, begun, go_on)
}

#[test]
fn each_descriptor_has_its_callback() {
    let event_loop = new();
    let all: Vec<_> = (0..100).map(|_| heard(&event_loop)).collect();
    for (event, _, heard) in all.iter().rev() {
        event.write(1).unwrap();
        heard.recv_timeout(HANG).unwrap();
    }
    assert!(all.iter().all(|(_, _, heard)| heard.try_recv().is_err()));
}

#[test]
fn rings_of_before_are_heard() {
    let (event_loop, (sender, heard)) = (new(), channel());
    let event = event();
    event.write(1).unwrap();
    let edge = EventSet::IN | EventSet::EDGE_TRIGGERED;
    let token = event_loop.add(event, edge, move || sender.send(()).is_err());
    heard.recv_timeout(HANG).unwrap();
    event_loop.remove(token.unwrap()).unwrap();
    assert!(heard.recv().is_err(), "one edge, one call");
}

#[test]
fn a_callback_removes_itself() {
    let event_loop = Arc::new(new());
    let (token, (sender, removed)) = (Arc::new(OnceLock::new()), channel());
    let (event, calls) = (event(), Arc::new(AtomicU32::new(0)));
    event.write(1).unwrap();
    let remove = {
        let (event_loop, token) = (Arc::downgrade(&event_loop), Arc::clone(&token));
        let calls = Arc::clone(&calls);
        move || {
            calls.fetch_add(1, Relaxed);
            let _ = sender.send(event_loop.upgrade().unwrap().remove(*token.wait()));
            // The callback has more to do, but is gone.
            true
        }
    };
    let added = event_loop.add(event.try_clone().unwrap(), EventSet::IN, remove);
    token.set(added.unwrap()).unwrap();
    removed.recv_timeout(HANG).unwrap().unwrap();
    assert!(removed.recv().is_err(), "the callback is dropped");
    let (other, _, heard) = heard(&event_loop);
    other.write(1).unwrap();
    heard.recv_timeout(HANG).unwrap();
    assert_eq!(calls.load(Relaxed), 1, "though its eventfd is readable");
}

#[test]
fn a_callback_removes_another_that_is_ready_too() {
    let event_loop = Arc::new(new());
    let (_, begun, go_on) = held(&event_loop);
    begun.recv_timeout(HANG).unwrap();
    // Both become ready while the thread is busy, so one call of epoll_wait reports both.
    let tokens = Arc::new(OnceLock::<[Token; 2]>::new());
    let calls = Arc::new(AtomicU32::new(0));
    let add = || {
        let (event_loop_of_callback, tokens) = (Arc::downgrade(&event_loop), Arc::clone(&tokens));
        let (event, calls) = (event(), Arc::clone(&calls));
        event.write(1).unwrap();
        let remove_both = move || {
            calls.fetch_add(1, Relaxed);
            let event_loop = event_loop_of_callback.upgrade().unwrap();
            for token in tokens.wait() {
                event_loop.remove(*token).unwrap();
            }
            false
        };
        event_loop.add(event, EventSet::IN, remove_both).unwrap()
    };
    tokens.set([add(), add()]).unwrap();
    drop(go_on);
    let (other, _, heard) = heard(&event_loop);
    other.write(1).unwrap();
    heard.recv_timeout(HANG).unwrap();
    assert_eq!(calls.load(Relaxed), 1);
}

#[test]
fn a_removal_waits_for_the_callback_that_runs() {
    let event_loop = new();
    let (token, begun, go_on) = held(&event_loop);
    begun.recv_timeout(HANG).unwrap();
    std::thread::scope(|scope| {
        let removal = scope.spawn(|| event_loop.remove(token));
        // In most runs, a removal that does not wait would return within this time.
        std::thread::sleep(Duration::from_millis(20));
        assert!(!removal.is_finished());
        drop(go_on);
        removal.join().unwrap().unwrap();
    });
    assert!(begun.recv().is_err(), "the callback is dropped");
}

#[test]
fn a_removal_of_a_callback_that_does_not_end_gives_up() {
    let event_loop = new();
    let (Token(number), begun, go_on) = held(&event_loop);
    begun.recv_timeout(HANG).unwrap();
    let callbacks = &event_loop.shared.callbacks;
    callbacks.remove(number, |_| {});
    assert!(!callbacks.await_return(number, Duration::from_millis(1)));
    drop(go_on);
    assert!(callbacks.await_return(number, HANG));
}

#[test]
fn a_removal_does_not_wait_for_another_callback() {
    let event_loop = new();
    let (_, token, _) = heard(&event_loop);
    let (_, begun, _go_on) = held(&event_loop);
    begun.recv_timeout(HANG).unwrap();
    event_loop.remove(token).unwrap();
    event_loop.remove(token).unwrap();
}

#[test]
fn a_dropped_loop_calls_nothing_more_though_events_are_pending() {
    let event_loop = new();
    let (_, begun, go_on) = held(&event_loop);
    begun.recv_timeout(HANG).unwrap();
    let pending: Vec<_> = (0..50).map(|_| heard(&event_loop)).collect();
    for (event, ..) in &pending {
        event.write(1).unwrap();
    }
    let shared = Arc::clone(&event_loop.shared);
    std::thread::scope(|scope| {
        let dropping = scope.spawn(|| drop(event_loop));
        while !shared.stop.load(Acquire) {
            std::thread::yield_now();
        }
        drop(go_on);
        dropping.join().unwrap();
    });
    drop(shared);
    for (_, _, heard) in &pending {
        assert!(heard.recv().is_err(), "dropped, and never called");
    }
}

#[test]
fn a_loop_that_always_has_more_to_do_can_be_dropped() {
    let (event_loop, (sender, called)) = (new(), channel());
    let event = event();
    event.write(1).unwrap();
    let edge = EventSet::IN | EventSet::EDGE_TRIGGERED;
    let more = move || {
        let _ = sender.send(());
        true
    };
    event_loop.add(event, edge, more).unwrap();
    for _ in 0..100 {
        called.recv_timeout(HANG).unwrap();
    }
}

#[test]
fn a_callback_drops_its_own_loop() {
    let event_loop = new();
    let (owner, (sender, dropped)) = (Arc::new(Mutex::new(None)), channel());
    let event = event();
    event.write(1).unwrap();
    let drop_loop = {
        let owner = Arc::clone(&owner);
        move || {
            let owned: Option<EventLoop> = owner.lock().take();
            let had_one = owned.is_some();
            drop(owned);
            let _ = sender.send(had_one);
            true
        }
    };
    let mut place = owner.lock();
    event_loop.add(event, EventSet::IN, drop_loop).unwrap();
    *place = Some(event_loop);
    drop(place);
    assert!(dropped.recv_timeout(HANG).unwrap());
    assert!(dropped.recv_timeout(HANG).is_err(), "the thread has ended");
}

#[test]
fn one_that_stays_readable_does_not_starve_others() {
    for edge in [EventSet::empty(), EventSet::EDGE_TRIGGERED] {
        let event_loop = new();
        // More descriptors than one call of epoll_wait reports.
        let calls = Arc::new(AtomicU32::new(0));
        for _ in 0..100 {
            let (event, calls) = (event(), Arc::clone(&calls));
            event.write(1).unwrap();
            let has_more = !edge.is_empty();
            let count = move || {
                calls.fetch_add(1, Relaxed);
                has_more
            };
            event_loop.add(event, EventSet::IN | edge, count).unwrap();
        }
        let (event, _, heard) = heard(&event_loop);
        for _ in 0..10 {
            event.write(1).unwrap();
            heard.recv_timeout(HANG).unwrap();
        }
        assert!(calls.load(Relaxed) > 10);
    }
}

#[test]
fn an_owner_that_closes_its_descriptor_first_loses_nothing() {
    let event_loop = new();
    let (event, token, heard) = heard(&event_loop);
    let others = event.try_clone().unwrap();
    drop(event);
    others.write(1).unwrap();
    heard.recv_timeout(HANG).unwrap();
    event_loop.remove(token).unwrap();
    others.write(1).unwrap();
    assert!(heard.recv().is_err());
}

#[test]
fn a_descriptor_that_was_closed_under_the_loop_leaves_others_as_they_are() {
    let event_loop = new();
    let closed = event().into_raw_fd();
    let token = event_loop.add(closed, EventSet::IN, || false).unwrap();
    // SAFETY: this test owns the descriptor, and the loop has only its number.
    #[allow(unsafe_code)]
    drop(unsafe { OwnedFd::from_raw_fd(closed) });
    event_loop.remove(token).unwrap();
    let (event, _, heard) = heard(&event_loop);
    event.write(1).unwrap();
    heard.recv_timeout(HANG).unwrap();
}

#[test]
fn what_epoll_does_not_take_is_not_added() {
    let event_loop = new();
    let file = std::fs::File::open("/proc/self/exe").unwrap();
    let refused = event_loop.add(file, EventSet::IN, || false).unwrap_err();
    assert_eq!(refused.raw_os_error(), Some(libc::EPERM));
    let event = Arc::new(event());
    let add = || event_loop.add(Arc::clone(&event), EventSet::IN, || false);
    let token = add().unwrap();
    assert_eq!(add().unwrap_err().raw_os_error(), Some(libc::EEXIST));
    event_loop.remove(token).unwrap();
    assert_ne!(add().unwrap(), token, "a number is used once");
}

#[test]
fn a_removed_descriptor_is_closed() {
    let event_loop = new();
    let event = Arc::new(event());
    let token = event_loop.add(Arc::clone(&event), EventSet::IN, || false);
    assert_eq!(Arc::strong_count(&event), 2);
    event_loop.remove(token.unwrap()).unwrap();
    assert_eq!(Arc::strong_count(&event), 1);
}

#[test]
fn the_thread_is_set_up_before_its_first_callback() {
    let (ready, is_ready) = channel();
    let setup = move || {
        ready
            .send(std::thread::current().name().map(str::to_owned))
            .unwrap();
    };
    let _event_loop = EventLoop::with_setup(ThreadKind::Device, "with-setup", setup).unwrap();
    let name = is_ready.recv_timeout(HANG).unwrap();
    assert_eq!(name.as_deref(), Some("with-setup"));
}

#[test]
fn a_callback_that_panics_holds_no_removal_up() {
    let event_loop = new();
    let event = event();
    event.write(1).unwrap();
    let token = event_loop
        .add(event, EventSet::IN, || panic!("of the test"))
        .unwrap();
    while !event_loop.thread.as_ref().unwrap().is_finished() {
        std::thread::yield_now();
    }
    event_loop.remove(token).unwrap();
}
