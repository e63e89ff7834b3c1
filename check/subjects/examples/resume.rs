//! Which signals are enough when a device is resumed: explores every policy for each queue that can be saved, and
//! prints a table in Markdown.
//!
//! `resume [REQUESTS] [SECONDS]`

use vmbell_check::{Explorer, Model, Report};
use vmbell_subjects::resume::{Place, Resume, SAVED_QUEUES, resumed};

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize, default: u16| {
        let given = arguments.get(at).and_then(|word| word.parse().ok());
        given.unwrap_or(default)
    };
    let (requests, seconds) = (number(0, 2), number(1, 10));
    let models = [Model::Sc, Model::Tso, Model::Rc11];
    let explorer = Explorer::new()
        .models(models)
        .seconds(seconds.into())
        .stop_at_first_failure();
    println!("{requests} requests, 2 in flight, SC, TSO and RC11, at most {seconds} s for each\n");
    let queues: Vec<&str> = SAVED_QUEUES.iter().map(|queue| queue.name).collect();
    println!(
        "| event index | saved in | pending kick | pending interrupt | sent on resume | {} |",
        queues.join(" | ")
    );
    println!("|{}", " --- |".repeat(5 + queues.len()));
    for event_idx in [false, true] {
        for resume in policies() {
            let cells = SAVED_QUEUES.iter().map(|queue| {
                let report = resumed(&explorer, queue, event_idx, resume, requests);
                report.map_or_else(|error| error.to_string(), |report| cell(&report))
            });
            let cells = cells.collect::<Vec<_>>().join(" | ");
            let event = if event_idx { "yes" } else { "no" };
            println!("| {event} | {resume} | {cells} |");
        }
    }
}

/// Every policy: where the device is saved, which signals are kept, and which are sent.
fn policies() -> impl Iterator<Item = Resume> {
    let places = [Place::EventLoop, Place::Anywhere];
    places.into_iter().flat_map(|place| {
        (0..16_u8).map(move |bits| Resume {
            place,
            keeps_kick: bits & 8 == 0,
            keeps_interrupt: bits & 4 == 0,
            kicks: bits & 1 != 0,
            interrupts: bits & 2 != 0,
            goes_on: false,
        })
    })
}

fn cell(report: &Report) -> String {
    let executions: u64 = report
        .verdicts
        .iter()
        .map(|verdict| verdict.executions())
        .sum();
    match (report.failure(), report.is_complete()) {
        (Some(_), _) => "**lost**".to_string(),
        (None, true) => format!("clean, {executions} executions"),
        (None, false) => format!("clean so far, bounded at {executions}"),
    }
}
