//! Compares both kinds of queue with a model that counts in 64 bits: polling never misses a used buffer.

use proptest::prelude::*;

use super::*;

#[derive(Clone, Copy, Debug)]
enum Step {
    /// The driver makes buffers of several pieces available.
    Offer(u16, u16),
    /// The device takes chains and gives them back, one by one or in one batch.
    Use(u16, bool),
    /// The driver consumes used buffers.
    Consume(u16),
    /// Sends whole laps of buffers round, so that tokens get old.
    Laps(u64),
    /// Makes tokens of the queue's current position.
    Prepare,
    /// The driver asks whether it may sleep.
    Sleep,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (1..9_u16, 1..4_u16).prop_map(|(count, pieces)| Step::Offer(count, pieces)),
        (1..9_u16, any::<bool>()).prop_map(|(count, at_once)| Step::Use(count, at_once)),
        (1..9_u16).prop_map(Step::Consume),
        (1..3_u64).prop_map(Step::Laps),
        Just(Step::Prepare),
        Just(Step::Sleep),
    ]
}

/// The model of the queue: plain counters.
#[derive(Default)]
struct Model {
    offered: u64,
    used: u64,
    consumed: u64,
}

struct Run(Vec<Step>);

impl Test for Run {
    fn run(
        &self,
        mut driver: Driver<u64, impl Side, impl Brand>,
        mut device: impl DeviceQueue,
        about: &str,
    ) {
        let mut model = Model::default();
        let mut chain = Chain::with_capacity(8);
        driver.use_wrap_counter(Status(1 | 2 | 8)).unwrap();
        let mut tokens = Vec::new();
        for &step in &self.0 {
            match step {
                Step::Offer(count, pieces) => {
                    let pieces = vec![BUFFER; usize::from(pieces)];
                    for _ in 0..count {
                        model.offered += u64::from(driver.add(&pieces, &[], model.offered).is_ok());
                    }
                }
                Step::Use(count, true) => model.used += serve_at_once(&mut device, count),
                Step::Use(count, false) => {
                    for _ in 0..count {
                        let Some(head) = device.pop(&mut chain).unwrap() else {
                            break;
                        };
                        device.add_used(head, 0).unwrap();
                        model.used += 1;
                    }
                }
                Step::Consume(count) => {
                    for _ in 0..count {
                        let used = driver.get_used().unwrap();
                        let expected = (model.consumed < model.used).then_some(model.consumed);
                        assert_eq!(used.map(|used| used.data), expected, "{about}");
                        model.consumed += u64::from(used.is_some());
                    }
                }
                // If nothing is used or consumed in them, two laps have the same effect as any larger number.
                Step::Laps(laps) if model.consumed == model.used => {
                    driver.skip_laps(2 * laps);
                    for (_, consumed) in &mut tokens {
                        *consumed = None;
                    }
                }
                Step::Laps(_) => {}
                Step::Prepare => {
                    let pair = (
                        driver.enable_cb_prepare::<Opaque<_>>(),
                        driver.enable_cb_prepare::<Token<_>>(),
                    );
                    tokens.push((pair, Some(model.consumed)));
                }
                Step::Sleep => {
                    let nothing_waits = model.used == model.consumed;
                    assert_eq!(driver.enable_cb(), nothing_waits, "{about} {step:?}");
                }
            }
            for ((opaque, token), consumed) in &tokens {
                let new = consumed.is_none_or(|consumed| model.used > consumed);
                assert_eq!(driver.poll(*opaque), new, "{about} {step:?}");
                assert_eq!(driver.poll(*token), new, "{about} {step:?}");
                assert_eq!(driver.poller().poll(*opaque), new, "{about} {step:?}");
                assert_eq!(driver.poller().poll(*token), new, "{about} {step:?}");
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn polling_agrees_with_64_bit_counters(steps in proptest::collection::vec(step(), 1..200)) {
        let run = Run(steps);
        for features in [PLAIN, EVENT_IDX, INDIRECT, IN_ORDER] {
            for size in [1, 2, 8] {
                split(size, features, &run);
            }
            for size in [1, 3, 8] {
                packed(size, features, &run);
            }
        }
    }
}
