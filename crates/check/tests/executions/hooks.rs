//! Tasks whose accesses reach the checker as those of instrumented code do.
#![allow(unsafe_code)]

use vmbell_check::{Explorer, Model};

unsafe extern "C" {
    fn __tsan_atomic16_load(address: *const u16, order: i32) -> u16;
}

#[test]
fn instrumented_code_that_polls_for_ever_does_not_keep_an_exploration_from_ending() {
    let report = Explorer::new()
        .run(|scenario| {
            let word: *const u16 = scenario.memory().pointer().as_ptr().cast();
            scenario.background("poller", move || {
                // SAFETY: the word is in the shared memory, which is mapped while the task runs.
                while unsafe { __tsan_atomic16_load(word, 0) } == 0 {}
            });
        })
        .expect("it can be explored");
    report.assert_no_failure().assert_complete();
    assert_eq!(report.verdicts[0].model, Model::Sc);
}
