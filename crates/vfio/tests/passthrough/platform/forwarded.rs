//! The alarm's interrupt, which the module `kernel/vfio-forward` ties to the guest's: the guest's EOI completes it.

use vmbell::eventfd::EventFd;
use vmbell::irq::Gic;
use vmbell_hypervisor::{ForwardedState, Hypervisor};
use vmbell_vfio::interrupt::InterruptPath;
use vmbell_vfio::placed::{Handover, Placed};

use super::Clock;
use super::cpus::Cpus;
use super::guest::{DEACTIVATE, Guest, SPLIT};
use testbed::{await_that, count, event};

const ALARMS: u64 = 1200;

fn forwarded_alarms_all_arrive_on_one_cpu<H: Hypervisor>(h: &H) {
    all_arrive(h, 0, 0);
}

fn forwarded_alarms_all_arrive_on_two_cpus<H: Hypervisor>(h: &H) {
    let cpus = std::thread::available_parallelism().unwrap().get();
    assert!(cpus >= 2, "this needs two cpus: `vmbell lab --vcpus 2`");
    // A GICv2 of QEMU before 9.1 completes an SPI only for the CPU whose guest ends it, so the interrupt goes to the
    // vCPU's CPU.
    let interrupt = match Guest::new(h).machine.vm().gic() {
        Some(Gic::V2) => 1,
        _ => 0,
    };
    all_arrive(h, interrupt, 1);
}

/// Takes all alarms, with the physical interrupt and the vCPU on these CPUs.
fn all_arrive<H: Hypervisor>(h: &H, interrupt: usize, vcpu: usize) {
    let clock = Clock::open();
    let guest = Guest::new(h);
    // The device has an eventfd, as it would have if its interrupt were forwarded later.
    let trigger = event();
    let triggers = [Some(&*trigger)];
    clock.device.set_triggers(0, 0, &triggers).unwrap();
    let cpus = Cpus::new(interrupt, vcpu);
    let placed = guest.wired(&clock, Handover::Forwarded);
    assert_eq!(placed.paths(), [InterruptPath::Forwarded]);
    let mut vcpu = guest.start();
    guest.take(&mut vcpu, ALARMS);
    assert_direct(&placed, &trigger, ALARMS);
    assert_eq!((guest.served(), guest.spurious()), (ALARMS, 0));
    drop(cpus);
}

/// Fails unless the guest got `alarms` interrupts, each from the hardware.
fn assert_direct(placed: &Placed, trigger: &EventFd, alarms: u64) {
    let state = ForwardedState {
        injected: alarms,
        signalled: 0,
        is_active: false,
    };
    assert_eq!(placed.forwarded().unwrap(), [state]);
    assert_eq!(count(trigger), 0);
}

fn forwarded_interrupt_that_the_guest_leaves_active_is_the_only_one<H: Hypervisor>(h: &H) {
    let clock = Clock::open();
    let guest = Guest::new(h);
    let trigger = event();
    let triggers = [Some(&*trigger)];
    clock.device.set_triggers(0, 0, &triggers).unwrap();
    let placed = guest.wired(&clock, Handover::Forwarded);
    // The guest only drops the interrupt's priority, so the physical interrupt is not completed.
    guest.set(SPLIT, 1);
    let mut vcpu = guest.start();
    guest.while_taking(&mut vcpu, || {
        for served in 1..=20 {
            await_that("an interrupt", || guest.served() == served);
            std::thread::sleep(std::time::Duration::from_millis(30));
            assert_eq!(guest.served(), served, "another came while one is active");
            let [state] = placed.forwarded().unwrap()[..] else {
                panic!("one line is forwarded")
            };
            assert_eq!((state.injected, state.is_active), (served, true));
            // The guest's deactivation of its interrupt completes the physical one.
            guest.set(DEACTIVATE, 1);
        }
    });
    assert_eq!((count(&trigger), guest.spurious()), (0, 0));
}

testbed::on_kvm! {
    forwarded_alarms_all_arrive_on_one_cpu;
    forwarded_alarms_all_arrive_on_two_cpus;
    forwarded_interrupt_that_the_guest_leaves_active_is_the_only_one;
}
