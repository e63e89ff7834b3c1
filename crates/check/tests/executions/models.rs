//! Compares the search with a reference that enumerates every graph and tests the axioms literally.

use std::cell::RefCell;
use std::rc::Rc;

use proptest::prelude::*;
use vmbell_check::{Explorer, Memory, Model, Order, fence};

use reference::{Op, Program, graphs};

/// The value that identifies the write of step `index` of a thread. An addition adds it to the old value.
fn unique(thread: usize, index: usize) -> u64 {
    1 << (8 * thread + index)
}

fn step(memory: Memory, op: Op, value: u64) -> Option<u64> {
    match op {
        Op::Load(place, order) => Some(memory.load(8 * usize::from(place), 8, order)),
        Op::Store(place, order) => {
            memory.store(8 * usize::from(place), 8, value, order);
            None
        }
        Op::Add(place, order) => {
            Some(memory.update(8 * usize::from(place), 8, order, |old| Some(old | value)))
        }
        Op::Compare(place, orders) => {
            Some(memory.compare_exchange(8 * usize::from(place), 8, orders, 0, value))
        }
        Op::Fence(order) => {
            fence(order);
            None
        }
    }
}

/// What the reads of each execution of the program read, sorted: one entry for each graph.
fn explored(program: &Program, model: Model) -> Vec<Vec<u64>> {
    let found = Rc::new(RefCell::new(Vec::new()));
    let report = Explorer::new()
        .models([model])
        .run(|scenario| {
            let read = Rc::new(RefCell::new(vec![Vec::new(); program.len()]));
            for (thread, ops) in program.iter().cloned().enumerate() {
                let (memory, read) = (scenario.memory(), read.clone());
                scenario.task(&format!("thread {thread}"), move || {
                    for (index, &op) in ops.iter().enumerate() {
                        if let Some(value) = step(memory, op, unique(thread, index)) {
                            read.borrow_mut()[thread].push(value);
                        }
                    }
                });
            }
            let found = found.clone();
            scenario.at_end(move || {
                found.borrow_mut().push(read.borrow().concat());
                Ok(())
            });
        })
        .expect("it can be explored");
    assert!(report.verdicts[0].complete, "the search ends");
    let mut found = found.take();
    found.sort();
    found
}

/// Returns the results of the program according to the reference.
fn expected(program: &Program, model: Model) -> Vec<Vec<u64>> {
    let mut all: Vec<Vec<u64>> = graphs(program, model)
        .into_iter()
        .map(|sources| {
            // The values of additions follow from their sources.
            let reads: Vec<(usize, usize)> = program
                .iter()
                .enumerate()
                .flat_map(|(thread, ops)| {
                    ops.iter()
                        .enumerate()
                        .map(move |(index, op)| (thread, index, *op))
                })
                .filter(|(_, _, op)| op.reads())
                .map(|(thread, index, _)| (thread, index))
                .collect();
            let value = |source: Option<(usize, usize)>| {
                let (mut source, mut value) = (source, 0);
                while let Some((thread, index)) = source {
                    value |= unique(thread, index);
                    source = match program[thread][index] {
                        Op::Add(..) => {
                            let at = reads
                                .iter()
                                .position(|&read| read == (thread, index))
                                .expect("an addition reads");
                            sources[at]
                        }
                        _ => None,
                    };
                }
                value
            };
            sources.iter().map(|&source| value(source)).collect()
        })
        .collect();
    all.sort();
    all
}

fn order_of_load() -> impl Strategy<Value = Order> {
    prop_oneof![4 => Just(Order::Relaxed), 3 => Just(Order::Acquire), 1 => Just(Order::SeqCst)]
}

fn order_of_store() -> impl Strategy<Value = Order> {
    prop_oneof![4 => Just(Order::Relaxed), 3 => Just(Order::Release), 1 => Just(Order::SeqCst)]
}

fn order_of_update() -> impl Strategy<Value = Order> {
    prop_oneof![
        3 => Just(Order::Relaxed),
        2 => Just(Order::Acquire),
        2 => Just(Order::Release),
        2 => Just(Order::AcqRel),
        1 => Just(Order::SeqCst),
    ]
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        4 => (0..2_u8, order_of_load()).prop_map(|(place, order)| Op::Load(place, order)),
        4 => (0..2_u8, order_of_store()).prop_map(|(place, order)| Op::Store(place, order)),
        2 => (0..2_u8, order_of_update()).prop_map(|(place, order)| Op::Add(place, order)),
        2 => (0..2_u8, order_of_update(), order_of_load())
            .prop_map(|(place, success, failure)| Op::Compare(place, [success, failure])),
        2 => prop_oneof![3 => Just(Order::SeqCst), 1 => Just(Order::Acquire), 1 => Just(Order::Release)]
            .prop_map(Op::Fence),
    ]
}

fn program() -> impl Strategy<Value = Program> {
    prop_oneof![
        prop::collection::vec(prop::collection::vec(op(), 1..=4), 2),
        prop::collection::vec(prop::collection::vec(op(), 1..=3), 3),
    ]
    .prop_filter("the reference enumerates all of it", |program| {
        let ops = || program.iter().flatten();
        let writes = ops()
            .filter(|op| matches!(op, Op::Store(..) | Op::Add(..) | Op::Compare(..)))
            .count();
        let reads = ops().filter(|op| op.reads()).count();
        writes <= 5 && reads <= 5
    })
}

/// A test for each model, so that they run at the same time.
macro_rules! graphs_are_explored_once {
    ($($name:ident: $model:expr),*) => {
        proptest! {
            #![proptest_config(crate::config())]
            $(
                #[test]
                fn $name(program in program()) {
                    prop_assert_eq!(explored(&program, $model), expected(&program, $model));
                }
            )*
        }
    };
}

graphs_are_explored_once! {
    every_graph_that_sequential_consistency_allows_is_explored_once: Model::Sc,
    every_graph_that_tso_allows_is_explored_once: Model::Tso,
    every_graph_that_rc11_allows_is_explored_once: Model::Rc11
}
