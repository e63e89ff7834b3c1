//! Published algorithms, written with stronger orders than they need: weakening finds the published ones.
//!
//! Each algorithm is explored under RC11. Names of functions keep the threads in order.

use std::cell::RefCell;
use std::rc::Rc;

use vmbell_check::{Explorer, Model, Scenario, Weakening, claim};

use crate::hooked::{RELAXED, SEQ_CST, Word, fence};

/// The orders that are enough all together, by function and line.
fn least(set_up: impl FnMut(&mut Scenario)) -> Vec<String> {
    let explorer = Explorer::new().models([Model::Rc11]);
    let weakening: Weakening = explorer.weaken(set_up).expect("it is complete and clean");
    assert!(weakening.minimal.is_minimal, "{weakening}");
    let least = weakening.minimal.orders.iter();
    let mut found: Vec<(String, String)> = weakening
        .sites
        .iter()
        .zip(least)
        .map(|(site, least)| {
            let caller = site
                .source
                .function
                .split(" in ")
                .nth(1)
                .expect("a function");
            (caller.to_string(), format!("{} {least:?}", site.operation))
        })
        .collect();
    // The number of the line follows the function.
    found.sort_by_key(|(caller, _)| {
        let (function, line) = caller.split_once(':').expect("a line");
        (function.to_string(), line.parse::<u32>().expect("a number"))
    });
    found.into_iter().map(|(_, order)| order).collect()
}

fn words<const N: usize>(scenario: &Scenario) -> [Word; N] {
    std::array::from_fn(|at| Word::new(scenario.memory(), 8 * at))
}

/// What tasks return, for a claim at the end.
fn results<const N: usize>(
    scenario: &mut Scenario,
    holds: fn([u64; N]) -> bool,
) -> Rc<RefCell<[u64; N]>> {
    let results = Rc::new(RefCell::new([0; N]));
    let at_end = results.clone();
    scenario.at_end(move || match holds(*at_end.borrow()) {
        true => Ok(()),
        false => Err("the outcome is forbidden".to_string()),
    });
    results
}

#[inline(never)]
fn store_then_load(mine: Word, other: Word) -> u64 {
    mine.store(1, SEQ_CST);
    other.load(SEQ_CST)
}

#[test]
fn store_buffering_needs_all_accesses_sequentially_consistent() {
    let found = least(|scenario| {
        let [x, y] = words(scenario);
        let read = results(scenario, |[a, b]: [u64; 2]| a == 1 || b == 1);
        let other = read.clone();
        scenario.task("one", move || {
            let value = store_then_load(x, y);
            read.borrow_mut()[0] = value;
        });
        scenario.task("two", move || {
            let value = store_then_load(y, x);
            other.borrow_mut()[1] = value;
        });
    });
    assert_eq!(found, ["store SeqCst", "load SeqCst"]);
}

#[inline(never)]
fn fenced_store_then_load(mine: Word, other: Word) -> u64 {
    mine.store(1, SEQ_CST);
    fence(SEQ_CST);
    other.load(SEQ_CST)
}

#[test]
fn store_buffering_with_a_fence_needs_only_the_fence() {
    let found = least(|scenario| {
        let [x, y] = words(scenario);
        let read = results(scenario, |[a, b]: [u64; 2]| a == 1 || b == 1);
        let other = read.clone();
        scenario.task("one", move || {
            let value = fenced_store_then_load(x, y);
            read.borrow_mut()[0] = value;
        });
        scenario.task("two", move || {
            let value = fenced_store_then_load(y, x);
            other.borrow_mut()[1] = value;
        });
    });
    assert_eq!(found, ["store Relaxed", "fence SeqCst", "load Relaxed"]);
}

#[inline(never)]
fn a_send(data: Word, flag: Word) {
    data.store(1, SEQ_CST);
    flag.store(1, SEQ_CST);
}

#[inline(never)]
fn b_receive(data: Word, flag: Word) {
    if flag.load(SEQ_CST) == 1 {
        claim(data.load(SEQ_CST) == 1, || "the data is missed".into());
    }
}

#[test]
fn message_passing_needs_one_release_and_one_acquire() {
    let found = least(|scenario| {
        let [data, flag] = words(scenario);
        scenario.task("sender", move || a_send(data, flag));
        scenario.task("receiver", move || b_receive(data, flag));
    });
    assert_eq!(
        found,
        [
            "store Relaxed",
            "store Release",
            "load Acquire",
            "load Relaxed"
        ]
    );
}

#[inline(never)]
fn a_write(word: Word) {
    word.store(1, SEQ_CST);
}

#[inline(never)]
fn b_read(one: Word, two: Word) -> u64 {
    let first = one.load(SEQ_CST);
    10 * first + two.load(SEQ_CST)
}

