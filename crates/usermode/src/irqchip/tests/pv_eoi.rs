//! The host's side of PV EOI, case by case (Linux `apic_sync_pv_eoi_to_guest`,
//! `apic_sync_pv_eoi_from_guest`, `kvm_lapic_set_pv_eoi`).

use vmbell_core::lapic::Raise;
use vmbell_core::pv_eoi::{Completion, Fault, GuestByte, PvEoi};

use super::guest::{Vcpu, WORD};

const RAM_END: u64 = 0x10_0000;

fn write_msr(pv_eoi: &PvEoi, value: u64) -> Result<(), Fault> {
    pv_eoi.write_msr(value, |address| address < RAM_END)
}

#[test]
fn misaligned_word_is_refused_when_switching_on_and_when_switching_off() {
    let pv_eoi = PvEoi::default();
    assert_eq!(write_msr(&pv_eoi, 0x3003), Err(Fault));
    assert_eq!(write_msr(&pv_eoi, 0x3002), Err(Fault));
    assert_eq!(pv_eoi.read_msr(), 0);
}

#[test]
fn word_without_memory_is_refused_when_switching_on_only() {
    let pv_eoi = PvEoi::default();
    for hole in [RAM_END, 0xfee0_0000, u64::MAX - 3] {
        assert_eq!(write_msr(&pv_eoi, hole | 1), Err(Fault));
        assert_eq!(write_msr(&pv_eoi, hole), Ok(()));
        assert_eq!(pv_eoi.read_msr(), hole);
    }
}

#[test]
fn last_word_of_ram_is_good() {
    let pv_eoi = PvEoi::default();
    assert_eq!(write_msr(&pv_eoi, (RAM_END - 4) | 1), Ok(()));
}

#[test]
fn register_reads_as_it_was_written() {
    let pv_eoi = PvEoi::default();
    for value in [0x3001, 0x3000, 0x4001, 0] {
        assert_eq!(write_msr(&pv_eoi, value), Ok(()));
        assert_eq!(pv_eoi.read_msr(), value);
    }
}

#[test]
fn init_resets_register_and_flag() {
    let mut vcpu = Vcpu::new(true);
    vcpu.interrupt(0x31);
    assert!(vcpu.pv_eoi.is_pending());
    vcpu.pv_eoi.reset();
    assert!(!vcpu.pv_eoi.is_pending());
    assert_eq!(vcpu.pv_eoi.read_msr(), 0);
    assert_eq!(vcpu.exit(), Completion::Off);
}

#[test]
fn guest_that_never_asked_is_never_spared() {
    let mut vcpu = Vcpu::new(false);
    vcpu.interrupt(0x31);
    assert!(!vcpu.is_armed() && !vcpu.eoi());
    assert_eq!(vcpu.ended, [0x31]);
}

#[test]
fn level_is_never_spared_though_the_eoi_exit_bitmap_lacks_it() {
    let mut vcpu = Vcpu::new(true);
    assert_eq!(vcpu.lapic.raise(0x31, true), Raise::Accepted);
    vcpu.sti();
    assert_eq!(vcpu.in_service(), [0x31]);
    assert!(!vcpu.is_armed() && !vcpu.eoi());
    assert_eq!(vcpu.ended, [0x31]);
}

#[test]
fn lone_interrupt_is_ended_by_the_bit() {
    let mut vcpu = Vcpu::new(true);
    vcpu.interrupt(0x31);
    assert!(vcpu.is_armed());
    assert!(vcpu.eoi());
    assert_eq!(vcpu.in_service(), [0x31], "until the next exit");
    let completion = vcpu.exit();
    assert!(matches!(completion, Completion::Completed(Some(eoi)) if eoi.vector == 0x31));
    assert_eq!(vcpu.in_service(), [0; 0]);
}

#[test]
fn pending_vector_of_any_priority_keeps_the_bit_clear() {
    for pending in [0x21, 0x31, 0x32, 0x51] {
        let mut vcpu = Vcpu::new(true);
        let _ = vcpu.raise(0x41);
        vcpu.unrelated_exit();
        assert!(vcpu.is_armed());
        // The vector is raised while a handler blocks its class, or all interrupts.
        vcpu.interrupt(pending);
        assert!(!vcpu.is_armed(), "{pending:#x} pending");
        assert!(!vcpu.eoi());
        assert_eq!(vcpu.ended, [0x41]);
    }
}

