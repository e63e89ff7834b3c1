//! A reference for the models: enumerates every graph of a straight-line program, and tests the axioms literally.
#![allow(clippy::needless_range_loop, reason = "rows and columns of relations")]

use vmbell_check::{Model, Order};

/// One step of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// Loads a place.
    Load(u8, Order),
    /// Stores a unique value to a place.
    Store(u8, Order),
    /// Adds a unique value, in one step.
    Add(u8, Order),
    /// In one step, replaces the initial value with the first order, or loads another value with the second order.
    Compare(u8, [Order; 2]),
    /// A fence.
    Fence(Order),
}

impl Op {
    /// Whether the step has a value from a write.
    pub fn reads(self) -> bool {
        matches!(self, Op::Load(..) | Op::Add(..) | Op::Compare(..))
    }
}

/// The steps of each thread.
pub type Program = Vec<Vec<Op>>;

#[derive(Clone, Debug)]
struct Event {
    thread: usize,
    place: Option<u8>,
    read: bool,
    write: bool,
    /// A read-modify-write, or a failed compare-exchange: x86 locks the bus for both.
    locked: bool,
    order: Order,
    /// The order if a compare-exchange fails.
    failure: Option<Order>,
}

/// The events of a program if its reads have these sources. None if a read has a failed compare-exchange as its source.
fn resolve(events: &[Event], sources: &[usize], places: u8) -> Option<Vec<Event>> {
    let mut resolved = events.to_vec();
    for (id, event) in resolved.iter_mut().enumerate() {
        if let Some(failure) = event.failure
            && sources[id] >= usize::from(places)
        {
            (event.write, event.order) = (false, failure);
        }
    }
    let is_written = |read: usize| resolved[sources[read]].write;
    (0..events.len())
        .filter(|&id| events[id].read)
        .all(is_written)
        .then_some(resolved)
}

type Matrix = Vec<Vec<bool>>;

fn empty(n: usize) -> Matrix {
    vec![vec![false; n]; n]
}

fn union(a: &Matrix, b: &Matrix) -> Matrix {
    a.iter()
        .zip(b)
        .map(|(a, b)| a.iter().zip(b).map(|(a, b)| *a || *b).collect())
        .collect()
}

fn compose(a: &Matrix, b: &Matrix) -> Matrix {
    let n = a.len();
    let mut c = empty(n);
    for i in 0..n {
        for k in 0..n {
            if a[i][k] {
                for (to, &through) in c[i].iter_mut().zip(&b[k]) {
                    *to |= through;
                }
            }
        }
    }
    c
}

fn closure(a: &Matrix) -> Matrix {
    let mut c = a.clone();
    let n = c.len();
    for k in 0..n {
        for i in 0..n {
            if c[i][k] {
                for j in 0..n {
                    let to = c[k][j];
                    c[i][j] |= to;
                }
            }
        }
    }
    c
}

fn reflexive(a: &Matrix) -> Matrix {
    let mut c = a.clone();
    for (i, row) in c.iter_mut().enumerate() {
        row[i] = true;
    }
    c
}

fn acyclic(a: &Matrix) -> bool {
    irreflexive(&closure(a))
}

fn irreflexive(a: &Matrix) -> bool {
    (0..a.len()).all(|i| !a[i][i])
}

fn filter(a: &Matrix, keep: impl Fn(usize, usize) -> bool) -> Matrix {
    let n = a.len();
    let mut c = empty(n);
    for i in 0..n {
        for j in 0..n {
            c[i][j] = a[i][j] && keep(i, j);
        }
    }
    c
}

fn inverse(a: &Matrix) -> Matrix {
    let n = a.len();
    let mut c = empty(n);
    for i in 0..n {
        for j in 0..n {
            c[j][i] = a[i][j];
        }
    }
    c
}

