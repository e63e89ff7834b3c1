use std::io::Read;
use std::sync::mpsc::channel;

use super::*;
use crate::job::ProgramEnding;

/// Whatever takes this long has hung.
const HANG: Duration = Duration::from_secs(120);
const LIMITS: TimeLimits = TimeLimits {
    boot: HANG,
    program: HANG,
};

const PATIENCE: Patience = Patience {
    ending: SHORT,
    leaving: LEAVING,
    to_the_end: true,
    answering: LONGEST,
    looking: LOOKING,
};

const SHORT: Duration = Duration::from_millis(30);

/// The `waited` of a host on which QEMU never waits for a CPU.
const fn never() -> Duration {
    Duration::ZERO
}

fn report(sent: [u64; 3]) -> RunReport {
    RunReport {
        ending: ProgramEnding::Exited(0),
        sent,
        notes: Vec::new(),
        exits: Vec::new(),
        between_marks: Vec::new(),
    }
}

#[test]
fn l1_is_let_go_only_when_all_that_it_sent_was_read() {
    let (sender, events) = channel();
    let (mut control, mut l1) = UnixStream::pair().unwrap();
    sender
        .send(BootEvent::Bytes(ProgramStream::Stdout, 3))
        .unwrap();
    sender
        .send(BootEvent::Said(InitMessage::Report(report([5, 1, 0]))))
        .unwrap();
    sender
        .send(BootEvent::Bytes(ProgramStream::Stderr, 1))
        .unwrap();
    let follower =
        std::thread::spawn(move || Course::follow(&events, &mut control, LIMITS, PATIENCE, never));
    l1.set_read_timeout(Some(Duration::from_millis(50)))
        .unwrap();
    assert!(
        l1.read(&mut [0]).is_err(),
        "two bytes of standard output are missing"
    );
    sender
        .send(BootEvent::Bytes(ProgramStream::Stdout, 2))
        .unwrap();
    l1.set_read_timeout(Some(HANG)).unwrap();
    assert_eq!(l1.read(&mut [0]).unwrap(), 1);
    sender
        .send(BootEvent::Ended(Duration::from_secs(3)))
        .unwrap();
    let course = follower.join().unwrap();
    assert!(course.complete());
    assert_eq!(course.cpu, Some(Duration::from_secs(3)));
}

#[test]
fn a_boot_that_says_nothing_ends_at_its_limit() {
    let (_sender, events) = channel();
    let (mut control, _l1) = UnixStream::pair().unwrap();
    let course = Course::follow(
        &events,
        &mut control,
        TimeLimits {
            boot: SHORT,
            ..LIMITS
        },
        PATIENCE,
        never,
    );
    assert_eq!((course.cpu, course.started), (None, None));
    assert!(!course.complete());
}

#[test]
fn time_without_a_cpu_is_added_to_a_limit() {
    let (_sender, events) = channel();
    let (mut control, _l1) = UnixStream::pair().unwrap();
    let asked = std::cell::Cell::new(0);
    // QEMU waits for a CPU during the limit itself, but not during the time that is added for that wait.
    let waited = || {
        asked.set(asked.get() + 1);
        if asked.get() == 1 {
            Duration::ZERO
        } else {
            SHORT
        }
    };
    let limits = TimeLimits {
        boot: SHORT,
        ..LIMITS
    };
    let course = Course::follow(&events, &mut control, limits, PATIENCE, waited);
    assert_eq!(course.started, None);
    assert!(asked.get() > 2, "the limit ended without a second look");
}

