//! The registers of the clock in its guest, with and without exits.

use vmbell_hypervisor::Hypervisor;
use vmbell_vfio::placed::Access;

use super::Clock;
use super::guest::{Guest, IDENT};

/// What identifies the clock, without its revision (Arm DDI 0224, 3.4): part, designer, configuration, PrimeCell.
const PL031: u64 = 0xb105_f00d_0004_1031;
const REVISION: u64 = 0xf0_0000;

/// Returns what the guest reads from the clock's eight registers, and how often it exits to the VMM for that.
fn read_by_guest<H: Hypervisor>(h: &H, clock: &Clock, access: Access) -> (u64, u64) {
    let guest = Guest::new(h);
    let _placed = guest.put(clock, access, &[]);
    let mut vcpu = guest.start();
    let exits = || guest.machine.vm().measure().exit_counts().heavy;
    let before = exits();
    guest.take(&mut vcpu, 0);
    // The last exit says that the guest is done.
    (guest.word(IDENT), exits() - before - 1)
}

fn mapped_registers_are_read_without_an_exit<H: Hypervisor>(h: &H) {
    let clock = Clock::open();
    assert_eq!(clock.ident() & !REVISION, PL031);
    assert_eq!(read_by_guest(h, &clock, Access::Mapped), (clock.ident(), 0));
}

fn emulated_registers_are_read_by_an_exit_each<H: Hypervisor>(h: &H) {
    let clock = Clock::open();
    assert_eq!(
        read_by_guest(h, &clock, Access::Emulated),
        (clock.ident(), 8)
    );
}

testbed::on_kvm! {
    mapped_registers_are_read_without_an_exit;
    emulated_registers_are_read_by_an_exit_each;
}
