//! What `vmbell stat` counts, against what the guest says that it has done.

use vmbell::bench::Limit;
use vmbell::bench::stat::{Mode, Outcome, Workload, run};
use vmbell::hypervisor::Hypervisor;

const INTERRUPTS: u64 = 200;

fn outcome<H: Hypervisor>(h: &H, mode: Mode) -> Outcome {
    let workload = Workload::Lockstep {
        interrupts: INTERRUPTS,
    };
    run(h, workload, mode, Limit::none(), None, &mut |_| {}).unwrap()
}

fn of(outcome: &Outcome, event: &str) -> u64 {
    let count = outcome.events.get(event);
    *count.unwrap_or_else(|| panic!("{event} is not counted by {}", outcome.source))
}

fn the_bit_saves_a_write_of_a_register_for_each_interrupt<H: Hypervisor>(h: &H) {
    let (off, on) = (outcome(h, Mode::Off), outcome(h, Mode::On));
    for outcome in [&off, &on] {
        assert_eq!(outcome.interrupts, INTERRUPTS);
        assert_eq!(of(outcome, "kvm:kvm_msi_set_irq"), INTERRUPTS);
        assert!(of(outcome, "kvm:kvm_eoi") >= INTERRUPTS);
        assert_eq!(of(outcome, "kvm:kvm_pv_eoi"), outcome.spared);
    }
    assert_eq!(off.spared, 0);
    assert_eq!(of(&off, "kvm:kvm_msr"), INTERRUPTS);
    // An exit of the host's own takes the bit back now and then.
    assert!(on.spared >= INTERRUPTS * 8 / 10, "{} spared", on.spared);
    assert_eq!(of(&on, "kvm:kvm_msr"), INTERRUPTS - on.spared);
    // Each of those writes is an exit; how often the guest had to halt first is another matter.
    assert!(on.exits > INTERRUPTS && off.exits > 2 * INTERRUPTS);
}

// On KVM its tracepoints are code that is rewritten, which other tests of the boot may run into half
// written: tests/lab_boot.rs has this on one CPU.
crate::on_usermode! {
    the_bit_saves_a_write_of_a_register_for_each_interrupt;
}
