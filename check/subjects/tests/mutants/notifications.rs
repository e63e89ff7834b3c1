//! Defects around notifications: MSI-X vectors, level lines, vhost-user's fds, one eventfd for two queues, and poll tokens.
//!
//! A device counts its work in the shared memory and notifies; a driver that is notified reads the count.

use vmbell_check::{Memory, Message, Order, Scenario, Width, claim};

use crate::table::{Fate, Mutant, Scene, control, defects, hunt};

defects! {
    MsiWithoutPendingBit "MSI-X: a signal of a masked vector is dropped";
    MsiUnmaskDeliversNothing "MSI-X: unmasking does not deliver what is pending";
    LevelWithoutResample "level: the line is not raised again after the end of interrupt";
    LevelStatusAfterWork "level: the driver reads the status after the work";
    LevelStatusForgotten "level: the device does not set the status";
    CallFdForgotten "vhost-user: the old call fd is not looked at after it was replaced";
    CallFdBeforeReply "vhost-user: the old call fd is looked at before the reply";
    KickFdForgotten "vhost-user: the back end does not look at the ring when the kick fd is replaced";
    OneQueueOfTwo "one eventfd for two queues: the device serves the first that has work";
    IndexToken "poll: the token is a 16-bit index, and 65,536 buffers are used";
    WrapToken "poll: the token is an index and 16 bits of wraps, and 2^32 buffers are used";
    LevelRaisesFirst "level: the device raises the line before it sets the status"
        equivalent "the device sees its status when the line is resampled";
    LevelResamplesAlways "level: the line is raised again although the status is clear"
        equivalent "the driver finds that the interrupt is not its device's";
}

use Defect as D;

/// A counter in the shared memory.
#[derive(Clone, Copy)]
struct Count(Memory, usize);

impl Count {
    fn new(scenario: &mut Scenario, at: usize, name: &str) -> Count {
        scenario.name(at, 4, name);
        Count(scenario.memory(), at)
    }
    fn set(self, count: u64) {
        self.0.store(self.1, 4, count, Order::Release);
    }
    fn get(self) -> u64 {
        self.0.load(self.1, 4, Order::Acquire)
    }
}

/// An MSI-X vector as a VMM emulates it: interrupt, masked, pending.
fn msi(scenario: &mut Scenario, defect: Defect) {
    let done = Count::new(scenario, 0, "done");
    let vector = scenario.word("vector", &["interrupt", "masked", "pending"]);
    scenario.task("driver", move || {
        let mut seen = 0;
        while seen < 2 {
            vector.wait(1, |bits| bits & !1);
            vector.update(|bits| bits | 2);
            seen = done.get();
            vector.update(
                |bits| match bits & 4 != 0 && defect != D::MsiUnmaskDeliversNothing {
                    true => bits & !6 | 1,
                    false => bits & !6,
                },
            );
        }
    });
    scenario.background("device", move || {
        for count in [1, 2] {
            done.set(count);
            vector.update(|bits| match bits & 2 {
                0 => bits | 1,
                _ if defect == D::MsiWithoutPendingBit => bits,
                _ => bits | 4,
            });
        }
    });
}

fn level(scenario: &mut Scenario, defect: Defect) {
    let done = Count::new(scenario, 0, "done");
    let sleeper = scenario.sleeper("device", &["resample"]);
    let line = scenario.level("line", sleeper.bell(0));
    scenario.task("driver", move || {
        let mut seen = 0;
        while seen < 2 {
            line.wait();
            if defect == D::LevelStatusAfterWork {
                seen = done.get();
                line.acknowledge();
            } else if line.acknowledge() {
                seen = done.get();
            }
            line.end();
        }
    });
    scenario.background("device", move || {
        for count in [1, 2] {
            done.set(count);
            match defect {
                D::LevelRaisesFirst => {
                    line.raise();
                    line.set_status();
                }
                D::LevelStatusForgotten => line.raise(),
                _ => line.signal(),
            }
        }
        // Two interrupts, and perhaps one more after each of them.
        for _ in 0..4 {
            sleeper.wait();
            match defect {
                D::LevelWithoutResample => {}
                D::LevelResamplesAlways => line.raise(),
                _ => line.resample(),
            }
        }
    });
}