#[test]
fn a_program_at_its_limit_is_asked_to_end_and_then_killed_and_what_it_wrote_is_waited_for() {
    let (sender, events) = channel();
    let (mut control, mut l1) = UnixStream::pair().unwrap();
    sender.send(BootEvent::Said(InitMessage::Started)).unwrap();
    let follower = std::thread::spawn(move || {
        Course::follow(
            &events,
            &mut control,
            TimeLimits {
                program: SHORT,
                ..LIMITS
            },
            PATIENCE,
            never,
        )
    });
    l1.set_read_timeout(Some(HANG)).unwrap();
    // A program that never stops writing does not delay its end.
    let writer = sender.clone();
    let flood = std::thread::spawn(move || {
        while writer
            .send(BootEvent::Bytes(ProgramStream::Stderr, 1))
            .is_ok()
        {}
    });
    let mut answer = [0];
    for expected in [answer::END, answer::STOP] {
        l1.read_exact(&mut answer).unwrap();
        assert_eq!(answer, [expected]);
    }
    sender
        .send(BootEvent::Said(InitMessage::Report(report([5, 0, 0]))))
        .unwrap();
    sender
        .send(BootEvent::Bytes(ProgramStream::Stdout, 5))
        .unwrap();
    l1.read_exact(&mut answer).unwrap();
    assert_eq!(answer, [answer::LEAVE]);
    sender.send(BootEvent::Ended(Duration::ZERO)).unwrap();
    let course = follower.join().unwrap();
    assert!(course.complete() && course.started.is_some());
    flood.join().unwrap();
}

#[test]
fn a_program_that_ends_when_it_is_asked_to_is_not_killed_and_had_reached_its_limit() {
    let (sender, events) = channel();
    let (mut control, mut l1) = UnixStream::pair().unwrap();
    sender.send(BootEvent::Said(InitMessage::Started)).unwrap();
    let limits = TimeLimits {
        program: SHORT,
        ..LIMITS
    };
    let patience = Patience {
        ending: HANG,
        ..PATIENCE
    };
    let follower =
        std::thread::spawn(move || Course::follow(&events, &mut control, limits, patience, never));
    l1.set_read_timeout(Some(HANG)).unwrap();
    let mut answer = [0];
    l1.read_exact(&mut answer).unwrap();
    assert_eq!(answer, [answer::END]);
    sender
        .send(BootEvent::Said(InitMessage::Report(report([0; 3]))))
        .unwrap();
    l1.read_exact(&mut answer).unwrap();
    assert_eq!(answer, [answer::LEAVE]);
    sender.send(BootEvent::Ended(Duration::ZERO)).unwrap();
    let course = follower.join().unwrap();
    assert_eq!(course.report.unwrap().ending, ProgramEnding::Stopped);
}

#[test]
fn a_linux_inside_passes_on_that_its_program_has_to_end_and_waits() {
    let (sender, events) = channel();
    let (mut control, mut inner) = UnixStream::pair().unwrap();
    for event in [
        BootEvent::Said(InitMessage::Started),
        BootEvent::End,
        BootEvent::End,
    ] {
        sender.send(event).unwrap();
    }
    let follower =
        std::thread::spawn(move || Course::follow(&events, &mut control, LIMITS, PATIENCE, never));
    inner.set_read_timeout(Some(HANG)).unwrap();
    let mut answer = [0];
    inner.read_exact(&mut answer).unwrap();
    assert_eq!(answer, [answer::END]);
    sender.send(BootEvent::Stop).unwrap();
    inner.read_exact(&mut answer).unwrap();
    assert_eq!(answer, [answer::STOP], "asked once");
    sender.send(BootEvent::Ended(Duration::ZERO)).unwrap();
    follower.join().unwrap();
}

#[test]
fn after_a_panic_nothing_else_is_waited_for() {
    let (sender, events) = channel();
    let (mut control, _l1) = UnixStream::pair().unwrap();
    sender.send(BootEvent::Said(InitMessage::Started)).unwrap();
    sender.send(BootEvent::Panicked).unwrap();
    let course = Course::follow(&events, &mut control, LIMITS, PATIENCE, never);
    assert_eq!(course.cpu, None);
}

#[test]
fn what_comes_after_the_end_still_counts() {
    let (sender, events) = channel();
    let (mut control, _l1) = UnixStream::pair().unwrap();
    sender.send(BootEvent::Ended(Duration::ZERO)).unwrap();
    sender
        .send(BootEvent::Said(InitMessage::Report(report([2, 0, 0]))))
        .unwrap();
    sender
        .send(BootEvent::Bytes(ProgramStream::Stdout, 2))
        .unwrap();
    sender.send(BootEvent::Said(InitMessage::Started)).unwrap();
    let mut course = Course::follow(&events, &mut control, LIMITS, PATIENCE, never);
    assert!(!course.complete() && course.started.is_none());
    course.drain(&events, SHORT);
    assert!(course.complete() && course.started == Some(SHORT));
}

