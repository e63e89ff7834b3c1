//! A vCPU that is saved and restored elsewhere (Linux `KVM_SET_MSRS`, `KVM_SET_LAPIC`).
//!
//! The only PV EOI state to save is its register. The guest's byte is in memory, and the host's flag is resolved at the
//! vCPU's last exit before it is saved.

use vmbell_core::pv_eoi::{Fault, PvEoi};

use super::guest::{Vcpu, WORD};

/// Returns a vCPU in two nested handlers, with the PV EOI bit armed for the inner handler.
fn armed() -> Vcpu {
    let mut vcpu = Vcpu::new(true);
    vcpu.interrupt(0x31);
    vcpu.sti();
    vcpu.interrupt(0x51);
    assert!(vcpu.is_armed());
    vcpu
}

fn ends_both(mut vcpu: Vcpu) {
    while vcpu.innermost().is_some() {
        vcpu.eoi();
        vcpu.iret();
    }
    let _ = vcpu.exit();
    assert_eq!(vcpu.ended, [0x51, 0x31]);
    assert_eq!(vcpu.in_service(), [0; 0]);
    vcpu.enter();
    vcpu.interrupt(0x41);
    assert!(vcpu.is_armed(), "it is spared EOIs there as here");
}

#[test]
fn saved_while_armed_it_ends_both_elsewhere() {
    let mut vcpu = armed();
    vcpu.migrate();
    assert_eq!(vcpu.pv_eoi.read_msr(), WORD | 1);
    assert_eq!(vcpu.in_service(), [0x51, 0x31]);
    ends_both(vcpu);
}

#[test]
fn saved_with_an_eoi_owed_it_has_ended_one() {
    let mut vcpu = armed();
    vcpu.innermost().unwrap().ended = true;
    assert!(vcpu.test_and_clear());
    vcpu.migrate();
    assert_eq!(vcpu.ended, [0x51]);
    assert_eq!(vcpu.in_service(), [0x31]);
    ends_both(vcpu);
}

#[test]
fn saved_with_a_request_it_takes_it_elsewhere() {
    let mut vcpu = armed();
    let _ = vcpu.raise(0x61);
    vcpu.migrate();
    assert_eq!(vcpu.in_service(), [0x51, 0x31], "masked");
    vcpu.sti();
    assert_eq!(vcpu.in_service(), [0x61, 0x51, 0x31]);
}

#[test]
fn register_that_is_put_back_before_memory_is_refused() {
    let pv_eoi = PvEoi::default();
    assert_eq!(pv_eoi.write_msr(WORD | 1, |_| false), Err(Fault));
    assert_eq!(pv_eoi.read_msr(), 0);
    assert_eq!(pv_eoi.write_msr(WORD | 1, |_| true), Ok(()));
}