fn call_fd(scenario: &mut Scenario, defect: Defect) {
    let done = Count::new(scenario, 0, "done");
    let fds = scenario.vhost_user();
    scenario.task("front end", move || {
        fds.kick(0);
        fds.send(Message::SetCall(1));
        let early = defect == D::CallFdBeforeReply && fds.take_call(0);
        fds.wait_for_reply();
        let called = match defect {
            D::CallFdForgotten | D::CallFdBeforeReply => early,
            _ => fds.take_call(0),
        };
        if !called {
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

fn kick_fd(scenario: &mut Scenario, defect: Defect) {
    let asked = Count::new(scenario, 0, "asked");
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
                // The old fd is closed, whether it has a kick or not.
                kicked = defect != D::KickFdForgotten;
            }
            if kicked && asked.get() == 1 {
                fds.call(0);
            }
        }
    });
}

fn two_queues(scenario: &mut Scenario, defect: Defect) {
    let queues = [
        Count::new(scenario, 0, "queue 0"),
        Count::new(scenario, 8, "queue 1"),
    ];
    let device = scenario.sleeper("device", &["kick"]);
    let driver = scenario.sleeper("driver", &["queue 0", "queue 1"]);
    scenario.task("driver", move || {
        for queue in queues {
            queue.set(1);
            device.bell(0).signal();
        }
        let mut answered = 0;
        while answered != 3 {
            answered |= driver.wait();
        }
    });
    scenario.background("device", move || {
        let mut served = [false; 2];
        loop {
            device.wait();
            for (at, queue) in (0_u8..).zip(queues) {
                let served = &mut served[usize::from(at)];
                if !*served && queue.get() == 1 {
                    *served = true;
                    driver.bell(at).signal();
                    if defect == D::OneQueueOfTwo {
                        break;
                    }
                }
            }
        }
    });
}

fn token(scenario: &mut Scenario, defect: Defect) {
    let (width, buffers) = match defect {
        D::IndexToken => (Width::Index, 1 << 16),
        D::WrapToken => (Width::IndexAndWraps, 1 << 32),
        _ => (Width::Count, 1 << 32),
    };
    let polled = scenario.polled("used", 0);
    scenario.task("device", move || {
        polled.advance(1);
        polled.advance(buffers - 1);
    });
    scenario.task("driver", move || {
        let token = polled.token(0, width);
        let count = polled.count();
        claim(token.is_older_than(count) || count == 0, || {
            format!("the driver is told that none of {count} buffers is new")
        });
    });
}

fn scene(name: &str, set_up: fn(&mut Scenario, Defect), defect: Defect) -> Scene {
    Scene {
        name: name.to_string(),
        explore: Box::new(move |explorer| {
            let report = explorer.run(|scenario| set_up(scenario, defect));
            report.expect("it can be explored")
        }),
    }
}

fn scenes(defect: Defect) -> Vec<Scene> {
    let of = |name, set_up| vec![scene(name, set_up, defect)];
    match defect {
        D::None => [msi, level, call_fd, kick_fd, two_queues, token]
            .into_iter()
            .map(|set_up| scene("control", set_up, defect))
            .collect(),
        D::MsiWithoutPendingBit | D::MsiUnmaskDeliversNothing => of("two signals", msi),
        D::CallFdForgotten | D::CallFdBeforeReply => of("one call", call_fd),
        D::KickFdForgotten => of("one kick", kick_fd),
        D::OneQueueOfTwo => of("one request each", two_queues),
        D::IndexToken | D::WrapToken => of("one poll", token),
        _ => of("two signals", level),
    }
}

#[test]
fn mutants_of_notifications_are_killed() {
    hunt("Notifications", 13, Mutant::all(DEFECTS, scenes));
}

#[test]
fn notifications_without_a_defect_lose_nothing() {
    control(scenes(Defect::None));
}