#[test]
fn nested_interrupt_takes_the_bit_over_and_the_outer_one_needs_the_register() {
    let mut vcpu = Vcpu::new(true);
    vcpu.interrupt(0x31);
    assert!(vcpu.is_armed());
    vcpu.sti();
    vcpu.interrupt(0x51);
    assert_eq!(vcpu.in_service(), [0x51, 0x31]);
    assert!(vcpu.is_armed());
    assert!(vcpu.eoi(), "the inner one by the bit");
    vcpu.iret();
    assert!(!vcpu.eoi(), "the outer one by the register");
    assert_eq!(vcpu.ended, [0x51, 0x31]);
    assert_eq!(vcpu.in_service(), [0; 0]);
}

#[test]
fn handler_that_exits_first_pays_a_real_eoi() {
    let mut vcpu = Vcpu::new(true);
    vcpu.interrupt(0x31);
    vcpu.unrelated_exit();
    assert!(!vcpu.is_armed(), "armed again with no reason to");
    assert!(!vcpu.eoi());
    assert_eq!(vcpu.ended, [0x31]);
}

#[test]
fn real_eoi_while_armed_takes_the_bit_and_ends_one_vector_only() {
    let mut vcpu = Vcpu::new(true);
    vcpu.interrupt(0x31);
    vcpu.sti();
    vcpu.interrupt(0x51);
    assert!(vcpu.is_armed());
    vcpu.write_eoi();
    assert_eq!(vcpu.ended, [0x51]);
    assert_eq!(vcpu.in_service(), [0x31]);
    assert_eq!(vcpu.word.byte.get(), 0);
}

#[test]
fn bit_that_the_guest_sets_itself_means_nothing() {
    let mut vcpu = Vcpu::new(true);
    vcpu.word.byte.set(1);
    assert_eq!(vcpu.exit(), Completion::Off);
    vcpu.enter();
    vcpu.interrupt(0x31);
    vcpu.unrelated_exit();
    vcpu.word.byte.set(1);
    assert!(vcpu.eoi(), "the guest has only itself to blame");
    assert_eq!(vcpu.exit(), Completion::Off);
    assert_eq!(vcpu.in_service(), [0x31]);
}

#[test]
fn guest_that_clears_twice_ends_one_vector() {
    let mut vcpu = Vcpu::new(true);
    vcpu.interrupt(0x31);
    vcpu.sti();
    vcpu.interrupt(0x51);
    assert!(vcpu.test_and_clear());
    assert!(!vcpu.test_and_clear());
    let _ = vcpu.exit();
    assert_eq!(vcpu.ended, [0x51]);
    assert_eq!(vcpu.exit(), Completion::Off);
    assert_eq!(vcpu.in_service(), [0x31]);
}

#[test]
fn guest_that_sets_the_bit_again_after_clearing_it_has_not_ended() {
    let mut vcpu = Vcpu::new(true);
    vcpu.interrupt(0x31);
    assert!(vcpu.test_and_clear());
    vcpu.word.byte.set(1);
    assert_eq!(vcpu.exit(), Completion::Disarmed);
    assert_eq!(vcpu.in_service(), [0x31]);
}

#[test]
fn other_bits_of_the_word_are_the_guests() {
    let mut vcpu = Vcpu::new(true);
    vcpu.interrupt(0x31);
    vcpu.word.byte.set(0xfe);
    assert!(matches!(vcpu.exit(), Completion::Completed(Some(_))));
    assert_eq!(vcpu.word.byte.get(), 0xfe);
}

#[test]
fn guest_that_never_ends_its_interrupts_keeps_them() {
    let mut vcpu = Vcpu::new(true);
    for vector in [0x31, 0x41, 0x51] {
        vcpu.interrupt(vector);
        vcpu.sti();
    }
    for _ in 0..3 {
        vcpu.unrelated_exit();
    }
    assert_eq!(vcpu.in_service(), [0x51, 0x41, 0x31]);
    assert_eq!(vcpu.ended, [0; 0]);
}

#[test]
fn guest_that_ends_more_than_it_has_is_answered_nothing() {
    let mut vcpu = Vcpu::new(true);
    for _ in 0..3 {
        vcpu.write_eoi();
    }
    assert_eq!(vcpu.ended, [0; 0]);
}

#[test]
fn vector_of_the_eoi_exit_bitmap_is_never_armed() {
    let mut vcpu = Vcpu::new(true);
    vcpu.lapic.eoi_exit_bitmap.insert(0x31);
    vcpu.interrupt(0x31);
    assert!(!vcpu.is_armed());
    assert!(!vcpu.eoi());
    vcpu.iret();
    vcpu.interrupt(0x41);
    assert!(vcpu.is_armed());
}

