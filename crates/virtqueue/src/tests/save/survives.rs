//! What a queue must still know after it is saved and restored, one thing per test.

use super::*;

struct Question;

impl Case for Question {
    fn run<K: Kind>(&self, kind: K) {
        let mut pair = Pair::new(kind);
        pair.offer();
        pair.pop();
        pair.give();
        pair.restore_device();
        assert!(pair.device.needs_notification());
        pair.restore_device();
        assert!(!pair.device.needs_notification(), "nothing new since then");
    }
}

#[test]
fn saved_between_used_and_the_question_still_notifies() {
    everywhere(&Question);
}

struct Kick;

impl Case for Kick {
    fn run<K: Kind>(&self, kind: K) {
        let mut pair = Pair::new(kind);
        pair.offer();
        pair.restore_driver();
        assert!(pair.driver.kick_prepare());
        pair.restore_driver();
        assert!(!pair.driver.kick_prepare(), "nothing new since then");
    }
}

#[test]
fn saved_between_available_and_the_question_still_kicks() {
    everywhere(&Kick);
}

struct Lap;

impl Case for Lap {
    fn run<K: Kind>(&self, kind: K) {
        let mut pair = Pair::new(kind);
        for _ in 0..65_535 {
            pair.turn();
        }
        pair.device.enable_notification();
        // After 65,536 more buffers the 16-bit index is the same again, so the event that each side asked for seems to
        // lie ahead.
        for _ in 0..65_536 {
            pair.turn();
        }
        pair.restore_device();
        pair.restore_driver();
        assert!(pair.device.needs_notification() && pair.driver.kick_prepare());
    }
}

#[test]
#[cfg_attr(miri, ignore = "laps of the index take minutes")]
fn lap_of_the_indices_without_a_question_is_remembered() {
    Lap.run(split(2, EVENT_IDX));
    Lap.run(split(2, PLAIN));
    Lap.run(packed(2, PLAIN));
}

struct Silence;

impl Case for Silence {
    fn run<K: Kind>(&self, kind: K) {
        let mut pair = Pair::new(kind);
        pair.turn();
        pair.driver.kick_prepare();
        pair.device.needs_notification();
        for wanted in [false, true, false] {
            if wanted {
                assert!(pair.driver.enable_cb() && !pair.device.enable_notification());
            } else {
                pair.driver.disable_cb();
                pair.device.disable_notification();
            }
            pair.restore_driver();
            pair.restore_device();
            pair.offer();
            assert_eq!(pair.driver.kick_prepare(), wanted);
            pair.pop();
            pair.give();
            assert_eq!(pair.device.needs_notification(), wanted);
            assert!(pair.taken().is_some());
        }
    }
}

#[test]
fn what_each_side_asked_to_be_told_survives() {
    everywhere(&Silence);
}

struct InFlight;

impl Case for InFlight {
    fn run<K: Kind>(&self, kind: K) {
        let mut pair = Pair::new(kind);
        for _ in 0..4 {
            pair.offer();
        }
        for _ in 0..3 {
            pair.pop();
        }
        pair.restore_driver();
        pair.restore_device();
        pair.pop();
        let heads = std::mem::take(&mut pair.heads).into_iter();
        let heads = heads.map(|head| (head, 8));
        pair.device.add_used_batch(heads).unwrap();
        for data in 0..4 {
            // On an in-order queue, the remaining buffers of the batch are in the state.
            pair.restore_driver();
            let token = pair.driver.enable_cb_prepare::<Token<_>>();
            assert!(pair.driver.poll(token), "{data} waits");
            assert!(!pair.driver.enable_cb() && !pair.driver.enable_cb_delayed());
            assert_eq!(pair.taken(), Some(data));
        }
        pair.restore_driver();
        assert!(pair.driver.enable_cb(), "nothing waits");
        assert_eq!((pair.taken(), pair.driver.free()), (None, 4));
    }
}

#[test]
fn chains_that_were_taken_and_batches_half_consumed_come_back() {
    everywhere(&InFlight);
}

struct Tokens;

