//! Notifications that are not eventfds: what state each keeps, and that a defect in their use is found.

use vmbell_check::{
    Explorer, Memory, Message, Model, Order, Report, Scenario, Width, choose, claim,
};

fn explore(set_up: impl FnMut(&mut Scenario)) -> Report {
    let report = Explorer::new().run(set_up);
    report.expect("it can be explored")
}

#[track_caller]
fn loses(report: &Report, line: &str) {
    let failure = report.failure().expect("a notification is lost");
    let trace = failure.trace.join("\n");
    assert!(trace.contains(line), "{report}");
}

/// How much work a device has done, and a driver has seen.
#[derive(Clone, Copy)]
struct Done(Memory);

impl Done {
    fn set(self, count: u64) {
        self.0.store(0, 4, count, Order::Release);
    }
    fn get(self) -> u64 {
        self.0.load(0, 4, Order::Acquire)
    }
}

/// A driver that masks its vector while it looks for work, unmasks it, and then sleeps.
fn masking_driver(scenario: &mut Scenario, keeps_pending: bool) {
    let done = Done(scenario.memory());
    scenario.name(0, 4, "done");
    let msi = scenario.msi("msi");
    let broken = scenario.word("vector", &["interrupt", "masked"]);
    scenario.task("driver", move || {
        let mut seen = 0;
        while seen < 2 {
            if keeps_pending {
                msi.wait();
                msi.mask();
                seen = done.get();
                msi.unmask();
            } else {
                broken.wait(1, |bits| bits & !1);
                broken.update(|bits| bits | 2);
                seen = done.get();
                broken.update(|bits| bits & !2);
            }
        }
    });
    scenario.background("device", move || {
        for count in [1, 2] {
            done.set(count);
            if keeps_pending {
                msi.signal();
            } else {
                broken.update(|bits| if bits & 2 == 0 { bits | 1 } else { bits });
            }
        }
    });
}

#[test]
fn a_masked_vector_keeps_its_signal_in_the_pending_bit() {
    let report = explore(|scenario| masking_driver(scenario, true));
    report.assert_complete().assert_no_failure();
}

#[test]
fn a_masked_vector_without_a_pending_bit_loses_a_signal() {
    let report = explore(|scenario| masking_driver(scenario, false));
    loses(&report, "vector: [masked] -> []");
    loses(&report, "sleeps; it waits for interrupt");
}

/// A driver that reads the status, then looks for work, then ends the interrupt.
fn level_driver(scenario: &mut Scenario, resamples: bool, late: bool) {
    let done = Done(scenario.memory());
    scenario.name(0, 4, "done");
    let sleeper = scenario.sleeper("device", &["resample"]);
    let level = scenario.level("intx", sleeper.bell(0));
    scenario.task("driver", move || {
        let mut seen = 0;
        while seen < 2 {
            level.wait();
            if late {
                seen = done.get();
                level.acknowledge();
            } else if level.acknowledge() {
                seen = done.get();
            }
            level.end();
        }
    });
    scenario.background("device", move || {
        for count in [1, 2] {
            done.set(count);
            level.signal();
        }
        loop {
            sleeper.wait();
            if resamples {
                level.resample();
            }
        }
    });
}

#[test]
fn a_level_line_is_raised_again_after_the_end_of_interrupt() {
    let report = explore(|scenario| level_driver(scenario, true, false));
    report.assert_complete().assert_no_failure();
}

#[test]
fn a_level_line_that_is_not_resampled_loses_a_signal() {
    let report = explore(|scenario| level_driver(scenario, false, false));
    loses(&report, "intx: [line, in service, status] -> [status]");
}

#[test]
fn a_status_that_is_read_after_the_work_loses_a_signal() {
    let report = explore(|scenario| level_driver(scenario, true, true));
    loses(&report, "driver  sleeps; it waits for interrupt");
}

/// When a front end checks the call fd that it replaced.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Look {
    AfterReply,
    BeforeReply,
    Never,
}

/// A front end replaces the call fd while the back end works.
fn replace_call(scenario: &mut Scenario, look: Look) {
    let done = Done(scenario.memory());
    scenario.name(0, 4, "done");
    let fds = scenario.vhost_user();
    scenario.task("front end", move || {
        fds.kick(0);
        fds.send(Message::SetCall(1));
        let early = look == Look::BeforeReply && fds.take_call(0);
        fds.wait_for_reply();
        let late = look == Look::AfterReply && fds.take_call(0);
        if !early && !late {
            fds.wait_for_call(1);
        }
        claim(done.get() == 1, || "called with nothing done".to_string());
    });
    scenario.background("back end", move || {
        let mut call = 0;
        loop {
            let (kicked, message) = fds.wait(0);
            if kicked {
                done.set(1);
                fds.call(call);
            }
            if let Some(Message::SetCall(fd)) = message {
                call = fd;
                fds.reply();
            }
        }
    });
}

