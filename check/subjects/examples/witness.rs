//! Runs a driver and a device natively on two threads, and prints whether both ended up waiting forever.
//!
//! `cargo run --release --example witness -- DRIVER DEVICE [split|packed] [event-idx] [poll] [mended] [SECONDS]`

use std::time::Duration;

use vmbell_check::Shape;
use vmbell_subjects::{Work, device, driver, native};

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [one, two, rest @ ..] = &*arguments else {
        eprintln!(
            "usage: witness DRIVER DEVICE [split|packed] [event-idx] [poll] [mended] [SECONDS]"
        );
        std::process::exit(2);
    };
    let has = |word: &str| rest.iter().any(|other| other == word);
    let seconds = rest.iter().find_map(|word| word.parse().ok()).unwrap_or(20);
    let shape = if has("packed") {
        Shape::packed(8, has("event-idx"))
    } else {
        Shape::split(8, has("event-idx"))
    };
    let work = Work {
        polls: has("poll"),
        mended: has("mended"),
        ..Work::new(0, 1)
    };
    let time = Duration::from_secs(seconds);
    let outcome = native::run(&driver(one), &device(two), shape, work, time);
    println!("{one} / {two} {}: {outcome}", rest.join(" "));
}