#[test]
fn word_that_goes_away_while_armed_counts_as_ended() {
    let mut vcpu = Vcpu::new(true);
    vcpu.interrupt(0x31);
    vcpu.word.unmapped.set(true);
    assert!(matches!(vcpu.exit(), Completion::Completed(Some(_))));
    assert!(vcpu.pv_eoi.is_pending());
    assert_eq!(vcpu.exit(), Completion::Completed(None));
}

#[test]
fn word_that_becomes_read_only_while_armed_counts_as_ended() {
    let mut vcpu = Vcpu::new(true);
    vcpu.interrupt(0x31);
    vcpu.word.read_only.set(true);
    assert!(matches!(vcpu.exit(), Completion::Completed(Some(_))));
    assert!(vcpu.pv_eoi.is_pending());
}

#[test]
fn word_that_cannot_be_written_is_not_armed() {
    let mut vcpu = Vcpu::new(true);
    vcpu.word.read_only.set(true);
    vcpu.interrupt(0x31);
    assert!(!vcpu.pv_eoi.is_pending());
}

#[test]
fn cve_2026_72284_switching_off_after_the_word_has_gone_is_survived() {
    let mut vcpu = Vcpu::new(true);
    vcpu.interrupt(0x31);
    vcpu.word.unmapped.set(true);
    // The exit of the write cannot resolve the flag, so PV EOI is switched off while the flag is pending.
    assert!(vcpu.write_msr(WORD));
    assert!(vcpu.pv_eoi.is_pending());
    assert_eq!(vcpu.exit(), Completion::Disarmed);
    assert!(!vcpu.pv_eoi.is_pending());
    assert_eq!(vcpu.exit(), Completion::Off);
}

#[test]
fn word_that_moves_while_armed_leaves_no_bit_behind() {
    struct Two([std::cell::Cell<u8>; 2]);
    impl GuestByte for Two {
        fn read(&self, address: u64) -> Option<u8> {
            self.0.get((address / 4) as usize).map(std::cell::Cell::get)
        }
        fn write(&self, address: u64, value: u8) -> bool {
            let byte = self.0.get((address / 4) as usize);
            byte.map(|byte| byte.set(value)).is_some()
        }
    }
    let (memory, lapic) = (Two(Default::default()), super::lapic(0));
    let pv_eoi = PvEoi::default();
    assert_eq!(pv_eoi.write_msr(1, |_| true), Ok(()));
    let _ = lapic.raise(0x31, false);
    assert!(lapic.start_service(0x31));
    assert!(pv_eoi.arm(&lapic, &memory));
    assert_eq!(memory.0[0].get(), 1);
    assert_eq!(pv_eoi.complete(&lapic, &memory), Completion::Disarmed);
    assert_eq!(pv_eoi.write_msr(4 | 1, |_| true), Ok(()));
    assert!(pv_eoi.arm(&lapic, &memory));
    assert_eq!((memory.0[0].get(), memory.0[1].get()), (0, 1));
}

#[test]
fn an_exit_leaves_nothing_to_save_but_the_register() {
    // An armed bit is cleared, and the vector stays in service.
    let mut vcpu = Vcpu::new(true);
    vcpu.interrupt(0x31);
    let _ = vcpu.exit();
    assert!(!vcpu.pv_eoi.is_pending() && vcpu.word.byte.get() == 0);
    assert_eq!(vcpu.in_service(), [0x31]);
    // An EOI that was done by the bit is completed, and the vector leaves service.
    let mut vcpu = Vcpu::new(true);
    vcpu.interrupt(0x31);
    assert!(vcpu.eoi());
    let _ = vcpu.exit();
    assert!(!vcpu.pv_eoi.is_pending() && vcpu.word.byte.get() == 0);
    assert_eq!(vcpu.in_service(), [0; 0]);
}

#[test]
fn task_priority_that_changes_while_armed_takes_the_bit() {
    let mut vcpu = Vcpu::new(true);
    vcpu.interrupt(0x31);
    vcpu.write_tpr(0x20);
    assert!(
        vcpu.is_armed(),
        "a change of priority is reason to arm again"
    );
    assert!(vcpu.eoi());
    vcpu.write_tpr(0);
    assert_eq!(vcpu.ended, [0x31]);
}

#[test]
fn halt_with_an_eoi_owed_completes_it_before_it_decides() {
    let mut vcpu = Vcpu::new(true);
    vcpu.interrupt(0x31);
    assert!(vcpu.eoi());
    // The vector is of the same class, so it can only be delivered after the EOI that the host has not seen yet.
    let _ = vcpu.raise(0x32);
    assert_eq!(vcpu.lapic.next_interrupt(), None);
    let _ = vcpu.exit();
    assert_eq!(vcpu.lapic.next_interrupt(), Some(0x32));
}
