//! Which orders of vmbell's queues are needed: each one is weakened, and the pair explored again.

use vmbell_check::{Explorer, Format, Model, Operation, Owner};
use vmbell_subjects::{Work, device, driver, weaken};

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
                let weakening = weaken(&explorer, &driver, &device, shape, Work::new(2, 2));
                let weakening = weakening.expect("it is complete and clean");
                println!("{shape:?}:\n{weakening}");
                let fences = weakening.sites.iter();
                let fences = fences.filter(|site| site.operation == Operation::Fence);
                let mut functions = Vec::new();
                for site in fences {
                    let [(_, effect)] = &*site.effects else {
                        // That of the `Arc` that the scenario's sides share.
                        let arc = Owner::Standard("Arc::drop".to_string());
                        assert_eq!(site.owner, arc, "{weakening}");
                        continue;
                    };
                    assert_eq!(
                        effect.in_words(site.order),
                        "needed",
                        "{shape:?}, {model:?}"
                    );
                    functions.extend(site.function.split(' ').next());
                }
                functions.sort_unstable();
                assert_eq!(functions, FENCED, "{shape:?}, {model:?}");
            }
        }
    }
}
