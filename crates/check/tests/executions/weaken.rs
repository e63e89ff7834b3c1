//! Weaker orders of code that reaches the checker like instrumented code: what is needed, and what is said about it.
#![allow(unsafe_code)]

use std::cell::Cell;
use std::process::Command;
use std::ptr;
use std::rc::Rc;

use vmbell_check::{
    Effect, Error, Explorer, Model, Mutant, Operation, Order, Owner, Scenario, Site, Weakening,
    claim,
};

use crate::hooked::{
    __tsan_atomic64_store, ACQ_REL, ACQUIRE, RELAXED, RELEASE, SEQ_CST, Word, fence,
};
use crate::{atomic_of_core, sync_of_alloc};

/// The sites with their effects under the last model and their orders together, in one line each.
fn lines(weakening: &Weakening) -> Vec<String> {
    let least = weakening.minimal.orders.iter();
    let lines = weakening.sites.iter().zip(least).map(|(site, least)| {
        let (_, effect) = site.effects.last().expect("a model");
        let caller = site
            .source
            .function
            .split(" in ")
            .nth(1)
            .unwrap_or_default();
        let thread = caller.split(':').next().unwrap_or_default();
        let (operation, order) = (site.operation, site.order);
        format!(
            "{thread}: {operation} {order:?} {}, {least:?}",
            effect.in_words(order)
        )
    });
    let mut lines: Vec<String> = lines.collect();
    lines.sort();
    lines
}

const X: usize = 0;
const Y: usize = 8;

#[inline(never)]
fn send(x: Word, y: Word) {
    x.store(1, RELAXED);
    y.store(1, SEQ_CST);
}

#[inline(never)]
fn receive(x: Word, y: Word) {
    let flag = y.load(ACQUIRE);
    let message = x.load(RELAXED);
    claim(flag == 0 || message == 1, || "the message is missed".into());
}

fn message_passing(scenario: &mut Scenario) {
    let [x, y] = [X, Y].map(|at| Word::new(scenario.memory(), at));
    scenario.task("sender", move || send(x, y));
    scenario.task("receiver", move || receive(x, y));
}

fn weaken(set_up: impl FnMut(&mut Scenario)) -> Weakening {
    let weakening = Explorer::new().weaken(set_up);
    weakening.expect("it is complete and clean")
}

#[test]
fn an_order_is_weakened_step_by_step_and_a_needed_one_has_the_trace_that_breaks() {
    let weakening = weaken(message_passing);
    let expected = [
        "receive: load Acquire needed, Acquire",
        "send: store SeqCst Release is enough, Release",
    ];
    assert_eq!(lines(&weakening), expected);
    assert!(weakening.minimal.is_minimal);
    let site = &weakening.sites[0];
    assert!(
        site.source.file.ends_with("tests/executions/hooked.rs"),
        "{site:?}"
    );
    let trace = weakening
        .sites
        .iter()
        .map(Site::to_string)
        .collect::<String>();
    assert!(
        trace.contains("load Relaxed under RC11: the message is missed"),
        "{trace}"
    );
    assert!(trace.contains("(does not see the newer store)"), "{trace}");
}

#[test]
fn two_runs_have_the_same_result() {
    let text = || {
        let weakening = weaken(message_passing);
        let traces: String = weakening.sites.iter().map(Site::to_string).collect();
        let moved: String = weakening.mutants.iter().map(Mutant::to_string).collect();
        assert!(moved.contains("under SC: the message is missed"), "{moved}");
        format!(
            "{weakening}{traces}{moved}{} {}",
            weakening.explorations, weakening.executions
        )
    };
    assert_eq!(text(), text());
}

#[test]
fn models_that_know_no_such_order_are_not_explored() {
    let explorer = Explorer::new().models([Model::Sc, Model::Tso]);
    let weakening = explorer.weaken(message_passing).expect("it is clean");
    let load = weakening
        .sites
        .iter()
        .find(|site| site.operation == Operation::Load);
    let effects = &load.expect("it is met").effects;
    assert!(
        effects
            .iter()
            .all(|(_, effect)| matches!(effect, Effect::NoDifference))
    );
    // Under TSO only the store can be weakened, from sequentially consistent. The mutant fails under SC.
    assert_eq!(
        weakening.explorations, 3,
        "one alone, all together, and a mutant"
    );
}

#[test]
fn a_scenario_that_fails_as_it_is_is_refused_with_its_trace() {
    let refused = Explorer::new().weaken(|scenario| {
        let [x, y] = [X, Y].map(|at| Word::new(scenario.memory(), at));
        scenario.task("sender", move || {
            x.store(1, RELAXED);
            y.store(1, RELAXED);
        });
        scenario.task("receiver", move || receive(x, y));
    });
    let Err(Error::NotClean { report }) = refused else {
        panic!("{refused:?}");
    };
    assert!(report.contains("the message is missed"), "{report}");
    assert!(report.contains("receiver: load"), "{report}");
}

