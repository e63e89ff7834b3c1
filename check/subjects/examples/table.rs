//! Explores each driver with each device, and prints a table in Markdown.
//!
//! `table [REQUESTS] [SECONDS] [DRIVER] [DEVICE]` explores all pairs that support a format, with and without an event
//! index.

use vmbell_check::{Explorer, Format, Model, Report};
use vmbell_subjects::{Device, Driver, Work, devices, drivers, pair};

const MODELS: [Model; 3] = [Model::Sc, Model::Tso, Model::Rc11];

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize, default: u64| {
        let given = arguments.get(at).and_then(|word| word.parse().ok());
        given.unwrap_or(default)
    };
    let (requests, seconds) = (number(0, 2), number(1, 10));
    let wanted = |at: usize, name: &str| {
        arguments
            .get(at)
            .is_none_or(|word| word == name || word == "all")
    };
    println!("{requests} requests, 2 in flight, at most {seconds} s for each model\n");
    println!("| driver | device | ring | event index | SC | TSO | RC11 |");
    println!("| --- | --- | --- | --- | --- | --- | --- |");
    for driver in drivers()
        .iter()
        .filter(|driver| wanted(2, driver.about.name))
    {
        for device in devices()
            .iter()
            .filter(|device| wanted(3, device.about.name))
        {
            for format in [Format::Split, Format::Packed] {
                if !device.serves(driver, format) {
                    continue;
                }
                for event_idx in [false, true] {
                    row(driver, device, format, event_idx, requests, seconds);
                }
            }
        }
    }
}

fn row(
    driver: &Driver,
    device: &Device,
    format: Format,
    event_idx: bool,
    requests: u64,
    seconds: u64,
) {
    let shape = driver.smallest_ring(format, event_idx);
    let ring = match format {
        Format::Split => "split",
        Format::Packed => "packed",
    };
    let explorer = Explorer::new().models(MODELS).seconds(seconds);
    let result = pair(&explorer, driver, device, shape, Work::new(requests, 2));
    let cells = result.map_or_else(|error| error.to_string(), |report| cells(&report));
    let (one, two) = (driver.about.name, device.about.name);
    let event = if event_idx { "yes" } else { "no" };
    println!("| {one} | {two} | {ring} | {event} | {cells} |");
    if std::env::var_os("TRACES").is_some() {
        let result = pair(
            &explorer.clone(),
            driver,
            device,
            shape,
            Work::new(requests, 2),
        );
        if let Ok(report) = result
            && report.failure().is_some()
        {
            eprintln!("{one} / {two}, {ring}, event index: {event}\n{report}");
        }
    }
}

fn cells(report: &Report) -> String {
    let cells = report.verdicts.iter().map(|verdict| {
        let (executions, seconds) = (verdict.executions(), verdict.seconds());
        let found = match (&verdict.failure, verdict.complete) {
            (Some(failure), _) => {
                let what = failure.what.to_string();
                format!("**{}**", what.lines().next().unwrap_or_default())
            }
            (None, true) => "clean, complete".to_string(),
            (None, false) => "clean so far, bounded".to_string(),
        };
        format!("{found}: {executions} in {seconds:.2} s")
    });
    cells.collect::<Vec<_>>().join(" | ")
}
