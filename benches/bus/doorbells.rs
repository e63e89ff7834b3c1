//! The doorbell table: a wildcard an address, a value an address, all values on one address, and
//! the same while another thread registers and removes.

use std::{
    convert::Infallible,
    hint::black_box,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};

use criterion::{BenchmarkId, Criterion};
use vmbell::{
    doorbell::{IoEventAddress, Pattern, Sharing, table::TableWriter},
    eventfd::EventId,
    quiesce::Domain,
};
use vmbell_core::table::{Kind, Table};

use crate::{
    devices::{REGISTER, Registers, addresses, shuffled},
    threads,
};

/// The width of all writes.
const LEN: u32 = 4;
/// How long the writer rests between two changes.
const REST: Duration = Duration::from_millis(1);
/// The address at which the writer adds and removes its doorbell.
const COMING: u64 = 0xfe00_0000;

/// What there is to find.
#[derive(Clone, Copy)]
pub enum Doors {
    /// A wildcard at each address.
    Wildcard,
    /// A datamatch at each address.
    Datamatch,
    /// Datamatches for different values, all at one address.
    OneAddress,
}

impl Doors {
    /// All doors, with their names in the report.
    pub const ALL: [(Self, &'static str); 3] = [
        (Self::Wildcard, "wildcard"),
        (Self::Datamatch, "datamatch"),
        (Self::OneAddress, "datamatch-one-address"),
    ];

    /// The address and the value of the write that looks `address` up.
    fn write(self, address: u64) -> (u64, u64) {
        match self {
            Self::Wildcard | Self::Datamatch => (address, 1),
            Self::OneAddress => (COMING - 8, address & 0xffff_ffff),
        }
    }

    /// Registers one for each address.
    pub fn open(self, table: &Table, writer: &mut TableWriter, addresses: &[u64]) {
        for (signal, address) in (0..).zip(addresses) {
            let (address, value) = self.write(address + REGISTER);
            let value = match self {
                Self::Wildcard => None,
                Self::Datamatch | Self::OneAddress => Some(value),
            };
            register(table, writer, address, Pattern { len: LEN, value }, signal);
        }
    }

    /// Whether the write rings.
    #[inline]
    pub fn ring(self, table: &Table, address: u64) -> bool {
        let (address, value) = self.write(address);
        let signals = table.lookup(Kind::Mmio, black_box(address), black_box(LEN), value);
        signals.iter().fold(false, |_, signal| {
            black_box(signal);
            true
        })
    }
}

fn register(table: &Table, writer: &mut TableWriter, address: u64, pattern: Pattern, signal: u32) {
    let address = IoEventAddress::Mmio(address);
    let event = EventId::from_raw(u64::from(signal));
    writer
        .register(table, event, address, pattern, Sharing::Exclusive, || {
            Ok::<_, Infallible>(signal)
        })
        .expect("room and no clash");
}

/// All doors at all sizes.
pub fn bench(criterion: &mut Criterion, sizes: &[usize]) {
    for (doors, name) in Doors::ALL {
        for &size in sizes {
            let (table, mut writer) = (Table::boxed(), TableWriter::new(32));
            doors.open(&table, &mut writer, &addresses(size));
            let order = shuffled(&addresses(size), Registers::One);
            let mut group = criterion.benchmark_group(format!("doorbell-{name}"));
            for threads in [1, 2] {
                group.bench_function(BenchmarkId::new(format!("{threads}-thread"), size), |b| {
                    b.iter_custom(|accesses| {
                        threads::wall(threads, &order, accesses, || {
                            |address| doors.ring(&table, address)
                        })
                    });
                });
            }
            group.bench_function(BenchmarkId::new("updates", size), |bencher| {
                let domain = Domain::new();
                let done = AtomicBool::new(false);
                thread::scope(|scope| {
                    scope.spawn(|| update(&table, &mut writer, &domain, &done));
                    bencher.iter_custom(|accesses| {
                        threads::wall(1, &order, accesses, || {
                            let mut reader = domain.reader();
                            let table = &table;
                            move |address| {
                                let _section = reader.enter();
                                doors.ring(table, address)
                            }
                        })
                    });
                    done.store(true, Ordering::Relaxed);
                });
            });
            group.finish();
        }
    }
}

/// Registers and removes a doorbell, two changes each two rests, until `done`.
fn update(table: &Table, writer: &mut TableWriter, domain: &Domain, done: &AtomicBool) {
    let pattern = Pattern {
        len: 0,
        value: None,
    };
    let address = IoEventAddress::Mmio(COMING);
    while !done.load(Ordering::Relaxed) {
        register(table, writer, COMING, pattern, 9);
        thread::sleep(REST);
        let removal = writer
            .unlink(table, EventId::from_raw(9), address, pattern)
            .expect("registered above");
        domain.synchronize();
        let _ = writer.finish(removal);
        thread::sleep(REST);
    }
}
