use super::*;
use crate::recording::tests::{line, recording, vm};

fn page(text: &str) -> String {
    recorded_page(&Recording::parse(text).unwrap(), "top.jsonl")
}

#[test]
fn the_page_of_a_recording_has_its_vms_rates_addresses_and_doubts() {
    let page = page(&recording(&[(0.0, 0), (1.0, 10), (3.0, 70)]));
    for part in [
        "<h1>qemu web-&lt;1&gt; (4711) exits to its VMM: 23.3 times a second, 67 % of them at port 0x608 (virtio-pci notify?)</h1>",
        "<span>1 VM in 3.00 s</span>",
        "Linux 6.12.117, a CPU, 2 CPUs",
        "counters: not used: the kernel's lockdown (Secure Boot) forbids debugfs",
        "<figcaption>Exits to the VMM a second: 23.3 in the mean</figcaption>",
        "class=\"curve\"",
        "\n0 s\n",
        "<th scope=\"col\">PV EOIs/s</th>",
        "<th scope=\"row\">port 0x608</th><td>70</td><td>23.3</td><td>140</td><td>46.7</td><td class=\"what\">virtio-pci notify?</td>",
        "<th scope=\"row\">hlt</th><td>35</td>",
        "<th scope=\"row\">npf</th><td>210</td><td>70.0</td>",
        "<th scope=\"row\">24</th><td>70</td>",
        "<code>top.jsonl</code>",
    ] {
        assert!(page.contains(part), "{part}: {page}");
    }
    assert!(page.contains("qemu web-&lt;1&gt; (4711)") && !page.contains("web-<1>"));
    // A rate that was not counted has no curve.
    assert!(!page.contains("<figcaption>Interrupts by irqfd"));
}

#[test]
fn a_time_without_vms_and_many_addresses_are_shown() {
    let mut text = recording(&[]);
    text += &line(0.0, &[]);
    text += &line(1.0, &[]);
    assert!(page(&text).contains("No VM ran on KVM in this time."));
    let mut busy = vm(1, 5);
    let address = busy.addresses[0].clone();
    let each = (0..25).map(|port| {
        let mut address = address.clone();
        address.address = port;
        address
    });
    busy.addresses = each.collect();
    text += &line(2.0, &[busy]);
    let page = page(&text);
    assert!(
        page.contains("<th scope=\"row\">5 more</th><td>25</td>"),
        "{page}"
    );
}

#[test]
fn of_many_intervals_means_are_drawn() {
    let intervals: Vec<Interval> = (0..1000_u32)
        .map(|place| Interval {
            from: f64::from(place),
            to: f64::from(place + 1),
            rate: f64::from(place % 2),
        })
        .collect();
    let points = thinned(&intervals);
    assert_eq!(points.len(), 334);
    assert_eq!((points[0].from, points[333].to), (0.0, 1000.0));
    let sum: f64 = points
        .iter()
        .map(|point| point.rate * (point.to - point.from))
        .sum();
    assert!((sum - 500.0).abs() < 1e-9, "{sum}");
    assert_eq!(thinned(&intervals[..3]), intervals[..3]);
}
