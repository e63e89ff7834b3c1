//! Each known lost notification is found, and the search with its smallest fix is clean and complete.

use vmbell_check::{Explorer, Failure, Model, Shape, What};
use vmbell_subjects::counts::{virtio_driver_kicks_after, virtio_queue_interrupts_after};
use vmbell_subjects::{Device, Driver, Work, device, driver, pair};

/// A pair whose subject loses a notification, and where it does.
struct Finding {
    driver: Driver,
    device: Device,
    shape: Shape,
    work: Work,
    model: Model,
}

impl Finding {
    fn new(model: Model, one: &str, two: &str, shape: Shape) -> Finding {
        Finding {
            driver: driver(one),
            device: device(two),
            shape,
            work: Work::new(2, 2),
            model,
        }
    }

    fn explore(&self, model: Model, mended: bool) -> vmbell_check::Report {
        let explorer = Explorer::new()
            .models([model])
            .seconds(vmbell_subjects::HANG);
        let work = Work {
            mended,
            ..self.work
        };
        let report = pair(&explorer, &self.driver, &self.device, self.shape, work);
        report.expect("the pair can be explored")
    }

    /// Checks that `who` sleeps forever under the model, but not with the fix, nor under a stronger model.
    #[track_caller]
    fn is_found_and_mended(&self) -> Failure {
        let mut report = self.explore(self.model, false);
        let failure = report.verdicts[0].failure.take();
        let failure = failure.expect("a notification is lost");
        let tasks = vec!["driver".to_string()];
        assert_eq!(failure.what, What::Lost { tasks }, "{:#?}", failure.trace);
        if self.model == Model::Tso {
            let strong = self.explore(Model::Sc, false);
            strong.assert_no_failure().assert_complete();
        }
        let mended = self.explore(self.model, true);
        mended.assert_no_failure().assert_complete();
        failure
    }
}

#[test]
fn virtio_drivers_lacks_a_fence_before_it_asks_for_a_kick() {
    let shape = Shape::split(2, false);
    let mut finding = Finding::new(Model::Tso, "virtio-drivers", "virtio-queue", shape);
    finding.work.polls = true;
    finding.is_found_and_mended();
}

#[test]
fn virtio_drivers_lacks_a_fence_before_it_sleeps() {
    for event_idx in [false, true] {
        let shape = Shape::split(2, event_idx);
        let finding = Finding::new(Model::Tso, "virtio-drivers", "reference", shape);
        finding.is_found_and_mended();
    }
}

#[test]
fn virtio_drivers_compares_without_wrapping() {
    let shape = Shape::split(4, true).starting_at(65_534);
    let mut finding = Finding::new(Model::Sc, "virtio-drivers", "virtio-queue", shape);
    finding.work.requests = 3;
    finding.work.depth = 3;
    finding.work.batch = true;
    finding.is_found_and_mended();
}

#[cfg(feature = "alioth")]
#[test]
fn alioth_lacks_a_fence_before_it_asks_for_an_interrupt() {
    for shape in [
        Shape::split(2, false),
        Shape::split(2, true),
        Shape::packed(2, false),
        Shape::packed(2, true),
    ] {
        let finding = Finding::new(Model::Tso, "vmbell", "alioth", shape);
        finding.is_found_and_mended();
    }
}

/// This happens on arm64, for which alioth is also built.
#[cfg(feature = "alioth")]
#[test]
fn alioth_reads_an_available_entry_without_acquiring_it() {
    for event_idx in [false, true] {
        let finding = Finding::new(
            Model::Rc11,
            "reference",
            "alioth",
            Shape::split(2, event_idx),
        );
        let report = finding.explore(Model::Rc11, false);
        assert!(report.failure().is_some(), "{report}");
        let mended = finding.explore(Model::Rc11, true);
        mended.assert_no_failure().assert_complete();
    }
}

/// This happens on arm64. No adapter can fix it: the fence is missing between two stores of one function.
#[cfg(feature = "alioth")]
#[test]
fn alioth_marks_a_packed_descriptor_as_used_without_releasing_its_length() {
    let finding = Finding::new(
        Model::Rc11,
        "virtio-driver",
        "alioth",
        Shape::packed(4, false),
    );
    let report = finding.explore(Model::Rc11, true);
    let failure = report.failure().expect("a stale length is read");
    assert!(matches!(failure.what, What::Panicked(_)), "{report}");
    let strong = finding.explore(Model::Tso, true);
    strong.assert_no_failure().assert_complete();
}

/// The index 255 becomes 0 and then 256 for a driver that looks between two stores that the compiler did not merge.
#[test]
fn arcbox_stores_the_used_index_byte_by_byte() {
    let shape = Shape::split(2, true).starting_at(254);
    let mut finding = Finding::new(Model::Sc, "reference", "arcbox-virtio-core", shape);
    finding.work.requests = 3;
    let report = finding.explore(Model::Sc, false);
    let failure = report.failure().expect("a torn index is read");
    assert!(matches!(failure.what, What::Claim(_)), "{report}");
}

