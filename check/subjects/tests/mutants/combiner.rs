//! The combiner of vmbell's virtio queues (`crates/devices/src/virtio/combiner.rs`) as it is, and with one line changed each:
//! `combiner.txt` has the changes, and `build.rs` the copies. The words of its locks and atomics are explored.

use vmbell_check::{Explorer, Memory, Order, Report};
use vmbell_subjects::threads::with_words;

use crate::table::{Fate, Mutant, Scene, control, hunt};

/// What a thread does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Act {
    /// The thread makes a chain available, and serves.
    Notify,
    /// The thread completes a request of the first ring.
    Complete,
    /// The thread stops the ring.
    Stop,
    /// The thread stops the ring, starts another one, makes a chain available and serves.
    Restart,
}

use Act::{Complete, Notify, Restart, Stop};

const SCENES: &[&[Act]] = &[
    &[Notify, Notify],
    &[Complete, Notify],
    &[Complete, Complete],
    &[Complete, Notify, Notify],
    &[Stop, Notify],
    &[Stop, Complete],
    &[Restart, Notify],
    &[Restart, Complete],
];

type Explore = fn(&Explorer, &'static [Act]) -> Report;

/// Offsets of the driver's words. They count the chains that are available, and the used chains of each ring.
const AVAILABLE: usize = 0;
const USED: [usize; 2] = [8, 16];
/// How many chains of the first ring were used when it was stopped.
const AT_STOP: usize = 24;

/// The offset of the count of used chains for the ring with this start number.
fn used_at(start: u64) -> usize {
    let index = usize::try_from(start - 1);
    USED[index.expect("there are two starts")]
}

fn load(memory: Memory, at: usize) -> u64 {
    memory.load(at, 8, Order::Relaxed)
}

fn add(memory: Memory, at: usize) {
    memory.update(at, 8, Order::Relaxed, |count| Some(count + 1));
}

/// The part of each copy's module that uses the copy.
macro_rules! rig {
    () => {
        use std::rc::Rc;

        use vmbell_check::claim;

        use super::*;

        /// A ring, identified by the number of its start.
        struct Ring {
            start: u64,
            taken: u64,
        }

        struct Rig(Combiner<Ring, u64>, Memory);

        impl Rig {
            fn give_back(&self, ring: &Option<Ring>, late: Vec<u64>) {
                let now = ring.as_ref().map(|ring| ring.start);
                let of_now = late.into_iter().filter(|start| Some(*start) == now);
                of_now.for_each(|start| add(self.1, used_at(start)));
            }

            fn serve(&self) {
                let serve = |ring: &mut Option<Ring>| {
                    let Some(ring) = ring else { return };
                    while ring.taken < load(self.1, AVAILABLE) {
                        ring.taken += 1;
                        add(self.1, used_at(ring.start));
                    }
                };
                let again = || self.0.serve(serve, |ring, late| self.give_back(ring, late));
                while again().is_some_and(|((), called)| called) {}
            }

            fn start(&self) {
                self.0.start(|start| Ring { start, taken: 0 });
            }

            fn act(&self, act: Act) {
                match act {
                    Notify => {
                        add(self.1, AVAILABLE);
                        self.serve();
                    }
                    Complete => self.0.complete(1, |ring, late| self.give_back(ring, late)),
                    Stop | Restart => {
                        self.0.stop();
                        let used = load(self.1, USED[0]);
                        self.1.store(AT_STOP, 8, used, Order::Relaxed);
                        if act == Restart {
                            self.start();
                            self.act(Notify);
                        }
                    }
                }
            }
        }

        pub(super) fn explore(explorer: &Explorer, acts: &'static [Act]) -> Report {
            let explorer = explorer.clone().with_guarded_data();
            let report = explorer.run(|scenario| {
                let memory = scenario.memory();
                let combiner = with_words(memory, Combiner::new);
                let rig = Rc::new(Rig(combiner, memory));
                rig.start();
                let count = |act| acts.iter().filter(|other| **other == act).count() as u64;
                if count(Complete) > 0 {
                    rig.0.serve(|_| rig.0.expect_late(), |_, _| ());
                }
                let mut ended = Vec::new();
                for (at, act) in acts.iter().copied().enumerate() {
                    let done = scenario.sleeper(&format!("{at} ended"), &["ended"]);
                    ended.push(done);
                    let rig = Rc::clone(&rig);
                    scenario.task(&format!("{act:?} {at}"), move || {
                        rig.act(act);
                        done.bell(0).signal();
                    });
                }
                let chains = count(Notify) + count(Complete);
                let [stops, restarts] = [Stop, Restart].map(count);
                scenario.task("driver", move || {
                    for done in ended {
                        done.wait();
                    }
                    let is_stopped = stops + restarts > 0;
                    let expected = if is_stopped {
                        load(memory, AT_STOP)
                    } else {
                        chains
                    };
                    let used = load(memory, USED[0]);
                    claim(used == expected, || {
                        format!("{used} of {expected} are used")
                    });
                    let expected = restarts * (count(Notify) + 1);
                    let used = load(memory, USED[1]);
                    claim(used == expected, || {
                        format!("{used} of {expected} are used after a new start")
                    });
                    // A completion after the last stop is kept until the next stop.
                    claim(is_stopped || rig.0.take_late().is_empty(), || {
                        "a completion is lost".to_string()
                    });
                });
            });
            report.expect("it can be explored")
        }
    };
}

include!(concat!(env!("OUT_DIR"), "/combiners.rs"));

fn scenes(explore: Explore) -> Vec<Scene> {
    let scenes = SCENES.iter().map(|acts| Scene {
        name: format!("{acts:?}"),
        explore: Box::new(move |explorer| explore(explorer, acts)),
    });
    scenes.collect()
}

#[test]
fn mutants_of_the_combiner_are_killed() {
    let mutants = COMBINERS.iter().map(|(what, fate, explore)| Mutant {
        what,
        fate: *fate,
        scenes: scenes(*explore),
    });
    hunt(
        "The combiner of vmbell's virtio queues",
        11,
        mutants.collect(),
    );
}

#[test]
fn the_combiner_without_a_defect_loses_nothing() {
    control(scenes(unchanged::explore));
}
