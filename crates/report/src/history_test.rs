use super::*;
use crate::recording::tests::{line, recording, vm};

fn of(text: &str) -> Vec<History> {
    histories(&Recording::parse(text).unwrap())
}

#[test]
fn rates_are_those_of_each_interval_and_means_those_of_all_time() {
    let histories = of(&recording(&[(0.0, 0), (1.0, 10), (3.0, 70)]));
    let [history] = &histories[..] else {
        panic!("{histories:?}");
    };
    let rates: Vec<f64> = history.rates[&Rate::ToVmm]
        .iter()
        .map(|interval| interval.rate)
        .collect();
    assert_eq!(rates, [10.0, 30.0]);
    assert_eq!(history.mean(Rate::ToVmm), Some(70.0 / 3.0));
    // Irqfds are not counted, which is not the same as 0.
    assert_eq!(history.mean(Rate::Irqfds), None);
    assert_eq!(history.mean(Rate::Eois), Some(0.0));
    let place = &history.addresses[&("port".to_owned(), 1544)];
    assert_eq!((place.exits_to_vmm, place.ioeventfds), (70, Some(140)));
    assert_eq!(place.name.as_deref(), Some("virtio-pci notify?"));
    assert_eq!((history.reasons["hlt"], history.exits["npf"]), (35, 210));
    assert_eq!(history.irqfds[&24], [70, 0]);
}

#[test]
fn a_vm_that_starts_later_counts_from_zero_and_a_lower_count_has_begun_again() {
    let mut text = recording(&[(0.0, 100), (1.0, 110)]);
    text += &line(2.0, &[vm(4711, 4), vm(5000, 6)]);
    let histories = of(&text);
    let [first, second] = &histories[..] else {
        panic!("{histories:?}");
    };
    assert_eq!((first.pid, second.pid), (4711, 5000));
    assert_eq!(first.addresses.values().next().unwrap().exits_to_vmm, 14);
    assert_eq!((second.seconds, second.mean(Rate::ToVmm)), (1.0, Some(6.0)));
}

#[test]
fn ioeventfds_that_were_not_counted_are_not_zero() {
    let text = recording(&[(0.0, 0), (1.0, 10)]).replace("\"ioeventfds\":0", "\"ioeventfds\":null");
    let text = text.replace("\"ioeventfds\":20", "\"ioeventfds\":null");
    let histories = of(&text);
    let place = &histories[0].addresses[&("port".to_owned(), 1544)];
    assert_eq!((place.exits_to_vmm, place.ioeventfds), (10, None));
}
