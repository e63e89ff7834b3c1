//! States that no queue can have: restoring returns an error, and never panics or makes a queue go out of bounds.

use proptest::prelude::*;

use super::*;

/// Makes each of `changes` to a valid state, one at a time; restoring must refuse every changed state.
fn refused<K: Kind>(pair: &mut Pair<K>, changes: &[&dyn Fn(&mut DriverState)]) {
    let state = pair.driver.save().unwrap();
    let data = data(&pair.driver);
    for (i, change) in changes.iter().enumerate() {
        let mut bad = state.clone();
        change(&mut bad);
        assert_ne!(bad, state, "change {i} changes nothing");
        let result = pair.driver.restore(&bad, |id| data.get(&id).copied());
        assert!(result.is_err(), "change {i}: {bad:?}");
        assert_eq!(
            pair.driver.save().unwrap(),
            state,
            "change {i}: nothing has changed"
        );
    }
    pair.driver
        .restore(&state, |id| data.get(&id).copied())
        .unwrap();
}

fn refused_of_device<K: Kind>(pair: &mut Pair<K>, changes: &[&dyn Fn(&mut DeviceState)]) {
    let state = pair.device.save(&pair.heads).unwrap();
    for (i, change) in changes.iter().enumerate() {
        let mut bad = state.clone();
        change(&mut bad);
        assert_ne!(bad, state, "change {i} changes nothing");
        assert!(pair.device.restore(&bad).is_err(), "change {i}: {bad:?}");
        assert_eq!(
            pair.device.save(&pair.heads).unwrap(),
            state,
            "change {i}: nothing has changed"
        );
    }
    pair.device.restore(&state).unwrap();
}

/// A queue after one round: one buffer of two pieces and one of one piece are in flight, and the device has taken the
/// first.
fn busy<K: Kind>(kind: K) -> Pair<K> {
    let mut pair = Pair::new(kind);
    pair.turn();
    pair.driver.add(&[BUFFER], &[BUFFER], 5).unwrap();
    pair.offer();
    pair.pop();
    pair
}

struct AnyKind;

impl Case for AnyKind {
    fn run<K: Kind>(&self, kind: K) {
        let mut pair = busy(kind);
        let (event_idx, in_order) = (kind.features().event_idx, kind.features().in_order);
        refused(
            &mut pair,
            &[
                &|state| state.version = 2,
                &|state| state.tables = Some((0, 0)),
                &|state| state.available ^= 1,
                &|state| state.available ^= 0x8000,
                &|state| state.available = 0x7fff,
                &|state| state.unkicked = 5,
                &|state| state.unkicked = u32::MAX,
                &|state| state.position = u64::MAX,
                &|state| state.position += 1,
                // A position so large that a later one could be mistaken for a position inside a batch.
                &|state| state.position += 1 << 62,
                &|state| state.base = 1 << 16,
                &|state| state.base = 1 << 17,
                &|state| state.base = u64::MAX,
                // Equal to the current position, but after a reset in an odd lap.
                &|state| (state.position, state.base) = (state.position + (1 << 20), 1 << 16),
                &|state| state.batch = Some(if in_order { (0, 0) } else { (1, 0) }),
                &|state| state.batch = Some((u16::MAX, 0)),
                &|state| state.buffers[0].id = state.buffers[1].id,
                &|state| state.buffers[0].id = u16::MAX,
                &|state| state.buffers[0].slots = 0,
                &|state| state.buffers[0].slots += 1,
                &|state| state.buffers[0].slots = u16::MAX,
                &|state| state.buffers.push(state.buffers[0]),
                &|state| state.buffers.truncate(1),
                &|state| state.buffers.clear(),
                &|state| state.buffers.swap(0, 1),
                &|state| state.entries[3] = state.entries[0],
                &|state| state.entries[0] = 4,
                &|state| state.entries[0] = u16::MAX,
                &|state| state.entries.push(3),
                &|state| state.entries.truncate(3),
                &|state| state.entries.clear(),
                &|state| state.entries.rotate_left(1),
            ],
        );
        if in_order {
            refused(&mut pair, &[&|state| state.entries.swap(2, 3)]);
        }
        if !event_idx {
            refused(&mut pair, &[&|state| state.armed = true]);
        }
        refused_of_device(
            &mut pair,
            &[
                &|state| state.version = 0,
                &|state| state.next_avail ^= 0x4000,
                &|state| state.next_avail = state.next_used,
                &|state| state.next_used = state.next_used.wrapping_sub(4),
                &|state| state.unsignalled = 65_537,
                &|state| state.unsignalled = u32::MAX,
                &|state| state.avail_seen = state.avail_seen.wrapping_add(5),
                &|state| state.heads[0].id = 4,
                &|state| state.heads[0].slots = 0,
                &|state| state.heads[0].slots = 4,
                &|state| state.heads[0].slots = u16::MAX,
                &|state| state.heads = vec![state.heads[0]; 3],
            ],
        );
        if in_order {
            refused_of_device(&mut pair, &[&|state| state.heads[0].sequence = 0]);
        }
    }
}