#[test]
fn uhyve_ignores_that_a_chain_is_waiting() {
    for event_idx in [false, true] {
        let shape = Shape::split(2, event_idx);
        let finding = Finding::new(Model::Sc, "vmbell", "uhyve", shape);
        finding.is_found_and_mended();
    }
}

#[test]
fn virtio_queue_forgets_what_it_added_when_it_is_saved() {
    let shape = Shape::split(2, true);
    let mut finding = Finding::new(Model::Sc, "reference", "virtio-queue", shape);
    finding.device = vmbell_subjects::RESTORED_VIRTIO_QUEUE;
    finding.is_found_and_mended();
}

#[test]
fn arcbox_lacks_a_fence_before_it_looks_at_the_flag() {
    let shape = Shape::split(2, false);
    let finding = Finding::new(Model::Tso, "vmbell", "arcbox-virtio-core", shape);
    finding.is_found_and_mended();
}

#[test]
fn virtio_driver_lacks_fences_around_the_flags() {
    let shape = Shape::split(2, false);
    for device in ["reference", "virtio-queue"] {
        let finding = Finding::new(Model::Tso, "virtio-driver", device, shape);
        finding.is_found_and_mended();
    }
}

/// Shows the bug if virtio-driver's user leaves interrupts enabled. A user that disables them until it sleeps is clean
/// (`pairs`).
#[test]
fn virtio_driver_lacks_a_fence_after_it_moves_the_event_of_a_packed_ring() {
    let shape = Shape::packed(4, true);
    let mut finding = Finding::new(Model::Tso, "virtio-driver", "reference", shape);
    finding.driver = vmbell_subjects::ALWAYS_ON_VIRTIO_DRIVER;
    finding.is_found_and_mended();
}

/// This happens in builds without overflow checks: see `Cargo.toml`.
#[test]
fn virtio_driver_forgets_a_kick_after_65534_descriptors_without_one() {
    for (requests, is_kicked) in [(32_766, true), (32_767, false), (32_768, true)] {
        let kicked = virtio_driver_kicks_after(requests);
        assert_eq!(kicked, is_kicked, "{requests} requests of two descriptors");
    }
}

/// The same failure as after a restore, but without a restore.
#[test]
fn virtio_queue_forgets_what_it_added_after_65536_buffers_without_a_question() {
    for (buffers, is_wanted) in [(65_535, true), (65_536, false), (65_537, true)] {
        let wanted = virtio_queue_interrupts_after(buffers);
        assert_eq!(wanted, is_wanted, "{buffers} buffers");
    }
}

#[cfg(feature = "krun")]
mod krun {
    use vmbell_check::{Explorer, Model, Report, What};
    use vmbell_subjects::krun::{Mend, explore_receive};

    const NONE: Mend = Mend {
        repeats: false,
        signals: false,
    };

    fn explore(model: Model, event_idx: bool, frames: u32, mend: Mend) -> Report {
        let explorer = Explorer::new()
            .models([model])
            .seconds(vmbell_subjects::HANG);
        let report = explore_receive(&explorer, event_idx, frames, mend);
        report.expect("it can be explored")
    }

    #[track_caller]
    fn stalls(frames: u32, mend: Mend) {
        for event_idx in [false, true] {
            let report = explore(Model::Sc, event_idx, frames, mend);
            let failure = report.failure().expect("the guest waits forever");
            let tasks = vec!["guest".to_string()];
            assert_eq!(failure.what, What::Lost { tasks }, "{report}");
        }
    }

    #[test]
    fn krun_net_stalls_if_a_burst_is_larger_than_the_ring() {
        stalls(3, NONE);
        stalls(4, NONE);
        for event_idx in [false, true] {
            let fits = explore(Model::Sc, event_idx, 2, NONE);
            fits.assert_no_failure().assert_complete();
        }
    }

    #[test]
    fn krun_net_does_not_interrupt_the_guest_for_a_frame_that_waited_for_a_buffer() {
        let half = Mend {
            repeats: true,
            ..NONE
        };
        stalls(3, half);
    }

    #[test]
    fn krun_net_needs_both_mends() {
        let other_half = Mend {
            signals: true,
            ..NONE
        };
        stalls(3, other_half);
        let both = Mend {
            repeats: true,
            signals: true,
        };
        for event_idx in [false, true] {
            for model in [Model::Sc, Model::Tso] {
                let mended = explore(model, event_idx, 3, both);
                mended.assert_no_failure().assert_complete();
            }
        }
    }
}
