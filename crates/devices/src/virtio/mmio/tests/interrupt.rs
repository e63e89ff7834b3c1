use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::*;

/// An interrupt, and the doorbell that acknowledges it.
fn with_doorbell() -> (Interrupt, Arc<EventFd>) {
    let mut interrupt = Interrupt::none();
    let doorbell = interrupt.acknowledge_by_doorbell().unwrap();
    (interrupt, doorbell)
}

#[test]
fn the_register_shows_an_acknowledgement_by_doorbell_at_once() {
    let (interrupt, doorbell) = with_doorbell();
    interrupt.used_buffer(0);
    assert_eq!(interrupt.reasons(), USED_BUFFER);
    doorbell.write(1).unwrap();
    assert_eq!(interrupt.reasons(), 0);
}

#[test]
fn an_acknowledgement_before_a_new_reason_does_not_clear_that() {
    let (interrupt, doorbell) = with_doorbell();
    interrupt.used_buffer(0);
    doorbell.write(1).unwrap();
    interrupt.used_buffer(0);
    assert_eq!(interrupt.reasons(), USED_BUFFER);
    doorbell.write(1).unwrap();
    assert_eq!(interrupt.reasons(), 0);
}

#[test]
fn an_acknowledgement_of_nothing_does_not_clear_the_next_reason() {
    let (interrupt, doorbell) = with_doorbell();
    doorbell.write(1).unwrap();
    interrupt.used_buffer(0);
    assert_eq!(interrupt.reasons(), USED_BUFFER);
}

#[test]
fn a_doorbell_acknowledges_no_change_of_the_configuration() {
    let (interrupt, doorbell) = with_doorbell();
    interrupt.used_buffer(0);
    interrupt.configuration();
    doorbell.write(1).unwrap();
    assert_eq!(interrupt.reasons(), CONFIGURATION);
    interrupt.acknowledge(CONFIGURATION);
    assert_eq!(interrupt.reasons(), 0);
}

#[test]
fn acknowledgements_by_the_register_and_by_doorbell_may_follow_each_other() {
    let (interrupt, doorbell) = with_doorbell();
    interrupt.used_buffer(0);
    interrupt.configuration();
    doorbell.write(1).unwrap();
    interrupt.acknowledge(USED_BUFFER | CONFIGURATION);
    interrupt.used_buffer(0);
    assert_eq!(interrupt.reasons(), USED_BUFFER);
}

#[test]
fn a_reset_forgets_acknowledgements_that_came_before_it() {
    let (interrupt, doorbell) = with_doorbell();
    interrupt.used_buffer(0);
    doorbell.write(1).unwrap();
    interrupt.reset();
    assert_eq!(interrupt.reasons(), 0);
    interrupt.used_buffer(0);
    assert_eq!(interrupt.reasons(), USED_BUFFER);
}

/// Another vCPU reads the register all the time, and applies what it finds, while the driver acknowledges each reason
/// before the next one is set.
#[test]
fn a_reason_is_not_cleared_by_an_older_acknowledgement_that_another_thread_settles() {
    let (interrupt, doorbell) = with_doorbell();
    let (interrupt, done) = (Arc::new(interrupt), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                interrupt.reasons();
            }
        });
        let kept = (0..20_000).all(|_| {
            interrupt.used_buffer(0);
            let kept = interrupt.reasons() == USED_BUFFER;
            doorbell.write(1).unwrap();
            kept
        });
        done.store(true, Ordering::Relaxed);
        assert!(kept);
    });
}
