//! Each fence of vmbell's queues is needed: without it, a notification is lost.

use vmbell_check::{Explorer, Format, Model};
use vmbell_subjects::{Work, device, driver, fences};

/// The functions of both sides that need a full fence: before asking whether to notify, and before the last look.
const FENCED: [&str; 4] = [
    "ask",
    "enable_notification",
    "kick_prepare",
    "needs_notification",
];

#[test]
fn vmbell_needs_each_of_its_fences() {
    let (driver, device) = (driver("vmbell"), device("vmbell"));
    for format in [Format::Split, Format::Packed] {
        for event_idx in [false, true] {
            let shape = driver.smallest_ring(format, event_idx);
            for model in [Model::Tso, Model::Rc11] {
                let explorer = Explorer::new()
                    .models([model])
                    .seconds(vmbell_subjects::HANG);
                let fences = fences(&explorer, &driver, &device, shape, Work::new(2, 2));
                let fences = fences.expect("it can be explored");
                for fence in &fences {
                    println!("{shape:?}: {fence}");
                }
                // The other fences belong to the `Arc` that the scenario's sides share.
                let needed = fences.iter().filter(|fence| fence.needed.is_some());
                let functions = needed.filter_map(|fence| fence.place.split(',').next());
                let mut functions: Vec<&str> = functions.collect();
                functions.sort_unstable();
                assert_eq!(functions, FENCED, "{shape:?}, {model:?}");
                let others = fences.iter().filter(|fence| fence.needed.is_none());
                for fence in others {
                    let is_shared = fence.place.contains("scenario.rs");
                    assert!(is_shared, "{fence}");
                }
            }
        }
    }
}
