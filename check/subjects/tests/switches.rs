//! vmbell's rings with every switch: in order, batches, budgets, and the ways to ask for an interrupt. Prints a table.

use std::iter;

use vmbell_check::{Explorer, Format, Shape};
use vmbell_subjects::{
    CHAINED_DRIVER, Device, Driver, RESTORED_DRIVER, Work, device, driver, pair,
};

/// How a driver asks to be interrupted: for the next buffer, late, or by keeping interrupts enabled.
const WAYS: [(&str, bool, bool); 3] = [
    ("next", false, false),
    ("late", true, false),
    ("always", false, true),
];

/// The smallest rings of each kind.
fn shapes(driver: &Driver) -> impl Iterator<Item = Shape> {
    [Format::Split, Format::Packed]
        .into_iter()
        .flat_map(|format| [false, true].map(|event_idx| driver.smallest_ring(format, event_idx)))
        .flat_map(|shape| [shape, shape.in_order()])
}

/// What both sides do, with a name for how the driver asks.
fn works() -> impl Iterator<Item = (Work, &'static str)> {
    let batches = [(u64::MAX, true), (1, true), (1, false)];
    batches.into_iter().flat_map(|(budget, at_once)| {
        WAYS.map(|(way, late, armed)| {
            let work = Work {
                budget,
                late,
                armed,
                at_once,
                ..Work::new(2, 2)
            };
            (work, way)
        })
    })
}

fn lose_nothing(driver: Driver, device: Device) {
    let (one, two) = (driver.about.name, device.about.name);
    let explorer = Explorer::new().seconds(vmbell_subjects::HANG);
    for shape in shapes(&driver) {
        for (work, way) in works() {
            let report = pair(&explorer, &driver, &device, shape, work);
            let report = report.unwrap_or_else(|error| panic!("{shape:?}, {work:?}: {error}"));
            let is_good = report.failure().is_none() && report.is_complete();
            assert!(is_good, "{one} with {two}, {shape:?}, {work:?}:\n{report}");
            let ring = match shape.format {
                Format::Split => "split",
                Format::Packed => "packed",
            };
            let switches = [
                (shape.event_idx, "event"),
                (shape.in_order, "in order"),
                (work.at_once, "at once"),
                (work.budget == 1, "budget 1"),
            ];
            let switches = switches.into_iter().filter(|(is_on, _)| *is_on);
            let ring: Vec<&str> = iter::once(ring)
                .chain(switches.map(|(_, name)| name))
                .chain([way])
                .collect();
            let counts = report.verdicts.iter().map(|verdict| verdict.executions());
            let counts: Vec<String> = counts.map(|count| count.to_string()).collect();
            println!(
                "| {one} | {two} | {} | {} |",
                ring.join(", "),
                counts.join(" | ")
            );
        }
    }
}

#[test]
fn both_sides_of_vmbell_lose_nothing() {
    lose_nothing(driver("vmbell"), device("vmbell"));
}

#[test]
fn both_sides_of_vmbell_lose_nothing_of_chains() {
    lose_nothing(CHAINED_DRIVER, device("vmbell"));
}

#[test]
fn a_restored_driver_of_vmbell_loses_nothing() {
    lose_nothing(RESTORED_DRIVER, device("vmbell"));
}

#[test]
fn a_driver_of_vmbell_with_the_reference_loses_nothing() {
    lose_nothing(driver("vmbell"), device("reference"));
}

#[test]
fn a_device_of_vmbell_with_the_reference_loses_nothing() {
    lose_nothing(driver("reference"), device("vmbell"));
}
