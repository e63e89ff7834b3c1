//! Every interrupt arrives exactly once, wherever the vCPU is.

use vmbell_hypervisor::Hypervisor;

use testbed::taker::{
    Doing, PV_EOI, RED_ZONE, has_messages, msi, spared, take, taken, while_running, with_interrupts,
};
use testbed::{HOLE, await_that, configured};

const VECTOR: u8 = 0x50;

fn arrive<H: Hypervisor>(h: &H, doing: Doing, address: u64, flags: u64) {
    if !has_messages(h) {
        return;
    }
    let vm = configured(h, with_interrupts(1));
    let vcpu = take(&vm, 0, doing, address, flags);
    while_running(&vm, vec![vcpu], || {
        for count in 1..=500 {
            assert!(vm.signal_msi(msi(0, VECTOR)).unwrap(), "{doing:?} {count}");
            await_that(&format!("interrupt {count} while it {doing:?}"), || {
                taken(&vm, 0, VECTOR) == count
            });
        }
    });
    assert_eq!(taken(&vm, 0, VECTOR), 500, "{doing:?}");
    if flags & PV_EOI != 0 {
        // If the interrupt finds the vCPU leaving the guest, the guest has to write the EOI, which is common on a busy
        // host.
        let spared = spared(&vm, 0);
        assert!(spared > 50, "{doing:?}: {spared} EOIs spared of 500");
    }
}

fn a_running_guest_is_interrupted<H: Hypervisor>(h: &H) {
    arrive(h, Doing::Spins, 0, 0);
    arrive(h, Doing::Spins, 0, PV_EOI);
}

fn a_halted_guest_is_woken<H: Hypervisor>(h: &H) {
    arrive(h, Doing::Halts, 0, 0);
    arrive(h, Doing::Halts, 0, PV_EOI);
}

fn a_guest_that_leaves_all_the_time_is_interrupted<H: Hypervisor>(h: &H) {
    for (doing, address) in [
        (Doing::Writes, 0x77),
        (Doing::Stores, HOLE),
        (Doing::Calls, 7),
        (Doing::Masks, 0),
    ] {
        arrive(h, doing, address, 0);
    }
}

fn the_red_zone_is_left_alone<H: Hypervisor>(h: &H) {
    arrive(h, Doing::Spins, 0, RED_ZONE);
}

testbed::on_both! {
    a_running_guest_is_interrupted;
    a_halted_guest_is_woken;
    a_guest_that_leaves_all_the_time_is_interrupted;
}

mod without_a_red_zone_on_kvm {
    use super::the_red_zone_is_left_alone;

    testbed::on_usermode! {
        the_red_zone_is_left_alone;
    }
}
