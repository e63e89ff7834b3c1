//! The forwarding is taken back while the guest handles an interrupt, and the line takes the classic path again.

use vmbell_hypervisor::Hypervisor;
use vmbell_vfio::interrupt::InterruptPath;
use vmbell_vfio::placed::Access;

use super::Clock;
use super::guest::Guest;
use testbed::await_that;

const ROUNDS: u64 = 60;

fn forwarding_is_undone_in_mid_interrupt_and_the_classic_way_works_again<H: Hypervisor>(h: &H) {
    let clock = Clock::open();
    let guest = Guest::new(h);
    let _placed = guest.put(&clock, Access::Mapped, &[]);
    let mut vcpu = guest.start();
    let mut forwarded = guest.forward(&clock).unwrap();
    let mut in_removals = 0;
    guest.while_taking(&mut vcpu, || {
        for round in 0..ROUNDS {
            guest.await_more("forwarded interrupts", 1 + round % 3);
            guest.hold();
            await_that("the interrupt to be active", || state(&forwarded).is_active);
            assert_eq!(state(&forwarded).signalled, 0);
            drop(forwarded);
            // The interrupt is still active in the guest, and the alarm holds the line up.
            let is_early = round % 2 == 0;
            if is_early {
                guest.release();
            }
            let connected = guest.connect(&clock);
            assert_eq!(connected.path(), InterruptPath::Resample);
            guest.release();
            guest.await_more("interrupts on the classic way", 3);
            // When KVM removes an irqfd, it is no longer notified of EOIs, and lowers the line two grace periods later
            // (Linux virt/kvm/eventfd.c, irqfd_resampler_shutdown). Until then, a line that is up interrupts again and
            // again.
            let before = guest.spurious();
            drop(connected);
            in_removals += guest.spurious() - before;
            forwarded = guest.forward(&clock).unwrap();
        }
        guest.await_more("forwarded interrupts", 10);
        drop(forwarded);
    });
    // The line was up when it was connected, and may have interrupted once more at the end of the previous interrupt.
    let others = guest.spurious() - in_removals;
    assert!(others <= 2 * ROUNDS, "{others}, and {in_removals}");
}

fn state(line: &vmbell_vfio::interrupt::Line) -> vmbell_hypervisor::ForwardedState {
    line.forwarded().unwrap().unwrap()
}

testbed::on_kvm! {
    forwarding_is_undone_in_mid_interrupt_and_the_classic_way_works_again;
}
