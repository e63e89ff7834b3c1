//! Two queues take the same steps, and one of them is saved and restored again and again: their results are equal.

use proptest::{prelude::*, sample::Index};

use super::*;

#[derive(Clone, Debug)]
enum Step {
    /// Adds a buffer with this number of readable and of writable pieces.
    Add(usize, usize),
    Kick,
    GetUsed,
    DisableCb,
    EnableCb,
    EnableCbDelayed,
    /// Makes tokens.
    Prepare,
    Pop,
    /// Gives back one chain, only partly written if the flag says so.
    AddUsed(Index, bool),
    /// Gives back this number of chains.
    Batch(usize, bool),
    NeedsNotification,
    EnableNotification,
    DisableNotification,
    /// The driver asks for wrap counters.
    CountWraps,
    /// Both sides are set up again.
    Reset,
    /// Something else writes to the ring.
    Scribble(Index, u16),
    /// Saves and restores the driver side, the device side, or both.
    Save(bool, bool),
    /// Moves the memory as well.
    Move,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        12 => (0..3_usize, 0..3_usize).prop_map(|(readable, writable)| Step::Add(readable, writable)),
        4 => Just(Step::Kick),
        10 => Just(Step::GetUsed),
        2 => Just(Step::DisableCb),
        2 => Just(Step::EnableCb),
        2 => Just(Step::EnableCbDelayed),
        3 => Just(Step::Prepare),
        10 => Just(Step::Pop),
        6 => any::<(Index, bool)>().prop_map(|(which, part)| Step::AddUsed(which, part)),
        3 => (0..4_usize, any::<bool>()).prop_map(|(count, part)| Step::Batch(count, part)),
        4 => Just(Step::NeedsNotification),
        2 => Just(Step::EnableNotification),
        2 => Just(Step::DisableNotification),
        1 => Just(Step::CountWraps),
        8 => any::<(bool, bool)>().prop_map(|(driver, device)| Step::Save(driver, device)),
        2 => Just(Step::Move),
    ]
}

/// Steps, of which only a few break the queue or empty it.
fn steps() -> impl Strategy<Value = Vec<Step>> {
    let rare = prop_oneof![
        2 => Just(Step::Reset),
        1 => any::<(Index, u16)>().prop_map(|(place, value)| Step::Scribble(place, value)),
    ];
    let any = prop_oneof![60 => step(), 1 => rare];
    proptest::collection::vec(any, 1..if cfg!(miri) { 20 } else { 150 })
}

impl<K: Kind> Pair<K> {
    /// Takes a step; returns what both callers learn from it. Only one twin is `saved`.
    fn step(&mut self, step: &Step, saved: bool) -> String {
        let (driver, device) = (&mut self.driver, &mut self.device);
        let said = match step {
            Step::Add(readable, writable) => {
                let pieces = [BUFFER, Buffer::new(BUFFERS + 64, 3)];
                let result = driver.add(&pieces[..*readable], &pieces[..*writable], self.next);
                self.next += 1;
                format!("{result:?}")
            }
            Step::Kick => driver.kick_prepare().to_string(),
            Step::GetUsed => format!("{:?}", driver.get_used()),
            Step::DisableCb => {
                driver.disable_cb();
                String::new()
            }
            Step::EnableCb => driver.enable_cb().to_string(),
            Step::EnableCbDelayed => driver.enable_cb_delayed().to_string(),
            Step::Prepare => {
                let pair = (
                    driver.enable_cb_prepare::<Opaque<_>>(),
                    driver.enable_cb_prepare::<Token<_>>(),
                );
                self.tokens.push(pair);
                format!("{pair:?}")
            }
            Step::Pop => {
                let popped = device.pop(&mut self.chain);
                let said = format!("{popped:?} {:?}", self.chain);
                self.heads.extend(popped.ok().flatten());
                said
            }
            Step::AddUsed(which, part) if !self.heads.is_empty() => {
                let in_order = self.kind.features().in_order;
                let which = if in_order {
                    0
                } else {
                    which.index(self.heads.len())
                };
                let head = self.heads.remove(which);
                let len = head.writable_len() / if *part { 2 } else { 1 };
                format!("{:?}", device.add_used(head, len))
            }
            Step::AddUsed(..) => String::new(),
            Step::Batch(count, part) => {
                let heads: Vec<Head> = self.heads.drain(..self.heads.len().min(*count)).collect();
                let heads = heads.into_iter().map(|head| {
                    let len = head.writable_len() / if *part { 2 } else { 1 };
                    (head, len)
                });
                format!("{:?}", device.add_used_batch(heads))
            }
            Step::NeedsNotification => device.needs_notification().to_string(),
            Step::EnableNotification => device.enable_notification().to_string(),
            Step::DisableNotification => {
                device.disable_notification();
                String::new()
            }
            Step::CountWraps => format!("{:?}", driver.use_wrap_counter(STATUS)),
            Step::Reset => {
                driver.reset();
                self.device = self.kind.device(&self.memory);
                self.heads.clear();
                String::new()
            }
            Step::Scribble(place, value) => {
                let words = usize::try_from(TABLES / 2).unwrap();
                let place = u64::try_from(place.index(words)).unwrap() * 2;
                self.memory.put16(place, *value);
                String::new()
            }
            Step::Save(..) | Step::Move if !saved => String::new(),
            Step::Save(driver, device) => {
                if *driver {
                    self.restore_driver();
                }
                if *device {
                    self.restore_device();
                }
                String::new()
            }
            Step::Move => {
                let memory = HostMemory::new(self.memory.len());
                for at in (0..END).step_by(2) {
                    memory.put16(at, self.memory.get16(at));
                }
                self.memory = memory;
                self.restore_driver();
                self.restore_device();
                String::new()
            }
        };
        let polls: Vec<(bool, bool)> = self
            .tokens
            .iter()
            .map(|(opaque, token)| (self.driver.poll(*opaque), self.driver.poll(*token)))
            .collect();
        let state = (self.driver.free(), self.driver.broken());
        format!("{said} {state:?} {polls:?}")
    }