/// Returns the graphs of a program that a model allows, each as the sources of its reads: for each load and addition in
/// program order, the thread and the index of the write, or None for the initial value.
pub fn graphs(program: &Program, model: Model) -> Vec<Vec<Option<(usize, usize)>>> {
    // Event 0, 1, ... are the initial writes of the places.
    let places = 1 + program
        .iter()
        .flatten()
        .filter_map(|op| place(*op))
        .max()
        .unwrap_or(0);
    let mut events: Vec<Event> = (0..places)
        .map(|place| Event {
            thread: usize::MAX,
            place: Some(place),
            read: false,
            write: true,
            locked: false,
            order: Order::Relaxed,
            failure: None,
        })
        .collect();
    let mut names = vec![None; events.len()];
    for (thread, ops) in program.iter().enumerate() {
        for (index, op) in ops.iter().enumerate() {
            names.push(Some((thread, index)));
            let (read, write, order) = match *op {
                Op::Load(_, order) => (true, false, order),
                Op::Store(_, order) => (false, true, order),
                Op::Add(_, order) | Op::Compare(_, [order, _]) => (true, true, order),
                Op::Fence(order) => (false, false, order),
            };
            let failure = match *op {
                Op::Compare(_, [_, failure]) => Some(failure),
                _ => None,
            };
            events.push(Event {
                thread,
                place: place(*op),
                read,
                write,
                locked: read && write,
                order,
                failure,
            });
        }
    }
    let reads: Vec<usize> = (0..events.len()).filter(|&id| events[id].read).collect();
    let mut found = Vec::new();
    let mut rf = vec![0; events.len()];
    choose_sources(&events, &reads, 0, &mut rf, &mut |rf| {
        let Some(events) = resolve(&events, rf, places) else {
            return;
        };
        let mut orders = vec![Vec::new()];
        for place in 0..places {
            let writes: Vec<usize> = (usize::from(places)..events.len())
                .filter(|&id| events[id].write && events[id].place == Some(place))
                .collect();
            let mut all = Vec::new();
            permutations(&writes, &mut Vec::new(), &mut all);
            orders = orders
                .into_iter()
                .flat_map(|before: Vec<Vec<usize>>| {
                    all.iter().map(move |order| {
                        let mut orders = before.clone();
                        let mut co = vec![usize::from(place)];
                        co.extend(order);
                        orders.push(co);
                        orders
                    })
                })
                .collect();
        }
        for co in orders {
            if consistent(&events, rf, &co, model) {
                found.push(reads.iter().map(|&read| names[rf[read]]).collect());
            }
        }
    });
    found
}

fn place(op: Op) -> Option<u8> {
    match op {
        Op::Load(place, _) | Op::Store(place, _) | Op::Add(place, _) | Op::Compare(place, _) => {
            Some(place)
        }
        Op::Fence(_) => None,
    }
}

fn choose_sources(
    events: &[Event],
    reads: &[usize],
    at: usize,
    rf: &mut Vec<usize>,
    found: &mut impl FnMut(&[usize]),
) {
    let Some(&read) = reads.get(at) else {
        return found(rf);
    };
    for write in 0..events.len() {
        if events[write].write && events[write].place == events[read].place && write != read {
            rf[read] = write;
            choose_sources(events, reads, at + 1, rf, found);
        }
    }
}

fn permutations(left: &[usize], done: &mut Vec<usize>, all: &mut Vec<Vec<usize>>) {
    if left.is_empty() {
        all.push(done.clone());
    }
    for (at, &one) in left.iter().enumerate() {
        let rest: Vec<usize> = left[..at].iter().chain(&left[at + 1..]).copied().collect();
        done.push(one);
        permutations(&rest, done, all);
        done.pop();
    }
}

fn releases(order: Order) -> bool {
    matches!(order, Order::Release | Order::AcqRel | Order::SeqCst)
}

fn acquires(order: Order) -> bool {
    matches!(order, Order::Acquire | Order::AcqRel | Order::SeqCst)
}

