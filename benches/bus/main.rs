//! Which device, or which eventfd, a guest's write goes to: ours and others', in one run.
//!
//! `bus-*` looks a device up among 1 to 10,000 ranges and calls it, at one register of each device
//! and at any: vmbell's bus, and vm-device's and alioth's with the usual `RwLock` around them.
//! `doorbell-*` looks a write up in the doorbell table. Addresses come in a pseudo-random order
//! made beforehand. Times are wall-clock times of one access, with all threads running.
//!
//! `cargo bench --bench bus`. Instructions, which are steadier than times on a shared machine:
//! ```text
//! cargo bench --bench lookup_instructions --no-run
//! for n in 100000 200000; do
//!     valgrind --tool=callgrind --callgrind-out-file=/dev/null \
//!         target/release/deps/lookup_instructions-... doorbell-wildcard 10000 $n
//! done
//! ```
//! The difference of the two "Collected" figures, by 100,000, is one lookup in its loop; subject
//! `nothing` is the loop alone.

mod buses;
mod devices;
mod doorbells;
mod threads;

use std::time::Duration;

use criterion::{BenchmarkId, Criterion};

use buses::{AliothBus, Subject, VmDeviceBus, VmbellBus};
use devices::{Registers, addresses, shuffled};

const SIZES: [usize; 4] = [1, 32, 1_000, 10_000];

fn bench_bus<S: Subject>(
    criterion: &mut Criterion,
    registers: Registers,
    threads: usize,
    size: usize,
) {
    let name = match registers {
        Registers::One => "bus",
        Registers::All => "bus-any-register",
    };
    let mut group = criterion.benchmark_group(format!("{name}-{threads}-thread"));
    let bus = S::with(&addresses(size));
    let order = shuffled(&addresses(size), registers);
    group.bench_function(BenchmarkId::new(S::NAME, size), |bencher| {
        bencher.iter_custom(|accesses| {
            threads::wall(threads, &order, accesses, || {
                let mut reader = bus.reader();
                move |address| S::write(&mut reader, address)
            })
        });
    });
    group.finish();
}

fn main() {
    let mut criterion = Criterion::default()
        .warm_up_time(Duration::from_millis(200))
        .measurement_time(Duration::from_millis(800))
        .sample_size(20)
        .without_plots()
        .configure_from_args();
    for registers in [Registers::One, Registers::All] {
        for threads in [1, 2] {
            for size in SIZES {
                bench_bus::<VmbellBus>(&mut criterion, registers, threads, size);
                bench_bus::<VmDeviceBus>(&mut criterion, registers, threads, size);
                bench_bus::<AliothBus>(&mut criterion, registers, threads, size);
            }
        }
    }
    doorbells::bench(&mut criterion, &SIZES);
    criterion.final_summary();
}