    fn contents(&self) -> Vec<u16> {
        (0..END)
            .step_by(2)
            .map(|at| self.memory.get16(at))
            .collect()
    }
}

fn compare<K: Kind>(mut one: Pair<K>, mut two: Pair<K>, steps: &[Step]) {
    for (i, step) in steps.iter().enumerate() {
        let (expected, found) = (one.step(step, false), two.step(step, true));
        assert_eq!(found, expected, "step {i} {step:?} of {steps:?}");
    }
    assert_eq!(two.contents(), one.contents());
    assert_eq!(data(&two.driver), data(&one.driver));
}

/// A new split queue, in the state after `index` buffers have gone round.
fn split_at(kind: Split, index: u16) -> Pair<Split> {
    let mut pair = Pair::new(kind);
    let layout = kind.0;
    let event = 2 * u64::from(layout.size);
    for at in [
        layout.avail + 2,
        layout.avail + 4 + event,
        layout.used + 2,
        layout.used + 4 + 4 * event,
    ] {
        pair.memory.put16(at, index);
    }
    let mut state = pair.driver.save().unwrap();
    (state.available, state.used_seen) = (index, index);
    state.position = u64::from(index);
    pair.driver.restore(&state, |_| None).unwrap();
    let mut state = pair.device.save([]).unwrap();
    (state.next_avail, state.next_used, state.avail_seen) = (index, index, index);
    pair.device.restore(&state).unwrap();
    pair
}

/// A new packed queue, in the state after `count` buffers have gone round.
fn packed_at(kind: Packed, count: u16) -> Pair<Packed> {
    let mut pair = Pair::new(kind);
    for _ in 0..count {
        pair.turn();
    }
    pair
}

fn features() -> impl Strategy<Value = Features> {
    any::<[bool; 3]>().prop_map(|[event_idx, indirect, in_order]| Features {
        event_idx,
        indirect,
        in_order,
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 2 } else { 400 }))]

    #[test]
    fn saved_split_queue_goes_on_as_one_that_was_not(
        features in features(),
        size in prop::sample::select(vec![1, 2, 4, 8]),
        start in prop_oneof![Just(0), 65_500_u16..=65_535],
        steps in steps(),
    ) {
        let kind = split(size, features);
        compare(split_at(kind, start), split_at(kind, start), &steps);
    }

    #[test]
    fn saved_packed_queue_goes_on_as_one_that_was_not(
        features in features(),
        size in 1_u16..9,
        start in 0_u16..20,
        steps in steps(),
    ) {
        let kind = packed(size, features);
        compare(packed_at(kind, start), packed_at(kind, start), &steps);
    }
}
