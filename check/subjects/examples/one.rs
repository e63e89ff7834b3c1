//! Explores one driver with one device under one model, and prints the trace of a failure. With `weaken`, prints which
//! orders the pair needs, and what happens without them.
//!
//! `one DRIVER DEVICE [weaken] [packed] [event-idx] [in-order] [poll] [batch] [at-once] [late] [armed] [mended] [sc|tso|rc11]
//! [requests=N] [depth=N] [budget=N] [size=N] [start=N]`

use vmbell_check::{Explorer, Model, Shape};
use vmbell_subjects::{Work, device, driver, pair, weaken};

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [one, two, rest @ ..] = &*arguments else {
        eprintln!("usage: one DRIVER DEVICE [OPTION...]");
        std::process::exit(2);
    };
    let has = |word: &str| rest.iter().any(|other| other == word);
    let number = |name: &str, default: u16| {
        let given = rest
            .iter()
            .find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
        given.map_or(default, |value| value.parse().expect("a number"))
    };
    let size = number("size", 2);
    let shape = if has("packed") {
        Shape::packed(size, has("event-idx"))
    } else {
        Shape::split(size, has("event-idx")).starting_at(number("start", 0))
    };
    let shape = if has("in-order") {
        shape.in_order()
    } else {
        shape
    };
    let work = Work {
        batch: has("batch"),
        at_once: has("at-once"),
        late: has("late"),
        armed: has("armed"),
        budget: number("budget", u16::MAX).into(),
        polls: has("poll"),
        mended: has("mended"),
        ..Work::new(number("requests", 2).into(), number("depth", 2).into())
    };
    let models = [
        ("sc", Model::Sc),
        ("tso", Model::Tso),
        ("rc11", Model::Rc11),
    ];
    let models = models
        .into_iter()
        .filter(|(name, _)| has(name))
        .map(|(_, model)| model);
    let explorer = Explorer::new().models(models).seconds(60);
    if has("weaken") {
        match weaken(&explorer, &driver(one), &device(two), shape, work) {
            Ok(weakening) => {
                println!("{weakening}");
                weakening.sites.iter().for_each(|site| print!("{site}"));
            }
            Err(error) => eprintln!("error: {error}"),
        }
        return;
    }
    match pair(&explorer, &driver(one), &device(two), shape, work) {
        Ok(report) => print!("{report}"),
        Err(error) => eprintln!("error: {error}"),
    }
}
