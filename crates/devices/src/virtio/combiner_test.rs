//! Threads that serve a ring, complete its requests later, stop it and start it again, in every order that the memory
//! model allows. `.ci/run loom` runs these tests.

use loom::model::Builder;
use loom::sync::Arc;
use loom::sync::atomic::AtomicUsize;
use loom::thread;

use super::*;

/// A ring, identified by the number of its start.
struct Ring {
    start: u64,
    taken: usize,
}

/// A queue and its driver. The driver's words have no memory order, so a thread sees what it must see through the
/// combiner only.
struct Rig {
    /// Completions have the number of their ring.
    combiner: Combiner<Ring, u64>,
    available: AtomicUsize,
    /// How many chains were given back, for each ring.
    used: [AtomicUsize; 2],
}

fn check(model: impl Fn(&Arc<Rig>) + Sync + Send + 'static) {
    let mut builder = Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(move || {
        let rig = Arc::new(Rig {
            combiner: Combiner::new(),
            available: AtomicUsize::new(0),
            used: [AtomicUsize::new(0), AtomicUsize::new(0)],
        });
        rig.start();
        model(&rig);
        assert!(rig.combiner.take_late().is_empty(), "a completion is lost");
    });
}

impl Rig {
    fn start(&self) {
        self.combiner.start(|start| Ring { start, taken: 0 });
    }

    fn count(&self, start: u64) -> &AtomicUsize {
        &self.used[usize::try_from(start - 1).unwrap()]
    }

    fn used(&self, start: u64) -> usize {
        self.count(start).load(Ordering::Relaxed)
    }

    fn use_one(&self, start: u64) {
        self.count(start).fetch_add(1, Ordering::Relaxed);
    }

    fn give_back(&self, ring: &Option<Ring>, late: Vec<u64>) {
        let now = ring.as_ref().map(|ring| ring.start);
        late.into_iter()
            .filter(|start| Some(*start) == now)
            .for_each(|start| self.use_one(start));
    }

    /// Makes a chain available as the driver, and serves until there is no more, as the thread that it notifies.
    fn notify(&self) {
        self.available.fetch_add(1, Ordering::Relaxed);
        self.serve();
    }

    fn serve(&self) {
        let serve = |ring: &mut Option<Ring>| {
            let Some(ring) = ring else { return };
            while ring.taken < self.available.load(Ordering::Relaxed) {
                ring.taken += 1;
                self.use_one(ring.start);
            }
        };
        let mut turn = Some(((), true));
        while matches!(turn, Some(((), true))) {
            turn = self
                .combiner
                .serve(serve, |ring, late| self.give_back(ring, late));
        }
    }

    /// Takes a chain that is completed later.
    fn defer(&self) {
        let defer = |_: &mut Option<Ring>| self.combiner.expect_late();
        let turn = self.combiner.serve(defer, |_, _| unreachable!());
        assert_eq!(turn, Some(((), false)));
    }

    fn complete(&self, start: u64) {
        self.combiner
            .complete(start, |ring, late| self.give_back(ring, late));
    }
}

/// What `pause` returns to a thread that pauses a ring: how many chains it has taken.
fn pause(rig: &Rig) -> Option<usize> {
    let look = |ring: &mut Ring| Ok::<_, ()>(ring.taken);
    let paused = rig
        .combiner
        .pause(look, |ring, late| rig.give_back(ring, late));
    paused.unwrap()
}

fn spawn(rig: &Arc<Rig>, act: impl FnOnce(&Rig) + 'static) -> thread::JoinHandle<()> {
    let rig = Arc::clone(rig);
    thread::spawn(move || act(&rig))
}

#[test]
fn a_chain_of_which_two_threads_are_notified_is_served() {
    check(|rig| {
        let other = spawn(rig, Rig::notify);
        rig.notify();
        other.join().unwrap();
        assert_eq!(rig.used(1), 2);
    });
}

#[test]
fn a_completion_while_another_thread_serves_is_given_back() {
    check(|rig| {
        rig.defer();
        let completes = spawn(rig, |rig| rig.complete(1));
        rig.notify();
        completes.join().unwrap();
        assert_eq!(rig.used(1), 2);
    });
}

#[test]
fn two_threads_that_serve_and_one_that_completes_lose_nothing() {
    check(|rig| {
        rig.defer();
        let completes = spawn(rig, |rig| rig.complete(1));
        let other = spawn(rig, Rig::notify);
        rig.notify();
        completes.join().unwrap();
        other.join().unwrap();
        assert_eq!(rig.used(1), 3);
    });
}

#[test]
fn two_threads_that_complete_lose_nothing() {
    check(|rig| {
        rig.defer();
        let other = spawn(rig, |rig| rig.complete(1));
        rig.complete(1);
        other.join().unwrap();
        assert_eq!(rig.used(1), 2);
    });
}

#[test]
fn after_a_stop_no_thread_uses_the_ring() {
    check(|rig| {
        rig.defer();
        let completes = spawn(rig, |rig| rig.complete(1));
        let serves = spawn(rig, Rig::notify);
        rig.combiner.stop();
        let used = rig.used(1);
        completes.join().unwrap();
        serves.join().unwrap();
        assert_eq!(rig.used(1), used);
        rig.combiner.stop();
    });
}

#[test]
fn a_ring_that_is_started_again_is_served_without_the_completions_of_before() {
    check(|rig| {
        rig.defer();
        let completes = spawn(rig, |rig| rig.complete(1));
        let serves = spawn(rig, Rig::notify);
        rig.combiner.stop();
        rig.start();
        let used = rig.used(1);
        rig.notify();
        completes.join().unwrap();
        serves.join().unwrap();
        assert_eq!((rig.used(1), rig.used(2)), (used, 2));
    });
}

#[test]
fn a_chain_of_which_a_thread_is_notified_during_a_pause_is_served_after_it_and_not_before() {
    check(|rig| {
        let serves = spawn(rig, Rig::notify);
        let taken = pause(rig);
        assert_eq!(taken, Some(rig.used(1)));
        assert_eq!(pause(rig), taken, "the second pause");
        serves.join().unwrap();
        assert_eq!(Some(rig.used(1)), taken);
        rig.combiner.resume();
        rig.serve();
        assert_eq!(rig.used(1), 1);
    });
}

#[test]
fn a_ring_that_is_started_during_a_pause_is_served_after_it() {
    check(|rig| {
        pause(rig);
        rig.combiner.stop();
        rig.start();
        let serves = spawn(rig, Rig::notify);
        rig.combiner.resume();
        rig.serve();
        serves.join().unwrap();
        assert_eq!((rig.used(1), rig.used(2)), (0, 1));
    });
}
