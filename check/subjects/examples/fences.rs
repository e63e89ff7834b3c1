//! Explores a driver and a device without each of their fences in turn, and prints which fences are needed.
//!
//! `fences DRIVER DEVICE [REQUESTS]`: TSO and RC11, each format that both support, with and without an event index. The
//! fences that a subject lacks are added, and tested in the same way.

use vmbell_check::{Explorer, Format, Model};
use vmbell_subjects::{Work, device, driver, fences};

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [one, two, rest @ ..] = &*arguments else {
        eprintln!("usage: fences DRIVER DEVICE [REQUESTS]");
        std::process::exit(2);
    };
    let requests = rest
        .first()
        .map_or(2, |word| word.parse().expect("a number"));
    let (driver, device) = (driver(one), device(two));
    for format in [Format::Split, Format::Packed] {
        if !device.serves(&driver, format) {
            continue;
        }
        for event_idx in [false, true] {
            let shape = driver.smallest_ring(format, event_idx);
            let work = Work {
                mended: true,
                ..Work::new(requests, 2)
            };
            println!("{format:?}, event index {event_idx}, {requests} requests");
            for model in [Model::Tso, Model::Rc11] {
                let explorer = Explorer::new().models([model]).seconds(60);
                match fences(&explorer, &driver, &device, shape, work) {
                    Ok(fences) => fences
                        .iter()
                        .for_each(|fence| println!("{model:?}: {fence}")),
                    Err(error) => eprintln!("error: {error}"),
                }
            }
        }
    }
}
