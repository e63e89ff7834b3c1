//! Compares the search with an abstract machine with store buffers, which takes every step in every order.
//!
//! The machine shares nothing with the axioms: it has one memory of bytes, a store buffer for each thread (which SC
//! does not use), and bells. Accesses of several sizes overlap.

use std::cell::RefCell;
use std::collections::{BTreeSet, HashSet};
use std::rc::Rc;

use proptest::prelude::*;
use vmbell_check::{Explorer, Memory, Model, Order, Sleeper, fence};

/// One step of a thread. Places are byte offsets, and sizes are in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Op {
    Load(usize, u8),
    Store(usize, u8),
    /// Exchanges the value for another, in one step.
    Swap(usize, u8),
    Fence,
    /// Signals the thread with this number.
    Signal(usize),
    /// Sleeps until the thread is signalled.
    Wait,
    /// Takes a signal without sleeping.
    Poll,
}

type Program = Vec<Vec<Op>>;

/// What each thread read, and whether it finished.
type Outcome = Vec<(Vec<u64>, bool)>;

/// A value with a distinct byte for each store and byte.
fn stored(thread: usize, index: usize, size: u8) -> u64 {
    let byte = u64::try_from(16 * (thread + 1) + index + 1).expect("it is small");
    (0..u32::from(size)).fold(0, |value, _| value << 8 | byte)
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Thread {
    next: usize,
    /// Stores that are not in memory yet: place, size and value.
    buffer: Vec<(usize, u8, u64)>,
    read: Vec<u64>,
    signalled: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Machine {
    memory: [u8; 8],
    threads: Vec<Thread>,
}

impl Machine {
    fn put(&mut self, (place, size, value): (usize, u8, u64)) {
        let size = usize::from(size);
        self.memory[place..place + size].copy_from_slice(&value.to_le_bytes()[..size]);
    }

    /// What a thread sees: memory, overwritten by the thread's own buffered stores.
    fn view(&self, thread: usize) -> [u8; 8] {
        let mut seen = self.clone();
        for &store in &self.threads[thread].buffer {
            seen.put(store);
        }
        seen.memory
    }

    fn get(memory: [u8; 8], place: usize, size: u8) -> u64 {
        let mut bytes = [0; 8];
        bytes[..usize::from(size)].copy_from_slice(&memory[place..place + usize::from(size)]);
        u64::from_le_bytes(bytes)
    }

    /// Returns the machine after the thread's next step, if the thread can take it.
    fn step(&self, program: &Program, thread: usize, model: Model) -> Option<Machine> {
        let mut after = self.clone();
        let index = self.threads[thread].next;
        let op = *program[thread].get(index)?;
        let drained = self.threads[thread].buffer.is_empty();
        after.threads[thread].next += 1;
        match op {
            Op::Load(place, size) => {
                let value = Machine::get(self.view(thread), place, size);
                after.threads[thread].read.push(value);
            }
            Op::Store(place, size) => {
                let store = (place, size, stored(thread, index, size));
                if model == Model::Sc {
                    after.put(store);
                } else {
                    after.threads[thread].buffer.push(store);
                }
            }
            _ if !drained => return None,
            Op::Swap(place, size) => {
                after.threads[thread]
                    .read
                    .push(Machine::get(self.memory, place, size));
                after.put((place, size, stored(thread, index, size)));
            }
            Op::Fence => {}
            Op::Signal(other) => after.threads[other].signalled = true,
            Op::Wait if !self.threads[thread].signalled => return None,
            Op::Wait => after.threads[thread].signalled = false,
            Op::Poll => {
                let signalled = self.threads[thread].signalled;
                after.threads[thread].read.push(u64::from(signalled));
                after.threads[thread].signalled = false;
            }
        }
        Some(after)
    }
}

/// All outcomes that are possible on the machine.
fn expected(program: &Program, model: Model) -> BTreeSet<Outcome> {
    let thread = Thread {
        next: 0,
        buffer: Vec::new(),
        read: Vec::new(),
        signalled: false,
    };
    let start = Machine {
        memory: [0; 8],
        threads: vec![thread; program.len()],
    };
    let mut found = BTreeSet::new();
    let mut seen = HashSet::from([start.clone()]);
    let mut left = vec![start];
    while let Some(machine) = left.pop() {
        let mut next = Vec::new();
        for thread in 0..program.len() {
            next.extend(machine.step(program, thread, model));
            if let Some(&store) = machine.threads[thread].buffer.first() {
                let mut after = machine.clone();
                after.put(store);
                after.threads[thread].buffer.remove(0);
                next.push(after);
            }
        }
        if next.is_empty() {
            let threads = machine.threads.iter().zip(program);
            found.insert(
                threads
                    .map(|(thread, ops)| (thread.read.clone(), thread.next == ops.len()))
                    .collect(),
            );
        }
        left.extend(next.into_iter().filter(|after| seen.insert(after.clone())));
    }
    found
}

fn run(memory: Memory, sleepers: &[Sleeper], thread: usize, ops: &[Op], read: &RefCell<Outcome>) {
    let push = |value| read.borrow_mut()[thread].0.push(value);
    for (index, &op) in ops.iter().enumerate() {
        match op {
            Op::Load(place, size) => push(memory.load(place, size, Order::Relaxed)),
            Op::Store(place, size) => {
                memory.store(place, size, stored(thread, index, size), Order::Relaxed);
            }
            Op::Swap(place, size) => {
                let new = stored(thread, index, size);
                push(memory.update(place, size, Order::Relaxed, |_| Some(new)));
            }
            Op::Fence => fence(Order::SeqCst),
            Op::Signal(other) => sleepers[other].bell(0).signal(),
            Op::Wait => {
                sleepers[thread].wait();
            }
            Op::Poll => push(sleepers[thread].poll().into()),
        }
    }
    read.borrow_mut()[thread].1 = true;
}

fn explored(program: &Program, model: Model) -> BTreeSet<Outcome> {
    let found = Rc::new(RefCell::new(BTreeSet::new()));
    let report = Explorer::new().models([model]).run(|scenario| {
        let names: Vec<String> = (0..program.len())
            .map(|thread| format!("thread {thread}"))
            .collect();
        let sleepers: Vec<Sleeper> = names
            .iter()
            .map(|name| scenario.sleeper(name, &["signal"]))
            .collect();
        let read = Rc::new(RefCell::new(vec![(Vec::new(), false); program.len()]));
        for (thread, ops) in program.iter().cloned().enumerate() {
            let (memory, sleepers, read) = (scenario.memory(), sleepers.clone(), read.clone());
            scenario.background(&names[thread], move || {
                run(memory, &sleepers, thread, &ops, &read);
            });
        }
        let found = found.clone();
        scenario.at_end(move || {
            found.borrow_mut().insert(read.borrow().clone());
            Ok(())
        });
    });
    let report = report.expect("it can be explored");
    assert!(report.is_complete(), "the search ends");
    found.take()
}

/// Places in four bytes, so that accesses of different sizes overlap.
fn place() -> impl Strategy<Value = (usize, u8)> {
    prop_oneof![3 => Just((0, 2)), 3 => Just((2, 2)), 2 => Just((0, 4)), 1 => Just((4, 2))]
}

fn op(threads: usize) -> impl Strategy<Value = Op> {
    prop_oneof![
        4 => place().prop_map(|(place, size)| Op::Load(place, size)),
        4 => place().prop_map(|(place, size)| Op::Store(place, size)),
        1 => place().prop_map(|(place, size)| Op::Swap(place, size)),
        1 => Just(Op::Fence),
        2 => (0..threads).prop_map(Op::Signal),
        2 => Just(Op::Wait),
        1 => Just(Op::Poll),
    ]
}

fn program() -> impl Strategy<Value = Program> {
    prop_oneof![
        prop::collection::vec(prop::collection::vec(op(2), 1..=5), 2),
        prop::collection::vec(prop::collection::vec(op(3), 1..=3), 3),
    ]
}

proptest! {
    #![proptest_config(crate::config())]

    #[test]
    fn what_happens_on_a_machine_with_store_buffers_is_explored_and_nothing_else(program in program()) {
        for model in [Model::Sc, Model::Tso] {
            prop_assert_eq!(explored(&program, model), expected(&program, model), "{}", model);
        }
    }
}