impl Case for Tokens {
    fn run<K: Kind>(&self, kind: K) {
        let mut pair = Pair::new(kind);
        pair.driver.use_wrap_counter(STATUS).unwrap();
        for _ in 0..11 {
            pair.turn();
        }
        let (opaque, token) = (
            pair.driver.enable_cb_prepare::<Opaque<_>>(),
            pair.driver.enable_cb_prepare::<Token<_>>(),
        );
        pair.restore_driver();
        assert!(
            !pair.driver.poll(opaque) && !pair.driver.poll(token),
            "nothing was used"
        );
        // A whole number of laps: of the ring, and on a split ring also of the index.
        for _ in 0..65_536 {
            pair.turn();
        }
        pair.restore_driver();
        assert!(pair.driver.poll(opaque) && pair.driver.poll(token));
        pair.driver.reset();
        let (opaque, token) = (
            pair.driver.enable_cb_prepare::<Opaque<_>>(),
            pair.driver.enable_cb_prepare::<Token<_>>(),
        );
        pair.restore_driver();
        assert_eq!(pair.driver.enable_cb_prepare::<Opaque<_>>(), opaque);
        assert!(!pair.driver.poll(opaque) && !pair.driver.poll(token));
    }
}

#[test]
#[cfg_attr(miri, ignore = "a lap of the index takes minutes")]
fn token_of_before_the_save_says_what_was_used_since() {
    Tokens.run(split(4, PLAIN));
    Tokens.run(packed(4, PLAIN));
}

struct Pollers;

impl Case for Pollers {
    fn run<K: Kind>(&self, kind: K) {
        let mut pair = Pair::new(kind);
        for _ in 0..5 {
            pair.turn();
        }
        let state = pair.driver.save().unwrap();
        let token = pair.driver.enable_cb_prepare::<Token<_>>();
        pair.turn();
        // Restores the state but not the memory: the tokens still belong to the same queue.
        pair.driver.restore(&state, |_| None).unwrap();
        assert_eq!(pair.driver.enable_cb_prepare::<Token<_>>(), token);
    }
}

#[test]
fn queue_can_go_back_to_its_own_state() {
    everywhere(&Pollers);
}

struct PutBack;

impl Case for PutBack {
    fn run<K: Kind>(&self, kind: K) {
        let mut pair = Pair::new(kind);
        // Over the ring's end, with another chain in flight.
        for _ in 0..10 {
            pair.offer();
            pair.offer();
            pair.pop();
            pair.pop();
            let (last, first) = (pair.heads.pop().unwrap(), &pair.heads);
            let mut state = pair.device.save(first).unwrap();
            state.put_back(&last);
            pair.device.restore(&state).unwrap();
            pair.pop();
            assert_eq!(pair.heads.last(), Some(&last));
            pair.give();
            pair.give();
            assert_eq!(
                (pair.taken(), pair.taken()),
                (Some(pair.next - 2), Some(pair.next - 1))
            );
        }
    }
}

#[test]
fn chain_that_was_put_back_is_taken_again() {
    everywhere(&PutBack);
}

#[test]
fn broken_queue_stays_broken_for_the_same_reason() {
    let memory = HostMemory::new(0x800);
    let layout = SplitLayout::contiguous(0, 4);
    let mut driver = SplitDriver::<u64, _, _>::new(&memory, &layout, PLAIN, Any(())).unwrap();
    let mut device = SplitDevice::new(&memory, &layout, PLAIN).unwrap();
    memory.put16(layout.used + 2, 9);
    memory.put16(layout.avail + 2, 9);
    let (used, avail) = (driver.get_used().unwrap_err(), pop_error(&mut device));
    let state = driver.save().unwrap();
    let mut driver = SplitDriver::<u64, _, _>::attach(&memory, &layout, PLAIN, Any(())).unwrap();
    let token = driver.enable_cb_prepare::<Token<_>>();
    driver.restore(&state, |_| None).unwrap();
    assert_eq!(driver.get_used().unwrap_err(), used);
    assert_eq!((driver.free(), driver.poll(token)), (0, false));
    let state = device.save([]).unwrap();
    let mut device = SplitDevice::new(&memory, &layout, PLAIN).unwrap();
    device.restore(&state).unwrap();
    assert_eq!(pop_error(&mut device), avail);
}