#[test]
fn a_scenario_that_is_not_explored_completely_is_refused() {
    let refused = Explorer::new().executions(1).weaken(message_passing);
    assert!(
        matches!(refused, Err(Error::NotClean { .. })),
        "{refused:?}"
    );
}

#[test]
fn a_scenario_with_guarded_data_is_refused() {
    let refused = Explorer::new().with_guarded_data().weaken(message_passing);
    assert!(matches!(refused, Err(Error::GuardedData)), "{refused:?}");
}

#[test]
fn after_a_crash_all_that_is_not_explored_yet_is_a_limit() {
    let weakening = weaken(|scenario| {
        let [x, y] = [X, Y].map(|at| Word::new(scenario.memory(), at));
        scenario.task("sender", move || send(x, y));
        scenario.task("receiver", move || {
            if y.load(ACQUIRE) == 1 && x.load(RELAXED) == 0 {
                // SAFETY: none: it reads an unmapped address on purpose.
                unsafe { ptr::without_provenance::<u16>(0x18).read_volatile() };
            }
        });
    });
    let effects = weakening.sites.iter().map(|site| {
        let (_, effect) = site.effects.last().expect("a model");
        (site.operation, effect.in_words(site.order))
    });
    let expected = [
        (Operation::Load, "needed".to_string()),
        (Operation::Store, "limit at Release".to_string()),
    ];
    assert_eq!(effects.collect::<Vec<_>>(), expected);
    assert!(!weakening.minimal.is_minimal);
    assert_eq!(weakening.explorations, 1);
}

#[test]
fn an_error_with_a_weaker_order_names_the_site() {
    let failed = Explorer::new().weaken(|scenario| {
        let [x, y] = [X, Y].map(|at| Word::new(scenario.memory(), at));
        scenario.task("sender", move || send(x, y));
        scenario.task("receiver", move || {
            if y.load(ACQUIRE) == 1 && x.load(RELAXED) == 0 {
                // SAFETY: the word is mapped. No hook announces this load.
                unsafe { x.pointer().read_volatile() };
                x.load(RELAXED);
            }
        });
    });
    let Err(Error::Changed {
        model,
        changes,
        source,
    }) = failed
    else {
        panic!("{failed:?}");
    };
    assert_eq!(model, Model::Rc11);
    assert!(changes.starts_with("load Relaxed at "), "{changes}");
    assert!(matches!(*source, Error::Unhooked { .. }), "{source:?}");
}

#[test]
fn a_scenario_that_depends_on_more_than_it_reads_is_an_error() {
    let set_ups = Cell::new(0);
    let failed = Explorer::new().models([Model::Rc11]).weaken(|scenario| {
        set_ups.set(set_ups.get() + 1);
        let is_late = set_ups.get() % 2 == 0;
        let [x, y] = [X, Y].map(|at| Word::new(scenario.memory(), at));
        scenario.task("sender", move || send(x, y));
        scenario.task("receiver", move || {
            if is_late {
                y.load(RELAXED);
            }
            receive(x, y);
        });
    });
    let source = match failed {
        Err(Error::Changed { source, .. }) => *source,
        Err(error) => error,
        Ok(weakening) => panic!("{weakening}"),
    };
    assert!(matches!(source, Error::Diverged { .. }), "{source:?}");
}

/// Either the acquire or the release of the addition is enough. Without the release of the preceding store, only the
/// addition's release helps.
#[test]
fn together_each_half_of_an_order_is_tried() {
    let weakening = Explorer::new()
        .models([Model::Rc11])
        .weaken(|scenario| {
            let [a, b, c] = [X, Y, 16].map(|at| Word::new(scenario.memory(), at));
            let missed = Rc::new([Cell::new(false), Cell::new(false)]);
            scenario.task("first", move || {
                a.store(1, RELAXED);
                b.store(1, RELEASE);
            });
            let of_second = missed.clone();
            scenario.task("second", move || {
                c.store(1, RELAXED);
                let found = b.add(2, ACQ_REL);
                of_second[0].set(a.load(RELAXED) == 0 && found == 1);
            });
            let of_third = missed.clone();
            scenario.task("third", move || {
                let found = b.load(RELAXED);
                fence(ACQUIRE);
                of_third[1].set(c.load(RELAXED) == 0 && found == 3);
            });
            scenario.at_end(move || match missed.iter().all(Cell::get) {
                true => Err("both are missed".to_string()),
                false => Ok(()),
            });
        })
        .expect("it is complete and clean");
    let orders = weakening.sites.iter().zip(&weakening.minimal.orders);
    let orders: Vec<_> = orders
        .map(|(site, order)| {
            let (_, effect) = &site.effects[0];
            (site.operation, effect.in_words(site.order), *order)
        })
        .collect();
    let expected = [
        (Operation::Store, "not needed".into(), Order::Relaxed),
        (
            Operation::Update,
            "Acquire is enough".into(),
            Order::Release,
        ),
        (Operation::Fence, "not needed".into(), Order::Acquire),
    ];
    assert_eq!(orders, expected);
    assert!(weakening.minimal.is_minimal);
}

