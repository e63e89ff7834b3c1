use super::super::Run;
use super::super::column::columns;
use super::*;
use crate::{Report, sample};

/// A scan of one path over `doorbells`, with one and with two vCPUs.
fn scanned(values: &[&str]) -> Report {
    let mut report = sample::report();
    let template = report.results[0].clone();
    let row = |vcpus: &str, doorbells: &str| Row {
        command: format!("portio-no-eventfd,doorbells={doorbells},vcpus={vcpus}"),
        parameters: [("doorbells", doorbells), ("vcpus", vcpus)]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into(),
        ..template.clone()
    };
    report.results = values
        .iter()
        .flat_map(|value| [row("1", value), row("2", value)])
        .collect();
    report
}

fn shown(report: Report) -> String {
    markup(&columns(&[Run::of("a.json", report)])).into_string()
}

#[test]
fn each_parameter_has_a_curve_for_each_value_of_the_others() {
    let text = shown(scanned(&["1", "10", "1000"]));
    let captions: Vec<&str> = text.split("</b>").skip(1).collect();
    assert_eq!(captions.len(), 5, "{text}");
    assert!(
        captions[0].starts_with(" by doorbells, vcpus=1: 14.2 µs at 1, 14.2 µs at 1000"),
        "{}",
        captions[0]
    );
    assert!(
        captions[1].starts_with(" by vcpus, doorbells=1: "),
        "{}",
        captions[1]
    );
    assert_eq!(text.matches("<polyline").count(), 5);
}

#[test]
fn a_single_value_is_no_curve() {
    let mut report = scanned(&["1"]);
    report.results.truncate(1);
    assert_eq!(shown(report), "");
    assert_eq!(shown(sample::report()), "");
}

#[test]
fn values_stand_by_their_logarithms() {
    let values = [1.0, 10.0, 100.0];
    let places = values.map(|value| place(value, &values));
    assert!((places[1] - places[0] - (places[2] - places[1])).abs() < 1e-9);
    assert_eq!(values_of_ticks(&[1.0, 1000.0, 1001.0, 1.0]), [1.0, 1000.0]);
}
