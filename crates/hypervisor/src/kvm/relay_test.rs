use vmm_sys_util::eventfd::{EFD_NONBLOCK, EventFd};

use super::{Item, Relay, RelayThread};
use kit::wait::await_that;
use vmbell::eventfd::EventId;

fn item() -> (Item, EventFd, EventId) {
    let event = EventFd::new(EFD_NONBLOCK).unwrap();
    let id = EventId::of(&event).unwrap();
    let mine = event.try_clone().unwrap();
    (Item { id, event }, mine, id)
}

fn await_count(event: &EventFd, wanted: u64) {
    let mut count = 0;
    await_that(&format!("{wanted} signals"), || {
        count += event.read().unwrap_or_default();
        count >= wanted
    });
    assert_eq!(count, wanted);
}

#[test]
fn every_item_hears_every_ring() {
    let (first, first_event, _) = item();
    let (second, second_event, _) = item();
    let relay = Relay::start(&RelayThread::default(), vec![first, second]).unwrap();
    for _ in 0..100 {
        relay.bell().write(1).unwrap();
    }
    await_count(&first_event, 100);
    await_count(&second_event, 100);
}

#[test]
fn one_that_has_left_has_heard_all_rings_before_and_hears_none_after() {
    for _ in 0..50 {
        let (stays, stays_event, _) = item();
        let (leaves, leaves_event, id) = item();
        let relay = Relay::start(&RelayThread::default(), vec![stays, leaves]).unwrap();
        for _ in 0..7 {
            relay.bell().write(1).unwrap();
        }
        assert!(relay.remove(id));
        assert_eq!(leaves_event.read().unwrap(), 7, "at once, not soon");
        relay.bell().write(1).unwrap();
        await_count(&stays_event, 8);
        assert!(leaves_event.read().is_err());
        assert!(!relay.remove(id));
    }
}

#[test]
fn one_that_joins_hears_no_ring_of_before() {
    for _ in 0..50 {
        let (first, first_event, _) = item();
        let (late, late_event, _) = item();
        let relay = Relay::start(&RelayThread::default(), vec![first]).unwrap();
        relay.bell().write(1).unwrap();
        relay.add(late);
        assert!(late_event.read().is_err());
        relay.bell().write(1).unwrap();
        await_count(&late_event, 1);
        await_count(&first_event, 2);
    }
}

#[test]
fn relays_of_one_guest_share_a_thread_and_end_one_by_one() {
    let thread = RelayThread::default();
    let (first, first_event, _) = item();
    let (second, second_event, _) = item();
    let ends = Relay::start(&thread, vec![first]).unwrap();
    let stays = Relay::start(&thread, vec![second]).unwrap();
    ends.bell().write(1).unwrap();
    await_count(&first_event, 1);
    let bell = ends.bell().try_clone().unwrap();
    drop(ends);
    bell.write(1).unwrap();
    stays.bell().write(1).unwrap();
    await_count(&second_event, 1);
    assert!(first_event.read().is_err());
}