fn consistent(events: &[Event], sources: &[usize], orders: &[Vec<usize>], model: Model) -> bool {
    let n = events.len();
    let init = |id: usize| events[id].thread == usize::MAX;
    let fence = |id: usize| events[id].place.is_none();
    let (mut po, mut rf, mut co) = (empty(n), empty(n), empty(n));
    for i in 0..n {
        for j in 0..n {
            po[i][j] = (init(i) && !init(j))
                || (events[i].thread == events[j].thread && i < j && !init(i));
        }
    }
    for read in 0..n {
        if events[read].read {
            rf[sources[read]][read] = true;
        }
    }
    for order in orders {
        for (at, &write) in order.iter().enumerate() {
            // A read-modify-write directly follows the write that it read from.
            if events[write].read && order[at - 1] != sources[write] {
                return false;
            }
            for &later in &order[at + 1..] {
                co[write][later] = true;
            }
        }
    }
    let same = |i: usize, j: usize| events[i].place.is_some() && events[i].place == events[j].place;
    let rb = filter(&compose(&inverse(&rf), &co), |i, j| i != j);
    let eco = closure(&union(&union(&rf, &co), &rb));
    if !acyclic(&union(&po, &rf)) {
        return false;
    }
    if !irreflexive(&compose(&filter(&po, same), &reflexive(&eco))) {
        return false;
    }
    match model {
        Model::Sc => acyclic(&union(&po, &union(&rf, &union(&co, &rb)))),
        Model::Tso => {
            // A sequentially consistent store is an exchange; a read-modify-write has a lock prefix.
            let full = |id: usize| {
                (fence(id) && events[id].order == Order::SeqCst)
                    || events[id].locked
                    || (events[id].write && events[id].order == Order::SeqCst)
            };
            let ordered = filter(&po, |i, j| {
                let relaxed = events[i].write && events[j].read;
                let through = full(i)
                    || (full(j) && !events[j].order.eq(&Order::SeqCst))
                    || (fence(j) && full(j));
                let locked = events[j].locked;
                let between = (0..events.len()).any(|k| po[i][k] && po[k][j] && full(k));
                let weak_fence = (fence(i) && !full(i)) || (fence(j) && !full(j));
                !weak_fence && (!relaxed || through || locked || between)
            });
            let external = filter(&rf, |i, j| events[i].thread != events[j].thread);
            acyclic(&union(&ordered, &union(&external, &union(&co, &rb))))
        }
        Model::Rc11 => rc11(events, &po, &rf, &co, &rb, &eco),
    }
}

fn rc11(
    events: &[Event],
    po: &Matrix,
    rf: &Matrix,
    co: &Matrix,
    rb: &Matrix,
    eco: &Matrix,
) -> bool {
    let n = events.len();
    let fence = |id: usize| events[id].place.is_none();
    let init = |id: usize| events[id].thread == usize::MAX;
    let same = |i: usize, j: usize| events[i].place.is_some() && events[i].place == events[j].place;
    let identity = reflexive(&empty(n));
    let only = |keep: &dyn Fn(usize) -> bool| filter(&identity, |i, _| keep(i));
    // rs = [W]; po|loc?; [W]; (rf; rmw)*
    let writes = only(&|id| events[id].write);
    let po_loc = filter(po, same);
    let chain = reflexive(&closure(&filter(rf, |_, j| events[j].write)));
    let rs = compose(
        &compose(&compose(&writes, &reflexive(&po_loc)), &writes),
        &chain,
    );
    // sw = [rel]; ([F]; po)?; rs; rf; [R]; (po; [F])?; [acq]
    let fences = only(&|id| fence(id));
    let rel = only(&|id| releases(events[id].order) && !init(id));
    let acq = only(&|id| acquires(events[id].order));
    let before = union(&identity, &compose(&fences, po));
    let after = union(&identity, &compose(po, &fences));
    let sw = compose(
        &compose(&compose(&compose(&compose(&rel, &before), &rs), rf), &after),
        &acq,
    );
    let sw = filter(&sw, |i, j| events[i].thread != events[j].thread);
    let hb = closure(&union(po, &sw));
    if !irreflexive(&compose(&hb, &reflexive(eco))) {
        return false;
    }
    let sc = only(&|id| events[id].order == Order::SeqCst && !init(id));
    let sc_fences = compose(&sc, &fences);
    let other_place = filter(po, |i, j| !same(i, j));
    let hb_loc = filter(&hb, same);
    let mut scb = union(
        &union(po, &compose(&compose(&other_place, &hb), &other_place)),
        &hb_loc,
    );
    scb = union(&scb, &union(co, rb));
    let hb_maybe = reflexive(&hb);
    let left = union(&sc, &compose(&sc_fences, &hb_maybe));
    let right = union(&sc, &compose(&hb_maybe, &sc_fences));
    let base = compose(&compose(&left, &scb), &right);
    let between = union(&hb, &compose(&compose(&hb, eco), &hb));
    let psc_fences = compose(&compose(&sc_fences, &between), &sc_fences);
    acyclic(&union(&base, &psc_fences))
}
