//! Saving and restoring a side loses no notification if the VMM signals what it did not save.

use vmbell_check::{Explorer, Format, Model, Report};
use vmbell_subjects::resume::{Place, Resume, SAVED_QUEUES, SavedQueue, resumed};
use vmbell_subjects::{RESTORED_DRIVER, Work, device, pair};

/// A restored side differs in what it remembers, which models do not reorder: two models are enough.
const STRONG: [Model; 2] = [Model::Sc, Model::Tso];

fn explore(queue: &SavedQueue, event_idx: bool, resume: Resume, models: &[Model]) -> Report {
    let explorer = Explorer::new()
        .models(models.iter().copied())
        .seconds(vmbell_subjects::HANG)
        .stop_at_first_failure();
    let report = resumed(&explorer, queue, event_idx, resume, 2);
    report.expect("the queue can be explored")
}

#[track_caller]
fn is_clean(queue: &SavedQueue, event_idx: bool, resume: Resume, models: &[Model]) {
    let report = explore(queue, event_idx, resume, models);
    let good = report.failure().is_none() && report.is_complete();
    assert!(
        good,
        "{}, event index: {event_idx}, {resume}:\n{report}",
        queue.name
    );
}

#[track_caller]
fn loses(queue: &SavedQueue, event_idx: bool, resume: Resume) {
    let models = [Model::Sc];
    let report = explore(queue, event_idx, resume, &models);
    assert!(
        report.failure().is_some(),
        "{}, event index: {event_idx}, {resume}: no notification is lost\n{report}",
        queue.name
    );
}

/// Runs `check` for each queue, with and without an event index.
fn each(check: impl Fn(&SavedQueue, bool)) {
    for queue in &SAVED_QUEUES {
        for event_idx in [false, true] {
            check(queue, event_idx);
        }
    }
}

#[test]
fn a_kick_and_an_interrupt_on_resume_suffice_wherever_a_device_is_saved() {
    each(|queue, event_idx| {
        let models = [Model::Sc, Model::Tso, Model::Rc11];
        is_clean(queue, event_idx, Resume::SAFE, &models);
    });
}

#[test]
fn a_device_that_is_saved_while_it_sleeps_needs_the_signals_that_were_not_saved() {
    /// A device saved in its event loop, with which of the kick and the interrupt are kept, and which are sent.
    fn asleep(keeps: (bool, bool), sends: (bool, bool)) -> Resume {
        Resume {
            place: Place::EventLoop,
            keeps_kick: keeps.0,
            keeps_interrupt: keeps.1,
            kicks: sends.0,
            interrupts: sends.1,
            goes_on: false,
        }
    }
    each(|queue, event_idx| {
        let clean = |resume| is_clean(queue, event_idx, resume, &STRONG);
        clean(asleep((true, true), (false, false)));
        clean(asleep((false, true), (true, false)));
        clean(asleep((true, false), (false, true)));
        loses(queue, event_idx, asleep((false, true), (false, true)));
        loses(queue, event_idx, asleep((true, false), (true, false)));
    });
}

#[test]
fn a_device_that_is_saved_in_its_handler_needs_both_signals_even_if_all_were_saved() {
    each(|queue, event_idx| {
        for (kicks, interrupts) in [(true, false), (false, true)] {
            let resume = Resume {
                keeps_kick: true,
                keeps_interrupt: true,
                kicks,
                interrupts,
                ..Resume::SAFE
            };
            loses(queue, event_idx, resume);
        }
    });
}

#[test]
fn a_restored_device_of_vmbell_goes_on_as_if_it_had_not_been_saved() {
    each(|queue, event_idx| {
        // The queue forgets buffers about which it was not asked: see `findings`.
        if queue.name == "virtio-queue" && event_idx {
            loses(queue, event_idx, Resume::UNSEEN);
        } else {
            is_clean(queue, event_idx, Resume::UNSEEN, &STRONG);
        }
    });
}

#[test]
fn a_restored_driver_of_vmbell_goes_on_as_if_it_had_not_been_saved() {
    let explorer = Explorer::new()
        .models(STRONG)
        .seconds(vmbell_subjects::HANG);
    for format in [Format::Split, Format::Packed] {
        for event_idx in [false, true] {
            let shape = RESTORED_DRIVER.smallest_ring(format, event_idx);
            for batch in [false, true] {
                let work = Work {
                    batch,
                    ..Work::new(2, 2)
                };
                let report = pair(
                    &explorer,
                    &RESTORED_DRIVER,
                    &device("reference"),
                    shape,
                    work,
                );
                let report = report.expect("the pair can be explored");
                report.assert_no_failure().assert_complete();
            }
        }
    }
}
