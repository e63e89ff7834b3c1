//! A loop of lookups for `valgrind --tool=callgrind`; how to use it is said in `bus/main.rs`.
//!
//! `lookup_instructions SUBJECT ENTRIES LOOKUPS`, where SUBJECT is `nothing`, `bus`, `doorbell-wildcard`,
//! `doorbell-datamatch` or `doorbell-one-address`.

#[path = "bus/devices.rs"]
mod devices;

use std::{convert::Infallible, env, hint::black_box, process::ExitCode, sync::Arc};

use vmbell::{
    bus::{Bus, BusDevice, BusRange, BusReader},
    doorbell::{IoEventAddress, Pattern, Sharing, table::TableWriter},
    eventfd::EventId,
};
use vmbell_core::table::{Kind, Table};

use devices::{REGISTER, Registers, STRIDE, addresses, shuffled};

struct Sink;

impl BusDevice for Sink {
    fn read(&self, _: u64, _: &mut [u8]) {}

    fn write(&self, offset: u64, _: &[u8]) {
        black_box(offset);
    }
}

/// The loops are separate functions so that callgrind can name them.
#[inline(never)]
fn bus_loop(reader: &mut BusReader, order: &[u64], lookups: usize) {
    for index in 0..lookups {
        let address = order[index & (order.len() - 1)];
        black_box(reader.write(address, &[0; 4]));
    }
}

#[inline(never)]
fn doorbell_loop(table: &Table, order: &[(u64, u64)], lookups: usize) {
    for index in 0..lookups {
        let (address, value) = order[index & (order.len() - 1)];
        let signals = table.lookup(Kind::Mmio, address, black_box(4), value);
        black_box(signals.is_empty());
    }
}

/// What [`doorbell_loop`] costs without the lookup.
#[inline(never)]
fn empty_loop(order: &[(u64, u64)], lookups: usize) {
    for index in 0..lookups {
        let (address, value) = order[index & (order.len() - 1)];
        black_box(address ^ value ^ black_box(4));
    }
}

fn bus(entries: usize, lookups: usize) {
    let bus = Bus::new();
    for address in addresses(entries) {
        let range = BusRange::new(address, STRIDE).expect("a good range");
        bus.insert(range, Arc::new(Sink)).expect("no overlap");
    }
    bus_loop(
        &mut bus.reader(),
        &shuffled(&addresses(entries), Registers::One),
        lookups,
    );
}

fn doorbells(write: impl Fn(u64) -> (u64, u64), wildcard: bool, entries: usize, lookups: usize) {
    let table = Table::boxed();
    let mut writer = TableWriter::new(32);
    for (signal, address) in (0..).zip(addresses(entries)) {
        let (address, value) = write(address + REGISTER);
        let value = (!wildcard).then_some(value);
        let (event, address) = (EventId::from_raw(0), IoEventAddress::Mmio(address));
        let signal = || Ok::<_, Infallible>(signal);
        writer
            .register(
                &table,
                event,
                address,
                Pattern { len: 4, value },
                Sharing::Exclusive,
                signal,
            )
            .expect("room and no clash");
    }
    let order = shuffled(&addresses(entries), Registers::One)
        .into_iter()
        .map(write);
    doorbell_loop(&table, &order.collect::<Vec<_>>(), lookups);
}

fn main() -> ExitCode {
    let args: Vec<String> = env::args().skip(1).collect();
    let number = |index: usize| args.get(index).and_then(|arg| arg.parse::<usize>().ok());
    let (Some(entries), Some(lookups)) = (number(1), number(2)) else {
        eprintln!("usage: lookup_instructions SUBJECT ENTRIES LOOKUPS");
        return ExitCode::from(2);
    };
    let one = |address| (address, 1);
    let same = |address| (0xfe00_0000, address & 0xffff_ffff);
    match args[0].as_str() {
        "nothing" => empty_loop(&vec![(1_u64, 2_u64); entries.next_power_of_two()], lookups),
        "bus" => bus(entries, lookups),
        "doorbell-wildcard" => doorbells(one, true, entries, lookups),
        "doorbell-datamatch" => doorbells(one, false, entries, lookups),
        "doorbell-one-address" => doorbells(same, false, entries, lookups),
        other => {
            eprintln!("no such subject: {other}");
            return ExitCode::from(2);
        }
    }
    ExitCode::SUCCESS
}