#[test]
fn a_replaced_call_fd_that_is_looked_at_after_the_reply_loses_nothing() {
    let report = explore(|scenario| replace_call(scenario, Look::AfterReply));
    report.assert_complete().assert_no_failure();
}

#[test]
fn a_replaced_call_fd_that_is_not_looked_at_after_the_reply_loses_a_signal() {
    for look in [Look::BeforeReply, Look::Never] {
        let report = explore(|scenario| replace_call(scenario, look));
        loses(&report, "front end  sleeps; it waits for call fd 1");
    }
}

/// A front end replaces the kick fd after it has kicked.
fn replace_kick(scenario: &mut Scenario, looks: bool) {
    let asked = Done(scenario.memory());
    scenario.name(0, 4, "asked");
    let fds = scenario.vhost_user();
    scenario.task("front end", move || {
        asked.set(1);
        fds.kick(0);
        fds.send(Message::SetKick(1));
        fds.wait_for_call(0);
    });
    scenario.background("back end", move || {
        let mut kick = 0;
        loop {
            let (mut kicked, message) = fds.wait(kick);
            if let Some(Message::SetKick(fd)) = message {
                kick = fd;
                // The kick of the old fd may have arrived with the message, or after it.
                kicked = looks;
            }
            if kicked && asked.get() == 1 {
                fds.call(0);
            }
        }
    });
}

#[test]
fn a_replaced_kick_fd_loses_a_kick_unless_the_back_end_looks_at_the_ring() {
    let report = explore(|scenario| replace_kick(scenario, true));
    report.assert_complete().assert_no_failure();
    let report = explore(|scenario| replace_kick(scenario, false));
    loses(
        &report,
        "back end  sleeps; it waits for kick fd 1 or message",
    );
}

/// Returns whether a poller is told that nothing is new although the device has used `buffers` more.
fn is_fooled(width: Width, buffers: u64) -> bool {
    let explorer = Explorer::new().models([Model::Sc, Model::Rc11]);
    let report = explorer.run(|scenario| {
        let polled = scenario.polled("used", 0);
        scenario.task("device", move || {
            let first = if choose(2) == 0 { 1 } else { buffers / 2 };
            polled.advance(first);
            polled.advance(buffers - first);
        });
        scenario.task("driver", move || {
            let token = polled.token(0, width);
            let count = polled.count();
            claim(token.is_older_than(count) || count == 0, || {
                format!("the driver is told that none of {count} buffers is new")
            });
        });
    });
    let report = report.expect("it can be explored");
    report.assert_complete();
    report.failure().is_some()
}

#[test]
fn a_poller_with_an_index_is_fooled_after_65536_buffers() {
    assert!(is_fooled(Width::Index, 1 << 16));
    for buffers in [2, (1 << 16) - 1, (1 << 16) + 1] {
        assert!(!is_fooled(Width::Index, buffers), "{buffers} buffers");
    }
}

#[test]
fn a_poller_that_counts_wraps_in_16_bits_is_fooled_after_4294967296_buffers() {
    assert!(is_fooled(Width::IndexAndWraps, 1 << 32));
    for buffers in [1 << 16, (1 << 32) - 1, (1 << 32) + 1] {
        assert!(
            !is_fooled(Width::IndexAndWraps, buffers),
            "{buffers} buffers"
        );
    }
}

#[test]
fn a_poller_with_the_whole_count_is_not_fooled() {
    for buffers in [1 << 16, 1 << 32, 1 << 48, u64::MAX] {
        assert!(!is_fooled(Width::Count, buffers), "{buffers} buffers");
    }
}

#[test]
fn a_signal_that_is_taken_back_wakes_no_task() {
    let report = explore(|scenario| {
        let sleeper = scenario.sleeper("driver", &["interrupt"]);
        scenario.task("driver", move || {
            sleeper.wait();
        });
        scenario.background("device", move || {
            sleeper.bell(0).signal();
            sleeper.bell(0).clear();
        });
    });
    loses(&report, "device: takes interrupt back");
    let report = explore(|scenario| {
        let sleeper = scenario.sleeper("driver", &["interrupt"]);
        scenario.task("driver", move || {
            sleeper.wait();
        });
        scenario.background("device", move || {
            sleeper.bell(0).signal();
            sleeper.bell(0).clear();
            sleeper.bell(0).signal();
        });
    });
    report.assert_complete().assert_no_failure();
}

#[test]
fn two_tasks_that_wait_for_the_same_signal_are_refused() {
    let result = Explorer::new().run(|scenario| {
        let sleeper = scenario.sleeper("driver", &["interrupt"]);
        for name in ["one", "two"] {
            scenario.task(name, move || {
                sleeper.wait();
            });
        }
        scenario.background("device", move || sleeper.bell(0).signal());
    });
    let error = result.expect_err("only one of them is followed");
    assert!(error.to_string().contains("waits for a signal of driver"));
}
