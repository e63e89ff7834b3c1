//! Sends buffers through both sides of a virtqueue: this library's two sides, and the crates
//! virtio-drivers and virtio-queue as a pair, in one run.
//!
//! `one-thread` adds a batch, takes it, gives it back and consumes it. `event-idx` also asks on each
//! side after each batch whether to notify. `two-threads` has a driver and a device on a core each,
//! which poll, with 256 buffers in flight.

#![allow(clippy::cast_possible_truncation, clippy::unwrap_used)]

#[path = "../../crates/virtqueue/tests/peers/mod.rs"]
mod peers;
mod sides;
mod threads;

use std::{hint::black_box, time::Duration};

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use sides::{Ours, Pair, Peers};
use vmbell_virtqueue::{Features, brand};

const BATCHES: [usize; 3] = [1, 32, 256];

fn features(event_idx: bool) -> Features {
    Features::default().with_event_idx(event_idx)
}

fn one_thread(c: &mut Criterion) {
    for event_idx in [false, true] {
        let name = if event_idx { "event-idx" } else { "polled" };
        let mut group = c.benchmark_group(format!("one-thread/{name}"));
        for batch in BATCHES {
            group.throughput(Throughput::Elements(batch as u64));
            let mut run = |name: &str, pair: &mut dyn Pair| {
                group.bench_function(BenchmarkId::new(name, batch), |b| {
                    b.iter(|| pair.round(black_box(batch)));
                });
            };
            run("rust-pair", &mut Peers::new(event_idx));
            brand::scoped(|brand| {
                run("split", &mut Ours::split(features(event_idx), brand));
            });
            brand::scoped(|brand| {
                run("packed", &mut Ours::packed(features(event_idx), brand));
            });
        }
        group.finish();
    }
}

fn two_threads(c: &mut Criterion) {
    let mut group = c.benchmark_group("two-threads/256-outstanding");
    group.throughput(Throughput::Elements(1));
    group
        .sample_size(20)
        .measurement_time(Duration::from_secs(6));
    group.bench_function("rust-pair", |b| b.iter_custom(threads::peers));
    group.bench_function("split", |b| b.iter_custom(threads::split));
    group.bench_function("packed", |b| b.iter_custom(threads::packed));
    group.finish();
}

criterion_group!(benches, one_thread, two_threads);
criterion_main!(benches);
