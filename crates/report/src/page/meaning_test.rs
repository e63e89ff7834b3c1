use super::super::Run;
use super::super::column::columns;
use super::*;
use crate::sample;

fn page(report: crate::Report) -> String {
    markup(&columns(&[Run::of("a.json", report)])).into_string()
}

#[test]
fn a_cost_times_a_rate_is_a_number_of_cores() {
    let text = page(sample::report());
    // 14.2 microseconds, at 10 thousand, 100 thousand and 1 million per second.
    assert!(text.contains("<td>0.14</td>"), "{text}");
    assert!(text.contains("1.42 ▲"), "{text}");
    assert!(text.contains("14.2 ▲"), "{text}");
    // 6.24 microseconds, which is 0.44 of the reference.
    assert!(text.contains("<td>0.62</td>"), "{text}");
    assert!(text.contains("0.79 against portio-no-eventfd"), "{text}");
}

#[test]
fn a_latency_is_no_core() {
    assert!(!page(sample::report()).contains("portio-notify-latency"));
}

#[test]
fn a_path_that_costs_more_than_its_reference_saves_less_than_nothing() {
    assert!(page(sample::report()).contains("−0.028"));
}

#[test]
fn instructions_and_emulated_times_are_no_cores() {
    let mut emulated = sample::report();
    emulated.timing = Timing::Emulated;
    for report in [sample::counted(), emulated] {
        let text = page(report);
        assert!(text.contains("cores cannot be computed"), "{text}");
        assert!(!text.contains("<table"), "{text}");
    }
}

#[test]
fn small_numbers_of_cores_keep_their_digits() {
    let texts = [0.25, 0.0123, 0.00345, 0.00001].map(number);
    assert_eq!(texts, ["0.25", "0.012", "0.0034", "<0.001"]);
}