/// Nothing is claimed, but weaker orders have more executions.
#[test]
fn an_exploration_that_a_limit_ends_is_not_counted_as_not_needed() {
    let explorer = || Explorer::new().models([Model::Rc11]);
    let set_up = |scenario: &mut Scenario| {
        let [x, y] = [X, Y].map(|at| Word::new(scenario.memory(), at));
        scenario.task("sender", move || {
            x.store(1, RELAXED);
            y.store(1, RELEASE);
        });
        scenario.task("receiver", move || {
            y.load(ACQUIRE);
            x.load(RELAXED);
        });
    };
    let free = explorer().weaken(set_up).expect("it is clean");
    assert!(
        free.minimal
            .orders
            .iter()
            .all(|&order| order == Order::Relaxed)
    );
    let report = explorer().run(set_up).expect("it can be explored");
    let all = report.verdicts[0].executions();
    let limited = explorer()
        .executions(all)
        .weaken(set_up)
        .expect("it is clean");
    for site in &limited.sites {
        let (_, effect) = &site.effects[0];
        assert_eq!(effect.in_words(site.order), "limit at Relaxed");
    }
    assert!(!limited.minimal.is_minimal);
    assert_ne!(limited.minimal.orders, free.minimal.orders);
}

/// The receiver reaches its second load only if it misses the message.
#[test]
fn a_site_that_one_model_does_not_reach_is_named_for_that_model() {
    let weakening = weaken(|scenario| {
        let [x, y] = [X, Y].map(|at| Word::new(scenario.memory(), at));
        scenario.task("sender", move || {
            x.store(1, RELAXED);
            y.store(1, RELAXED);
        });
        scenario.task("receiver", move || {
            if y.load(RELAXED) == 1 && x.load(RELAXED) == 0 {
                x.load(ACQUIRE);
            }
        });
    });
    let [site] = &*weakening.sites else {
        panic!("{weakening}")
    };
    let words = site
        .effects
        .iter()
        .map(|(_, effect)| effect.in_words(site.order));
    let words: Vec<String> = words.collect();
    assert_eq!(words, ["not reached", "not reached", "not needed"]);
}

#[test]
fn one_line_is_weakened_alone() {
    let all = weaken(message_passing);
    let line = all.sites[0].source.line;
    let only = Explorer::new().only_at("executions/hooked.rs", line);
    let one = only.weaken(message_passing).expect("it is clean");
    assert_eq!(one.sites.len(), 1);
    assert_eq!(one.sites[0].source.place(), all.sites[0].source.place());
    let none = Explorer::new().only_at("other.rs", line);
    assert!(
        none.weaken(message_passing)
            .expect("it is clean")
            .sites
            .is_empty()
    );
}

/// A lock taken with a compare-exchange. Only the task that gets the lock reads the data.
#[test]
fn both_orders_of_a_compare_exchange_are_sites() {
    let weakening = weaken(|scenario| {
        let [data, lock] = [X, Y].map(|at| Word::new(scenario.memory(), at));
        scenario.task("first", move || {
            data.store(1, RELAXED);
            lock.store(1, RELEASE);
        });
        scenario.task("second", move || {
            if lock.compare_exchange(1, 2, [SEQ_CST, SEQ_CST]) {
                claim(data.load(RELAXED) == 1, || "the data is missed".into());
            }
        });
    });
    let words = |operation| {
        let site = weakening
            .sites
            .iter()
            .find(|site| site.operation == operation);
        let site = site.expect("it is met");
        let words = site
            .effects
            .iter()
            .map(|(_, effect)| effect.in_words(site.order));
        words.collect::<Vec<_>>()
    };
    let none = "no difference";
    assert_eq!(words(Operation::Success), [none, none, "Acquire is enough"]);
    assert_eq!(words(Operation::Failure), [none, none, "not needed"]);
}