#[test]
fn every_field_of_a_state_is_checked() {
    everywhere(&AnyKind);
    refused(
        &mut busy(split(4, PLAIN)),
        &[
            &|state| state.used_seen = 4,
            &|state| state.used_seen = 0,
            // A broken queue does not remember the index that it saw.
            &|state| (state.used_seen, state.broken) = (2, Some(QueueError::Loop { head: 0 })),
        ],
    );
    refused(
        &mut busy(split(4, IN_ORDER)),
        // The device has used nothing that the batch could cover.
        &[&|state| state.batch = Some((1, 0))],
    );
    refused(
        &mut busy(packed(4, PLAIN)),
        &[&|state| state.used_seen = 1, &|state| state.position += 4],
    );
    refused_of_device(
        &mut busy(split(4, PLAIN)),
        &[
            &|state| state.avail_seen = 1,
            &|state| state.heads = vec![state.heads[0]; 70_000],
            &|state| state.broken = Some(QueueError::Loop { head: 0 }),
            &|state| state.heads[0].slots = 2,
        ],
    );
    refused_of_device(
        &mut busy(packed(4, PLAIN)),
        &[
            &|state| state.avail_seen = 1,
            &|state| state.heads[0].sequence = 4,
            &|state| state.next_avail = 4,
            // No chain in flight, and both indices at a slot that does not exist.
            &|state| {
                state.heads.clear();
                (state.next_avail, state.next_used) = (4, 4);
            },
        ],
    );
}

struct GoesOn;

impl Case for GoesOn {
    fn run<K: Kind>(&self, kind: K) {
        let mut pair = Pair::new(kind);
        let mut state = pair.driver.save().unwrap();
        state.position = 1 << 62;
        pair.driver.restore(&state, |_| None).unwrap();
        pair.turn();
        assert!(pair.driver.save().unwrap().position > 1 << 62);
    }
}

#[test]
fn a_queue_from_the_largest_position_goes_on_and_can_be_saved() {
    everywhere(&GoesOn);
}

/// Runs a restored queue for a while. Nothing may go out of bounds.
fn exercise<K: Kind>(pair: &mut Pair<K>, size: u16) {
    for _ in 0..3 * size {
        let _ = pair.driver.add(&[BUFFER, BUFFER], &[BUFFER], 9);
        let _ = pair.driver.kick_prepare();
        let _ = pair.device.enable_notification();
        pair.heads
            .extend(pair.device.pop(&mut pair.chain).ok().flatten());
        if pair.heads.len() > usize::from(size) / 2 {
            let head = pair.heads.remove(0);
            let len = head.writable_len();
            let _ = pair.device.add_used(head, len);
        }
        assert!(pair.heads.len() <= usize::from(size));
        let _ = pair.device.needs_notification();
        let _ = pair.driver.get_used();
        let _ = pair.driver.enable_cb_delayed();
        let token = pair.driver.enable_cb_prepare::<Token<_>>();
        let _ = pair.driver.poll(token);
        assert!(pair.driver.free() <= size);
        assert!(data(&pair.driver).len() <= usize::from(size));
    }
    // The state of a restored queue can be saved again.
    pair.restore_driver();
    pair.restore_device();
    pair.driver.disable_cb();
    pair.driver.reset();
    assert_eq!(pair.driver.free(), size);
}

