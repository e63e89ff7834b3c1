use std::collections::{BTreeMap, HashMap, HashSet};

use proptest::prelude::*;

use super::*;

/// What happens to a counter: it counts, ends, or begins again from 0.
#[derive(Clone, Copy, Debug)]
enum Step {
    Count(u8, u64),
    End(u8),
    Restart(u8),
    Read,
}

fn step() -> impl Strategy<Value = Step> {
    let key = || 0_u8..4;
    prop_oneof![
        4 => (key(), 1_u64..1000).prop_map(|(key, count)| Step::Count(key, count)),
        1 => key().prop_map(Step::End),
        1 => key().prop_map(Step::Restart),
        3 => Just(Step::Read),
    ]
}

proptest! {
    /// The model counts steps since the last reading. A restart is noticed only if the counter is lower than before.
    #[test]
    fn a_difference_is_what_was_counted_in_between(steps in prop::collection::vec(step(), 0..60)) {
        let mut counters: HashMap<u8, u64> = HashMap::new();
        let mut counted: HashMap<u8, u64> = HashMap::new();
        let mut begun_again = HashSet::new();
        let mut before: HashMap<u8, u64> = HashMap::new();
        for step in steps {
            match step {
                Step::Count(key, count) => {
                    *counters.entry(key).or_default() += count;
                    *counted.entry(key).or_default() += count;
                }
                Step::End(key) => {
                    counters.remove(&key);
                    counted.remove(&key);
                    begun_again.insert(key);
                }
                Step::Restart(key) => {
                    counters.insert(key, 0);
                    counted.remove(&key);
                    begun_again.insert(key);
                }
                Step::Read => {
                    let difference = table(counters.clone(), |key| before.get(key).copied(), since);
                    prop_assert_eq!(difference.len(), counters.len());
                    for (key, counter) in &counters {
                        let old = before.get(key).copied().unwrap_or_default();
                        let all = counted.get(key).copied().unwrap_or_default();
                        let is_hidden = begun_again.contains(key) && all >= old;
                        let expected = if is_hidden { counter - old } else { all };
                        prop_assert_eq!(difference[key], expected);
                    }
                    before.clone_from(&counters);
                    counted.clear();
                    begun_again.clear();
                }
            }
        }
    }
}

#[test]
fn a_counter_that_is_lower_than_before_has_begun_again() {
    assert_eq!(since(110, 100), 10);
    assert_eq!(since(7, 100), 7);
}

#[test]
fn a_statistic_that_is_new_counts_from_zero() {
    let later = BTreeMap::from([("exits", 30), ("halt_exits", 4)]);
    let earlier = BTreeMap::from([("exits", 10)]);
    let expected = BTreeMap::from([("exits", 20), ("halt_exits", 4)]);
    let of =
        |later, earlier: &BTreeMap<_, _>| table(later, |name| earlier.get(name).copied(), since);
    assert_eq!(of(later, &earlier), expected);
}
