use std::io::Read;
use std::sync::mpsc::channel;

use super::*;
use crate::job::Ending;

fn report(sent: [u64; 3]) -> Report {
    Report {
        ending: Ending::Exited(0),
        sent,
        notes: Vec::new(),
    }
}

#[test]
fn l1_is_let_go_only_when_all_that_it_sent_was_read() {
    let (sender, events) = channel();
    let (mut control, mut l1) = UnixStream::pair().unwrap();
    sender.send(Event::Bytes(Stream::Stdout, 3)).unwrap();
    sender.send(Event::Report(report([5, 1, 0]))).unwrap();
    sender.send(Event::Bytes(Stream::Stderr, 1)).unwrap();
    let follower =
        std::thread::spawn(move || Course::follow(&events, &mut control, Duration::from_secs(20)));
    l1.set_read_timeout(Some(Duration::from_millis(50)))
        .unwrap();
    assert!(
        l1.read(&mut [0]).is_err(),
        "two bytes of standard output are missing"
    );
    sender.send(Event::Bytes(Stream::Stdout, 2)).unwrap();
    l1.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    assert_eq!(l1.read(&mut [0]).unwrap(), 1);
    sender.send(Event::Ended(Duration::from_secs(3))).unwrap();
    let course = follower.join().unwrap();
    assert!(course.complete());
    assert_eq!(course.cpu, Some(Duration::from_secs(3)));
}

#[test]
fn silence_ends_with_the_time_limit() {
    let (_sender, events) = channel();
    let (mut control, _l1) = UnixStream::pair().unwrap();
    let course = Course::follow(&events, &mut control, Duration::from_millis(30));
    assert_eq!(course.cpu, None);
    assert!(!course.complete());
}

#[test]
fn what_comes_after_the_end_still_counts() {
    let (sender, events) = channel();
    let (mut control, _l1) = UnixStream::pair().unwrap();
    sender.send(Event::Ended(Duration::ZERO)).unwrap();
    sender.send(Event::Report(report([2, 0, 0]))).unwrap();
    sender.send(Event::Bytes(Stream::Stdout, 2)).unwrap();
    let mut course = Course::follow(&events, &mut control, Duration::from_secs(20));
    assert!(!course.complete());
    course.drain(&events);
    assert!(course.complete());
}