#[test]
fn an_order_of_a_compare_exchange_that_is_never_used_is_not_a_site() {
    let operations = |expected: u64| {
        let weakening = weaken(|scenario| {
            let lock = Word::new(scenario.memory(), X);
            scenario.task("only", move || {
                lock.compare_exchange(expected, 1, [ACQUIRE, ACQUIRE]);
            });
        });
        let operations = weakening.sites.iter().map(|site| site.operation);
        operations.collect::<Vec<_>>()
    };
    assert_eq!(operations(0), [Operation::Success]);
    assert_eq!(operations(7), [Operation::Failure]);
}

#[test]
fn the_scenarios_own_code_is_named() {
    let weakening = weaken(|scenario| {
        let y = Word::new(scenario.memory(), Y);
        scenario.task("own", move || {
            // SAFETY: the word is in the shared memory, which is mapped while the task runs.
            unsafe { __tsan_atomic64_store(y.pointer(), 1, RELEASE) };
            y.load(RELAXED);
        });
        scenario.task("other", move || y.store(2, RELEASE));
    });
    let owners = weakening.sites.iter().map(|site| site.source.owner.clone());
    assert_eq!(
        owners.collect::<Vec<_>>(),
        [Owner::Tested, Owner::Scenario],
        "hooked.rs, weaken.rs"
    );
    assert!(weakening.to_string().contains("(scenario)"), "{weakening}");
}

#[test]
fn an_order_of_the_standard_library_is_named_where_its_atomics_are_not_inlined() {
    let weakening = weaken(|scenario| {
        let y = Word::new(scenario.memory(), Y);
        scenario.task("own", move || {
            sync_of_alloc::drop();
            atomic_of_core::fence(ACQUIRE);
            y.load(RELAXED);
        });
    });
    let owners = weakening.sites.iter().map(|site| site.source.owner.clone());
    let standard = Owner::Standard("Arc::drop".to_string());
    assert_eq!(owners.collect::<Vec<_>>(), [standard, Owner::Scenario]);
}

/// The caller's file is relative to its package, and a file of another package may end with it.
#[test]
fn a_file_of_another_package_is_not_the_scenario() {
    let program = std::env::current_exe().expect("this program");
    let output = Command::new(program)
        .args(["--exact", "weaken::the_scenarios_own_code_is_named"])
        .env("CARGO_MANIFEST_DIR", "/another/package")
        .output()
        .expect("the program starts");
    let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert!(text.contains("left: [Tested, Tested]"), "{text}");
}

/// What `cargo vmbell-check test --weaken` finds after a test. The test is also the program that leaves the records.
#[test]
fn each_exploration_of_a_session_leaves_a_record() {
    const CHILD: &str = "VMBELL_CHECK_TEST_WEAKEN";
    if std::env::var_os(CHILD).is_some() {
        let clean = Explorer::new()
            .run(message_passing)
            .expect("it can be explored");
        clean.assert_no_failure().assert_complete();
        let fails = Explorer::new().run(|scenario| {
            scenario.task("driver", || claim(false, || "it never holds".into()));
        });
        assert!(fails.expect("it can be explored").failure().is_some());
        let guarded = Explorer::new().with_guarded_data().run(message_passing);
        let guarded = guarded.expect("it can be explored");
        guarded.assert_no_failure().assert_complete();
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let program = std::env::current_exe().expect("this program");
    let test = "weaken::each_exploration_of_a_session_leaves_a_record";
    let status = Command::new(program)
        .args(["--exact", test])
        .env(CHILD, "1")
        .env("VMBELL_CHECK_WEAKEN", folder.path())
        .env("VMBELL_CHECK_WEAKEN_BOUND", "1000")
        .output()
        .expect("the program starts");
    assert!(status.status.success(), "{status:?}");
    let mut records: Vec<String> = std::fs::read_dir(folder.path())
        .expect("the folder is there")
        .map(|file| std::fs::read_to_string(file.expect("a file").path()).expect("a record"))
        .collect();
    let refusals = ["never holds", "with_guarded_data"];
    records.sort_by_key(|record| refusals.map(|text| record.contains(text)));
    let [clean, guarded, refused] = &*records else {
        panic!("{records:?}")
    };
    let values = [
        "\"version\":2",
        "\"RC11\":{\"breaks\":[{",
        "\"least\":\"Release\"",
        "(does not see the newer store)",
        "\"program\":\"executions\"",
        "\"unchanged\":[{\"executions\":3,\"model\":\"SC\"}",
        "weaken::each_exploration_of_a_session_leaves_a_record",
    ];
    for value in values {
        assert!(clean.contains(value), "{value} in {clean}");
    }
    assert!(
        guarded.contains("\"refused\":\"it shares memory"),
        "{guarded}"
    );
    assert!(refused.contains("it never holds"), "{refused}");
}
