//! The alarm's interrupt tied to the guest's own, whose end completes it: the module `kernel/vfio-forward`.

use std::fs;

use rustix::thread::{CpuSet, sched_setaffinity};
use vmbell::eventfd::EventFd;
use vmbell::hypervisor::{ForwardedState, Hypervisor};
use vmbell::passthrough::interrupt::InterruptPath;
use vmbell::passthrough::placed::{Handover, Placed};

use super::Clock;
use super::guest::{DEACTIVATE, Guest, SPLIT};
use crate::harness::taker::await_that;
use crate::harness::{count, event};

const ALARMS: u64 = 1200;

fn forwarded_alarms_all_arrive_on_the_cpu_that_takes_them<H: Hypervisor>(h: &H) {
    all_arrive(h, 0, 0);
}

fn forwarded_alarms_all_arrive_on_another_cpu_than_takes_them<H: Hypervisor>(h: &H) {
    let cpus = std::thread::available_parallelism().unwrap().get();
    assert!(cpus >= 2, "this needs two cpus: `vmbell lab run --smp 2`");
    all_arrive(h, 0, 1);
}

/// Takes all alarms, with the physical interrupt and the vCPU on these CPUs.
fn all_arrive<H: Hypervisor>(h: &H, interrupt: usize, vcpu: usize) {
    let clock = Clock::open();
    let guest = Guest::new(h);
    // The device has an eventfd, as it would have when it is forwarded later.
    let trigger = event();
    let triggers = [Some(&trigger)];
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

/// Fails unless the guest got so many interrupts, each from the hardware.
fn assert_direct(placed: &Placed, trigger: &EventFd, alarms: u64) {
    let state = ForwardedState {
        injected: alarms,
        signalled: 0,
        is_active: false,
    };
    assert_eq!(placed.forwarded().unwrap(), [state]);
    assert_eq!(count(trigger), 0);
}

fn forwarded_interrupt_that_the_guest_leaves_active_is_the_only_one<H: Hypervisor<Vm: Sync>>(
    h: &H,
) {
    let clock = Clock::open();
    let guest = Guest::new(h);
    let trigger = event();
    let triggers = [Some(&trigger)];
    clock.device.set_triggers(0, 0, &triggers).unwrap();
    let placed = guest.wired(&clock, Handover::Forwarded);
    // The guest ends the interrupt's priority only: so nobody completes the physical one.
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
            // Its deactivation by the guest completes it.
            guest.set(DEACTIVATE, 1);
        }
    });
    assert_eq!((count(&trigger), guest.spurious()), (0, 0));
}

/// The CPUs of the clock's interrupt and of this thread, until this is dropped.
struct Cpus {
    affinity: String,
    before: String,
    own: CpuSet,
}

impl Cpus {
    fn new(interrupt: usize, own: usize) -> Self {
        let table = fs::read_to_string("/proc/interrupts").unwrap();
        // The clock is the only device of VFIO here.
        let entry = table.lines().find(|entry| entry.contains("vfio-irq["));
        let number = entry.and_then(|entry| entry.split(':').next());
        let number = number.unwrap_or_else(|| panic!("vfio has no interrupt: {table}"));
        let affinity = format!("/proc/irq/{}/smp_affinity_list", number.trim());
        let before = fs::read_to_string(&affinity).unwrap();
        fs::write(&affinity, interrupt.to_string()).unwrap();
        let cpus = rustix::thread::sched_getaffinity(None).unwrap();
        let mut one = CpuSet::new();
        one.set(own);
        sched_setaffinity(None, &one).unwrap();
        Self {
            affinity,
            before,
            own: cpus,
        }
    }
}

impl Drop for Cpus {
    fn drop(&mut self) {
        let _ = fs::write(&self.affinity, self.before.trim());
        let _ = sched_setaffinity(None, &self.own);
    }
}

crate::on_kvm! {
    forwarded_alarms_all_arrive_on_the_cpu_that_takes_them;
    forwarded_alarms_all_arrive_on_another_cpu_than_takes_them;
    forwarded_interrupt_that_the_guest_leaves_active_is_the_only_one;
}
