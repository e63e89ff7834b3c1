use super::*;

/// The values with a label.
fn labels(scale: ChartScale) -> Vec<f64> {
    let ticks = scale.ticks().into_iter();
    ticks
        .filter(|(_, has_label)| *has_label)
        .map(|(value, _)| value)
        .collect()
}

#[test]
fn values_that_are_close_stand_on_a_linear_axis_from_zero() {
    let scale = ChartScale::of([100.0, 3000.0]).unwrap();
    assert_eq!(scale, ChartScale::Linear(3120.0));
    assert_eq!(scale.place(0.0), 0.0);
    assert_eq!(scale.place(1560.0), 50.0);
    assert_eq!(labels(scale), [0.0, 1000.0, 2000.0, 3000.0]);
}

#[test]
fn values_that_span_more_than_thirty_times_stand_on_a_logarithmic_axis() {
    let scale = ChartScale::of([2.0, 100.0, 34_000.0]).unwrap();
    assert_eq!(scale, ChartScale::Logarithmic(0, 5));
    assert_eq!(scale.place(1.0), 0.0);
    assert_eq!(scale.place(100.0), 40.0);
    assert_eq!(scale.ticks().len(), 6);
    assert_eq!(labels(scale), [1.0, 100.0, 1e4]);
}

#[test]
fn the_least_value_of_a_logarithmic_axis_has_a_bar_too() {
    let scale = ChartScale::of([1.0, 1000.0]).unwrap();
    assert_eq!(scale, ChartScale::Logarithmic(-1, 3));
    assert_eq!(scale.place(1.0), 25.0);
}

#[test]
fn labels_of_many_powers_of_ten_are_thinned_out() {
    let four = [1.0, 10.0, 100.0, 1e3, 1e4];
    assert_eq!(labels(ChartScale::Logarithmic(0, 4)), four);
    assert_eq!(labels(ChartScale::Logarithmic(0, 9)), [1.0, 1e3, 1e6, 1e9]);
}

#[test]
fn zero_and_less_have_no_axis_and_stand_at_its_start() {
    assert_eq!(ChartScale::of([0.0, -1.0, f64::NAN]), None);
    assert_eq!(ChartScale::Logarithmic(0, 5).place(0.0), 0.0);
    assert_eq!(ChartScale::Linear(10.0).place(-3.0), 0.0);
    assert_eq!(ChartScale::Linear(10.0).place(30.0), 100.0);
}
