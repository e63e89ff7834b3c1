//! Order mutants: a store moved past a later access, in code that reaches the checker like instrumented code.

use vmbell_check::{Explorer, Model, Mutant, Scenario, Weakening, claim};

use crate::hooked::{ACQUIRE, RELAXED, RELEASE, SEQ_CST, Word, fence};

fn weaken(set_up: impl FnMut(&mut Scenario)) -> Weakening {
    let weakening = Explorer::new().weaken(set_up);
    weakening.expect("it is complete and clean")
}

fn words<const N: usize>(scenario: &Scenario) -> [Word; N] {
    std::array::from_fn(|at| Word::new(scenario.memory(), 8 * at))
}

/// One line for each mutant: the functions of its two accesses, without the wrappers of the hooks, and its outcome
/// under each model.
fn lines(weakening: &Weakening) -> Vec<String> {
    let name = |function: &str| {
        let caller = function.split(" in ").nth(1).unwrap_or_default();
        caller.split(':').next().unwrap_or_default().to_string()
    };
    let line = |mutant: &Mutant| {
        let (store, past) = (name(&mutant.store.function), name(&mutant.past.function));
        let outcomes = mutant.outcomes.iter();
        let outcomes: Vec<_> = outcomes.map(|(_, outcome)| outcome.in_words()).collect();
        format!(
            "{store} past {} {past}: {}",
            mutant.operation,
            outcomes.join(", ")
        )
    };
    let mut lines: Vec<String> = weakening.mutants.iter().map(line).collect();
    lines.sort();
    lines
}

/// Each function stores a different value, because the linker merges functions with the same code.
#[inline(never)]
fn message(x: Word) {
    x.store(1, RELAXED);
}

#[inline(never)]
fn flag(y: Word) {
    y.store(2, RELEASE);
}

#[inline(never)]
fn receive(x: Word, y: Word) {
    let flag = y.load(ACQUIRE);
    let message = x.load(RELAXED);
    claim(flag == 0 || message != 0, || "the message is missed".into());
}

#[test]
fn a_store_past_the_one_that_publishes_it_fails_under_every_model_with_one_trace() {
    let weakening = weaken(|scenario| {
        let [x, y] = words(scenario);
        scenario.task("sender", move || {
            message(x);
            flag(y);
        });
        scenario.task("receiver", move || receive(x, y));
    });
    assert_eq!(
        lines(&weakening),
        ["message past store flag: found, found, found"]
    );
    let trace = weakening.mutants[0].to_string();
    assert!(trace.contains("under SC: the message is missed"), "{trace}");
    assert!(!trace.contains("under TSO"), "{trace}");
    assert!(weakening.to_string().contains("moved past"), "{weakening}");
}

/// Includes all stores since the last store that publishes, however many there are, such as the stores to an indirect
/// table.
#[test]
fn a_store_is_moved_past_the_next_store_and_past_the_one_that_publishes() {
    #[inline(never)]
    fn table(word: Word) {
        word.store(3, RELAXED);
    }
    let weakening = weaken(|scenario| {
        let [x, y, z] = words(scenario);
        scenario.task("sender", move || {
            table(z);
            message(x);
            flag(y);
        });
        scenario.task("receiver", move || {
            receive(x, y);
            receive(z, y);
        });
    });
    let expected = [
        "message past store flag: found, found, found",
        // The compiler may reorder these two relaxed stores anyway.
        "table past store flag: found, found, found",
        "table past store message: not found, not found, not found",
    ];
    assert_eq!(lines(&weakening), expected);
}

#[test]
fn a_store_after_a_release_fence_publishes() {
    #[inline(never)]
    fn relaxed_flag(y: Word) {
        y.store(5, RELAXED);
    }
    let weakening = weaken(|scenario| {
        let [x, y] = words(scenario);
        scenario.task("sender", move || {
            message(x);
            fence(RELEASE);
            relaxed_flag(y);
        });
        scenario.task("receiver", move || receive(x, y));
    });
    assert_eq!(
        lines(&weakening),
        ["message past store relaxed_flag: found, found, found"]
    );
}

#[inline(never)]
fn look(other: Word) -> u64 {
    other.load(RELAXED)
}