/// How a changed number differs from the valid one.
#[derive(Clone, Debug)]
enum Change {
    To(u64),
    Flip(u8),
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        (0..9_u64).prop_map(Change::To),
        (0..=u64::from(u16::MAX)).prop_map(Change::To),
        any::<u64>().prop_map(Change::To),
        (0..17_u8).prop_map(Change::Flip),
    ]
}

/// Changes some numbers of valid states, and restores the states that can still be restored.
struct Changed<'a>(&'a [(prop::sample::Index, Change)]);

impl Case for Changed<'_> {
    fn run<K: Kind>(&self, kind: K) {
        let mut pair = busy(kind);
        let change = |mut bytes: Vec<u8>| {
            for (at, change) in self.0 {
                // The bytes are only numbers of variable length, whose last bytes are below 128.
                let end_before = bytes[..at.index(bytes.len())]
                    .iter()
                    .rposition(|byte| *byte < 128);
                let at = end_before.map_or(0, |end| end + 1);
                let (old, rest) = postcard::take_from_bytes::<u64>(&bytes[at..]).unwrap();
                let end = bytes.len() - rest.len();
                let new = match change {
                    Change::To(new) => *new,
                    Change::Flip(bit) => old ^ 1 << bit,
                };
                bytes.splice(at..end, super::bytes(&new));
            }
            bytes
        };
        let driver = change(bytes(&pair.driver.save().unwrap()));
        let device = change(bytes(&pair.device.save(&pair.heads).unwrap()));
        if let Ok(state) = postcard::from_bytes(&driver) {
            let _ = pair.driver.restore(&state, |id| Some(u64::from(id)));
        }
        if let Ok(state) = postcard::from_bytes::<DeviceState>(&device)
            && let Ok(heads) = pair.device.restore(&state)
        {
            assert_eq!(pair.device.save(&heads).unwrap(), state);
            pair.heads = heads;
        }
        exercise(&mut pair, 4);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 2 } else { 500 }))]

    #[test]
    fn changed_states_are_errors_or_queues_within_bounds(
        changes in proptest::collection::vec((any::<prop::sample::Index>(), change()), 1..4),
    ) {
        everywhere(&Changed(&changes));
    }

    #[test]
    fn random_bytes_are_errors_or_queues_within_bounds(
        mut bytes in proptest::collection::vec(0_u8..4, 20..90),
        ring in 0_u8..2,
    ) {
        // The version, the ring, its size and no features.
        bytes[..6].copy_from_slice(&[1, ring, 4, 0, 0, 0]);
        fn run<K: Kind>(kind: K, driver: Option<&DriverState>, device: Option<&DeviceState>) {
            let mut pair = Pair::new(kind);
            if let Some(state) = driver {
                let _ = pair.driver.restore(state, |_| Some(1));
            }
            if let Some(state) = device
                && let Ok(heads) = pair.device.restore(state)
            {
                pair.heads = heads;
            }
            exercise(&mut pair, 4);
        }
        let (driver, device) = (postcard::from_bytes(&bytes).ok(), postcard::from_bytes(&bytes).ok());
        run(split(4, PLAIN), driver.as_ref(), device.as_ref());
        run(packed(4, PLAIN), driver.as_ref(), device.as_ref());
    }
}
