use std::time::Duration;

use super::super::boot::Booted;
use super::super::events::Events;
use super::super::netperf::Done;
use super::super::way::Way;
use super::*;
use vmbell_report::ReasonsOfRun;

fn events(exits: &[(&str, u64)], userspace: u64, kicks: u64) -> Events {
    let exits = exits.iter();
    Events {
        reasons: ReasonsOfRun {
            exits: exits
                .map(|(reason, count)| ((*reason).to_owned(), *count))
                .collect(),
            userspace: [("KVM_EXIT_MMIO".to_owned(), userspace)].into(),
        },
        kicks,
        interrupts: 2 * kicks,
    }
}

fn column(boots: Vec<(f64, Option<Result<Events, String>>)>) -> Column {
    let boot = |(ns, events): (f64, Option<Result<Events, String>>)| Booted {
        init: Duration::from_millis(3),
        measured: vec![Measured {
            pattern: Pattern::RoundTrip,
            done: Done {
                operations: 10.0,
                ns,
            },
            events: events.map(|events| {
                events.map(|events| Counted {
                    events,
                    operations: 10.0,
                })
            }),
        }],
    };
    Column {
        boots: boots.into_iter().map(boot).collect(),
        ..Column::new(Way::ALL[0], Ok("/vmm".into()), None)
    }
}

fn rows_of(column: &Column) -> Vec<Row> {
    all(
        std::slice::from_ref(column),
        &[Pattern::RoundTrip],
        Timing::Instructions,
    )
}

#[test]
fn a_row_has_the_medians_of_its_boots() {
    let boot = |ns, npf| {
        let exits = [("npf", npf), ("interrupt", 5)];
        (ns, Some(Ok(events(&exits, 10, 11))))
    };
    let column = column(vec![boot(100.0, 20), boot(300.0, 40), boot(200.0, 30)]);
    let [init, trips] = &rows_of(&column)[..] else {
        panic!("two rows")
    };
    assert_eq!((&*init.command, init.median()), (BOOT, Some(3e6)));
    assert_eq!((&*trips.command, trips.median()), ("rr", Some(200.0)));
    let exits = Exits {
        total: Some(3.0),
        userspace: Some(1.0),
    };
    assert_eq!(trips.exits(), Some(exits));
    let trips = trips.measured().unwrap();
    let reasons = trips.exit_reasons.as_ref().unwrap();
    assert_eq!(reasons.kvm_exit["interrupt"], 0.5);
    assert_eq!(trips.counts.get("kicks"), Some(&[11, 11, 11][..]));
    assert_eq!(trips.counts.get("interrupts"), Some(&[22, 22, 22][..]));
}

#[test]
fn a_row_says_why_nothing_was_counted() {
    let uncounted = column(vec![(100.0, Some(Err("no tracefs".to_owned())))]);
    let row = &rows_of(&uncounted)[1];
    let note = |row: &Row| row.measured().unwrap().exits_note.clone();
    assert_eq!(note(row).as_deref(), Some("no tracefs"));
    assert_eq!(row.exits(), None);
    let unasked = column(vec![(100.0, None)]);
    assert_eq!(note(&rows_of(&unasked)[1]), None);
}

#[test]
fn a_way_without_results_has_no_rows() {
    assert_eq!(rows_of(&column(Vec::new())), []);
}

#[test]
fn ratios_are_to_the_first_way_with_results() {
    let boots = |ns| vec![(ns, None), (ns, None), (ns, None)];
    let columns = [
        column(Vec::new()),
        column(boots(100.0)),
        column(boots(250.0)),
    ];
    let rows = all(&columns, &[Pattern::RoundTrip], Timing::Instructions);
    let ratios: Vec<Option<f64>> = rows
        .iter()
        .map(|row| row.ratio().map(|ratio| ratio.value))
        .collect();
    assert_eq!(ratios, [None, None, Some(1.0), Some(2.5)]);
}
