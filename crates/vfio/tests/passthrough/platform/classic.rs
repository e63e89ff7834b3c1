//! The alarm's interrupt over the paths that every Linux has: an irqfd with a resample eventfd, and a thread of the
//! VMM.

use vmbell_hypervisor::Hypervisor;
use vmbell_vfio::interrupt::InterruptPath;
use vmbell_vfio::placed::{Access, Handover};

use super::Clock;
use super::guest::{Guest, line, wire};
use testbed::await_that;
use testbed::event;

fn alarms_arrive_by_irqfd_and_the_end_of_each_unmasks_the_line<H: Hypervisor>(h: &H) {
    let clock = Clock::open();
    let guest = Guest::new(h);
    let placed = guest.wired(&clock, Handover::Irqfd);
    assert_eq!(placed.paths(), [InterruptPath::Resample]);
    let mut vcpu = guest.start();
    guest.take(&mut vcpu, 200);
    assert_eq!((guest.served(), guest.spurious()), (200, 0));
}

fn alarms_arrive_by_a_thread_of_the_vmm_that_sees_the_accesses<H: Hypervisor>(h: &H) {
    let clock = Clock::open();
    let guest = Guest::new(h);
    let placed = guest.put(&clock, Access::Emulated, &[wire(Handover::Vmm)]);
    assert!(matches!(placed.paths()[..], [InterruptPath::Vmm { .. }]));
    let mut vcpu = guest.start();
    guest.take(&mut vcpu, 100);
    assert_eq!(guest.served(), 100);
}

fn line_that_nobody_unmasks_interrupts_once<H: Hypervisor>(h: &H) {
    let clock = Clock::open();
    let guest = Guest::new(h);
    let _placed = guest.put(&clock, Access::Mapped, &[]);
    // Without a resample eventfd the interrupt is an edge, and its end is not reported.
    let trigger = event();
    let irqs = guest.parts().irqs;
    let mut irqfd = irqs.register_irqfd(&trigger, line(), None).unwrap();
    let triggers = [Some(&*trigger)];
    clock.device.set_triggers(0, 0, &triggers).unwrap();
    let mut vcpu = guest.start_with(false);
    guest.while_taking(&mut vcpu, || {
        await_that("the interrupt", || guest.served() == 1);
        std::thread::sleep(std::time::Duration::from_millis(300));
        assert_eq!(guest.served(), 1, "another came though the line is masked");
        clock.device.unmask(0, 0).unwrap();
        await_that("the second", || guest.served() == 2);
    });
    irqfd.remove().unwrap();
}

testbed::on_kvm! {
    alarms_arrive_by_irqfd_and_the_end_of_each_unmasks_the_line;
    alarms_arrive_by_a_thread_of_the_vmm_that_sees_the_accesses;
    line_that_nobody_unmasks_interrupts_once;
}