#[inline(never)]
fn b_fenced_read(one: Word, two: Word) -> u64 {
    let first = one.load(RELAXED);
    fence(SEQ_CST);
    10 * first + two.load(RELAXED)
}

fn independent_readers(read: fn(Word, Word) -> u64) -> Vec<String> {
    least(|scenario| {
        let [x, y] = words(scenario);
        let seen = results(scenario, |seen: [u64; 2]| seen != [10, 10]);
        let other = seen.clone();
        scenario.task("x", move || a_write(x));
        scenario.task("y", move || a_write(y));
        scenario.task("xy", move || {
            let values = read(x, y);
            seen.borrow_mut()[0] = values;
        });
        scenario.task("yx", move || {
            let values = read(y, x);
            other.borrow_mut()[1] = values;
        });
    })
}

#[test]
fn independent_readers_need_all_accesses_sequentially_consistent_or_fences() {
    let accesses = ["store SeqCst", "load SeqCst", "load SeqCst"];
    assert_eq!(independent_readers(b_read), accesses);
    assert_eq!(
        independent_readers(b_fenced_read),
        ["store Relaxed", "fence SeqCst"]
    );
}

/// The entry of Dekker's algorithm. Enters if the other has not announced itself, and counts: returns the new count, or 0.
#[inline(never)]
fn count_alone(mine: Word, other: Word, data: Word) -> u64 {
    mine.store(1, SEQ_CST);
    fence(SEQ_CST);
    let mut count = 0;
    if other.load(SEQ_CST) == 0 {
        count = data.load(RELAXED) + 1;
        data.store(count, RELAXED);
    }
    mine.store(0, SEQ_CST);
    count
}

#[test]
fn dekker_needs_its_fence_an_acquire_and_a_release() {
    let found = least(|scenario| {
        let [x, y, data] = words(scenario);
        let counts = results(scenario, |[a, b]: [u64; 2]| a == 0 || a != b);
        let other = counts.clone();
        scenario.task("one", move || {
            let count = count_alone(x, y, data);
            counts.borrow_mut()[0] = count;
        });
        scenario.task("two", move || {
            let count = count_alone(y, x, data);
            other.borrow_mut()[1] = count;
        });
    });
    let expected = [
        "store Relaxed",
        "fence SeqCst",
        "load Acquire",
        "store Release",
    ];
    assert_eq!(found, expected);
}

/// Boehm, "Can seqlocks get along with programming language memory models?" (MSPC 2012), figure 6.
#[inline(never)]
fn a_write_locked(sequence: Word, data: [Word; 2]) {
    sequence.store(1, SEQ_CST);
    fence(SEQ_CST);
    data[0].store(1, RELAXED);
    data[1].store(1, RELAXED);
    sequence.store(2, SEQ_CST);
}

#[inline(never)]
fn b_read_locked(sequence: Word, data: [Word; 2]) {
    let before = sequence.load(SEQ_CST);
    let values = [data[0].load(RELAXED), data[1].load(RELAXED)];
    fence(SEQ_CST);
    let after = sequence.load(SEQ_CST);
    let expected = [before / 2, before / 2];
    claim(
        before % 2 == 1 || before != after || values == expected,
        || format!("{values:?} are torn or old"),
    );
}

#[test]
fn a_seqlock_needs_release_and_acquire_fences_and_the_last_store_and_first_load() {
    let found = least(|scenario| {
        let [sequence, one, two] = words(scenario);
        scenario.task("writer", move || a_write_locked(sequence, [one, two]));
        scenario.task("reader", move || b_read_locked(sequence, [one, two]));
    });
    let writer = ["store Relaxed", "fence Release", "store Release"];
    let reader = ["load Acquire", "fence Acquire", "load Relaxed"];
    assert_eq!(found, [writer, reader].concat());
}

/// Mellor-Crummey and Scott, "Algorithms for scalable synchronization" (TOCS 1991), as in Linux' ticket spinlock.
#[inline(never)]
fn with_ticket(next: Word, owner: Word, data: Word) {
    let ticket = next.add(1, SEQ_CST);
    while owner.load(SEQ_CST) != ticket {}
    let count = data.load(RELAXED);
    claim(count == ticket, || {
        format!("holder {ticket} sees {count} increments")
    });
    data.store(count + 1, RELAXED);
    owner.store(ticket + 1, SEQ_CST);
}

#[test]
fn a_ticket_lock_needs_an_acquire_and_a_release_and_takes_tickets_relaxed() {
    let found = least(|scenario| {
        let [next, owner, data] = words(scenario);
        for name in ["one", "two"] {
            scenario.task(name, move || with_ticket(next, owner, data));
        }
    });
    assert_eq!(found, ["update Relaxed", "load Acquire", "store Release"]);
}