#[test]
fn a_store_is_moved_past_the_load_after_a_fence() {
    let both_see_nothing = |has_fence: bool| {
        let weakening = Explorer::new().models([Model::Sc]).weaken(|scenario| {
            let [x, y, seen] = words(scenario);
            for (name, mine, other) in [("one", x, y), ("two", y, x)] {
                scenario.task(name, move || {
                    message(mine);
                    if has_fence {
                        fence(SEQ_CST);
                    }
                    if look(other) == 0 {
                        let others = seen.add(1, RELAXED);
                        claim(others == 0, || "both see nothing".into());
                    }
                });
            }
        });
        lines(&weakening.expect("it is complete and clean"))
    };
    assert_eq!(both_see_nothing(true), ["message past load look: found"]);
    assert!(both_see_nothing(false).is_empty());
}

/// On the path without its partner, the store stays where it is: before the flag.
#[test]
fn a_store_stays_in_its_place_on_a_path_without_its_partner() {
    #[inline(never)]
    fn unseen(word: Word) {
        word.store(4, RELEASE);
    }
    let weakening = weaken(|scenario| {
        let [x, y, z, switch] = words(scenario);
        scenario.task("sender", move || {
            let is_on = look(switch) == 1;
            message(x);
            if is_on {
                unseen(z);
            }
            flag(y);
        });
        scenario.task("receiver", move || receive(x, y));
        scenario.task("other", move || switch.store(1, RELAXED));
    });
    let expected = [
        "message past store flag: found, found, found",
        "message past store unseen: not found, not found, not found",
        "unseen past store flag: not found, not found, not found",
    ];
    assert_eq!(lines(&weakening), expected);
}

/// Until the receiver answers the message, the sender does not reach the store that the mutant exchanges.
#[test]
fn a_store_that_a_spinning_task_waits_for_an_answer_to_is_not_held() {
    #[inline(never)]
    fn answer(word: Word) {
        word.store(6, RELEASE);
    }
    let weakening = weaken(|scenario| {
        let [x, y, z] = words(scenario);
        scenario.task("sender", move || {
            message(x);
            while z.load(ACQUIRE) == 0 {}
            flag(y);
        });
        scenario.task("receiver", move || {
            while x.load(ACQUIRE) == 0 {}
            answer(z);
        });
    });
    assert_eq!(
        lines(&weakening),
        ["message past store flag: not found, not found, not found"]
    );
}

#[test]
fn a_held_store_is_seen_by_its_own_task_and_before_a_notification() {
    let weakening = weaken(|scenario| {
        let [x, y] = words(scenario);
        let sleeper = scenario.sleeper("receiver", &["bell"]);
        let bell = sleeper.bell(0);
        scenario.task("sender", move || {
            message(x);
            claim(x.load(RELAXED) == 1, || "its own store is missed".into());
            bell.signal();
            flag(y);
        });
        scenario.task("receiver", move || {
            sleeper.wait();
            claim(x.load(RELAXED) == 1, || "the message is missed".into());
        });
    });
    // A notification publishes as well, and no publishing store follows it.
    assert!(lines(&weakening).is_empty(), "{weakening}");
}

#[test]
fn a_mutant_that_only_one_model_reaches_is_named_for_that_model() {
    let weakening = weaken(|scenario| {
        let [x, y, z] = words(scenario);
        scenario.task("sender", move || {
            x.store(1, RELAXED);
            y.store(1, RELAXED);
        });
        scenario.task("receiver", move || {
            if y.load(RELAXED) == 1 && x.load(RELAXED) == 0 {
                message(z);
                flag(y);
            }
        });
    });
    let rare = "message past store flag: not reached, not reached, not found";
    assert!(lines(&weakening).contains(&rare.to_string()), "{weakening}");
}

#[test]
fn a_limit_is_not_counted_as_not_found() {
    let set_up = |scenario: &mut Scenario| {
        let [x, y] = words(scenario);
        scenario.task("sender", move || {
            message(x);
            flag(y);
        });
        scenario.task("receiver", move || {
            y.load(ACQUIRE);
            x.load(ACQUIRE);
        });
    };
    let explorer = || Explorer::new().models([Model::Rc11]);
    let report = explorer().run(set_up).expect("it can be explored");
    let all = report.verdicts[0].executions();
    let limited = explorer().executions(all).weaken(set_up);
    let limited = limited.expect("it is clean");
    assert_eq!(lines(&limited), ["message past store flag: limit"]);
}
