use vmbell_check::*;
#[test]
fn reference_sides_lose_nothing() {
    for (requests, depth, size) in [(1, 1, 2), (2, 1, 2), (2, 2, 2), (3, 2, 2)] {
        for event_idx in [false, true] {
            for shape in [
                Shape::split(size, event_idx),
                Shape::split(size, event_idx).starting_at(65_534),
                Shape::packed(size, event_idx),
            ] {
                let report = Explorer::new()
                    .seconds(20)
                    .run(|s| {
                        let ring = s.ring(shape);
                        ring.preset();
                        s.task("driver", ring.reference_driver(Load::new(requests, depth)));
                        s.background("device", ring.reference_device());
                    })
                    .unwrap();
                println!("{requests} {depth} {shape:?}\n{report}");
                report.assert_no_failure();
            }
        }
    }
}
