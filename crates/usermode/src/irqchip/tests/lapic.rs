//! The local APIC: requests, priorities and EOIs.

use vmbell_core::lapic::{Effect, Eoi, Lapic, Raise, Register};

use super::lapic;

fn tpr(lapic: &Lapic, value: u32) {
    assert_eq!(lapic.write(Register::Tpr, value), Effect::None);
}

#[test]
fn request_is_taken_once_until_it_begins() {
    let lapic = lapic(0);
    assert_eq!(lapic.raise(0x31, false), Raise::Accepted);
    assert_eq!(lapic.raise(0x31, false), Raise::Coalesced);
    assert!(lapic.start_service(0x31));
    assert_eq!(lapic.raise(0x31, false), Raise::Accepted);
}

#[test]
fn vector_below_16_is_refused_and_noted() {
    let lapic = lapic(0);
    for vector in 0..16 {
        assert_eq!(lapic.raise(vector, false), Raise::Refused);
    }
    assert_eq!(lapic.next_interrupt(), None);
    let _ = lapic.write(Register::Esr, 0);
    assert_eq!(lapic.read(Register::Esr), 1 << 6);
    let _ = lapic.write(Register::Esr, 0);
    assert_eq!(lapic.read(Register::Esr), 0);
}

#[test]
fn apic_that_software_has_not_enabled_takes_nothing() {
    let lapic = Lapic::default();
    assert_eq!(lapic.raise(0x31, false), Raise::Refused);
    lapic.reset(0);
    assert_eq!(lapic.raise(0x31, false), Raise::Refused);
    let _ = lapic.write(Register::Svr, 0x1ff);
    assert_eq!(lapic.raise(0x31, false), Raise::Accepted);
}

#[test]
fn highest_vector_is_next_and_a_class_in_service_holds_its_own_back() {
    let lapic = lapic(0);
    for vector in [0x31, 0x42, 0x3f] {
        let _ = lapic.raise(vector, false);
    }
    assert_eq!(lapic.next_interrupt(), Some(0x42));
    assert!(lapic.start_service(0x42));
    assert_eq!(lapic.next_interrupt(), None);
    let _ = lapic.raise(0x4f, false);
    assert_eq!(lapic.next_interrupt(), None, "of the class in service");
    let _ = lapic.raise(0x50, false);
    assert_eq!(lapic.next_interrupt(), Some(0x50));
}

#[test]
fn task_priority_holds_back_its_class_and_those_below() {
    let lapic = lapic(0);
    let _ = lapic.raise(0x45, false);
    tpr(&lapic, 0x40);
    assert_eq!((lapic.next_interrupt(), lapic.ppr()), (None, 0x40));
    tpr(&lapic, 0x3f);
    assert_eq!((lapic.next_interrupt(), lapic.ppr()), (Some(0x45), 0x3f));
}

#[test]
fn processor_priority_is_the_task_priority_or_the_class_in_service() {
    let lapic = lapic(0);
    tpr(&lapic, 0x25);
    assert_eq!(lapic.ppr(), 0x25);
    let _ = lapic.raise(0x33, false);
    assert!(lapic.start_service(0x33));
    assert_eq!(lapic.ppr(), 0x30);
    tpr(&lapic, 0x3a);
    assert_eq!(lapic.ppr(), 0x3a);
}

#[test]
fn eoi_is_the_highest_in_services() {
    let lapic = lapic(0);
    for vector in [0x31, 0x52, 0x43] {
        let _ = lapic.raise(vector, vector == 0x43);
        assert!(lapic.start_service(vector));
    }
    let eoi = |vector, level| Some(Eoi { vector, level });
    assert_eq!(lapic.eoi(), eoi(0x52, false));
    assert_eq!(lapic.eoi(), eoi(0x43, true));
    assert_eq!(lapic.eoi(), eoi(0x31, false));
    assert_eq!(lapic.eoi(), None);
    assert_eq!(lapic.write(Register::Eoi, 0), Effect::None);
}

#[test]
fn what_is_not_pending_cannot_begin() {
    let lapic = lapic(0);
    assert!(!lapic.start_service(0x31));
    assert_eq!(lapic.in_service(), None);
}

#[test]
fn trigger_mode_is_that_of_the_last_request() {
    let lapic = lapic(0);
    for level in [true, false, true] {
        let _ = lapic.raise(0x31, level);
        assert!(lapic.start_service(0x31));
        assert_eq!(lapic.eoi().map(|eoi| eoi.level), Some(level));
    }
}

#[test]
fn reset_forgets_everything_but_its_id() {
    let lapic = lapic(7);
    let _ = lapic.raise(0x31, true);
    assert!(lapic.start_service(0x31));
    let _ = lapic.raise(0x31, false);
    lapic.reset(7);
    assert_eq!(
        (lapic.in_service(), lapic.newest_in_service()),
        (None, None)
    );
    assert!(lapic.irr.is_empty() && lapic.tmr.is_empty());
    assert_eq!(lapic.id(), 7);
}