#[test]
fn a_stop_goes_to_a_linux_that_can_answer_and_ends_one_that_cannot() {
    let (sender, events) = channel();
    let (mut control, mut inner) = UnixStream::pair().unwrap();
    sender.send(BootEvent::Said(InitMessage::Nesting)).unwrap();
    sender.send(BootEvent::Stop).unwrap();
    // A second request changes nothing.
    sender.send(BootEvent::Stop).unwrap();
    let follower =
        std::thread::spawn(move || Course::follow(&events, &mut control, LIMITS, PATIENCE, never));
    inner.set_read_timeout(Some(HANG)).unwrap();
    let mut answer = [0];
    inner.read_exact(&mut answer).unwrap();
    assert_eq!(answer, [answer::STOP]);
    sender
        .send(BootEvent::Said(InitMessage::Report(report([0, 0, 0]))))
        .unwrap();
    inner.read_exact(&mut answer).unwrap();
    assert_eq!(answer, [answer::LEAVE]);
    sender.send(BootEvent::Stop).unwrap();
    sender.send(BootEvent::Ended(Duration::ZERO)).unwrap();
    assert!(follower.join().unwrap().complete());

    let (sender, events) = channel();
    let (mut control, _inner) = UnixStream::pair().unwrap();
    sender.send(BootEvent::Stop).unwrap();
    let course = Course::follow(&events, &mut control, LIMITS, PATIENCE, never);
    assert_eq!((course.cpu, course.started), (None, None));
}

#[test]
fn a_linux_is_asked_while_its_program_runs_and_one_that_does_not_answer_is_silent() {
    let (sender, events) = channel();
    let (mut control, mut l1) = UnixStream::pair().unwrap();
    sender.send(BootEvent::Said(InitMessage::Started)).unwrap();
    let patience = Patience {
        answering: SHORT,
        ..PATIENCE
    };
    let follower =
        std::thread::spawn(move || Course::follow(&events, &mut control, LIMITS, patience, never));
    l1.set_read_timeout(Some(HANG)).unwrap();
    let mut asked = [0];
    for answers in 0..3 {
        l1.read_exact(&mut asked).unwrap();
        assert_eq!(asked, [answer::ASK], "after {answers} answers");
        sender.send(BootEvent::Said(InitMessage::Alive)).unwrap();
    }
    let course = follower.join().unwrap();
    assert!(course.silent && course.cpu.is_none());
}

#[test]
fn a_linux_that_has_reported_is_not_asked() {
    let (sender, events) = channel();
    let (mut control, mut l1) = UnixStream::pair().unwrap();
    for message in [InitMessage::Started, InitMessage::Report(report([0; 3]))] {
        sender.send(BootEvent::Said(message)).unwrap();
    }
    let patience = Patience {
        leaving: SHORT * 4,
        answering: SHORT,
        ..PATIENCE
    };
    let course = Course::follow(&events, &mut control, LIMITS, patience, never);
    assert!(!course.silent && course.complete());
    drop(control);
    let mut said = Vec::new();
    l1.read_to_end(&mut said).unwrap();
    assert_eq!(said, [answer::LEAVE]);
}

#[test]
fn a_linux_in_another_one_is_left_when_all_has_come() {
    let (sender, events) = channel();
    let (mut control, mut l2) = UnixStream::pair().unwrap();
    sender.send(BootEvent::Said(InitMessage::Started)).unwrap();
    let sent = InitMessage::Report(report([1, 0, 0]));
    sender.send(BootEvent::Said(sent)).unwrap();
    sender
        .send(BootEvent::Bytes(ProgramStream::Stdout, 1))
        .unwrap();
    let patience = Patience {
        to_the_end: false,
        ..PATIENCE
    };
    let course = Course::follow(&events, &mut control, LIMITS, patience, never);
    assert!(course.complete() && course.cpu.is_none());
    drop(control);
    assert_eq!(l2.read(&mut [0]).unwrap(), 0);
}
