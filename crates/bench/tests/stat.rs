//! What `vmbell stat` counts, against what the guest says that it has done.
#![allow(
    clippy::tests_outside_test_module,
    clippy::unwrap_used,
    reason = "the whole file is tests"
)]

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use vmbell::hypervisor::usermode::Usermode;
use vmbell_bench::Limit;
use vmbell_bench::stat::{Counted, Mode, Workload, run};

const INTERRUPTS: u64 = 200;
/// A test that takes longer has hung.
const LIMIT: Duration = Duration::from_secs(60);
static INTERRUPTED: AtomicBool = AtomicBool::new(false);

fn counted(mode: Mode) -> Counted {
    let workload = Workload::Lockstep {
        interrupts: INTERRUPTS,
    };
    let limit = Limit::new(Some(LIMIT), &INTERRUPTED);
    run(&Usermode, workload, mode, limit, None, &mut |_| {}).unwrap()
}

fn of(counted: &Counted, event: &str) -> u64 {
    let count = counted.events.get(event);
    *count.unwrap_or_else(|| panic!("{event} is not counted by {}", counted.source))
}

// On KVM its tracepoints are code that is rewritten, which other tests of the boot may run into half
// written: the lab's own tests have this on one CPU.
#[test]
fn the_bit_saves_a_write_of_a_register_for_each_interrupt() {
    let (off, on) = (counted(Mode::Off), counted(Mode::On));
    for counted in [&off, &on] {
        assert_eq!(counted.interrupts, INTERRUPTS);
        assert_eq!(of(counted, "kvm:kvm_msi_set_irq"), INTERRUPTS);
        assert!(of(counted, "kvm:kvm_eoi") >= INTERRUPTS);
        assert_eq!(of(counted, "kvm:kvm_pv_eoi"), counted.spared);
    }
    assert_eq!(off.spared, 0);
    assert_eq!(of(&off, "kvm:kvm_msr"), INTERRUPTS);
    // An exit of the host's own takes the bit back now and then.
    assert!(on.spared >= INTERRUPTS * 8 / 10, "{} spared", on.spared);
    assert_eq!(of(&on, "kvm:kvm_msr"), INTERRUPTS - on.spared);
    // Each of those writes is an exit; how often the guest had to halt first is another matter.
    assert!(on.exits > INTERRUPTS && off.exits > 2 * INTERRUPTS);
}
