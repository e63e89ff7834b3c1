//! The counts of `vmbell stat` agree with what the guest says that it has done.
#![allow(
    clippy::tests_outside_test_module,
    clippy::unwrap_used,
    reason = "the whole file is tests"
)]

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use vmbell::hypervisor::usermode::Usermode;
use vmbell_bench::stat::{Mode, SPARED, TAKEN, Workload, run};
use vmbell_bench::{Limit, Sample};

const INTERRUPTS: u64 = 200;
/// A test that takes longer has hung.
const LIMIT: Duration = Duration::from_secs(60);
static INTERRUPTED: AtomicBool = AtomicBool::new(false);

fn sample(mode: Mode) -> Sample {
    let workload = Workload::Lockstep {
        interrupts: INTERRUPTS,
    };
    let limit = Limit::new(Some(LIMIT), &INTERRUPTED);
    let counted = run(&Usermode, workload, mode, limit, None, &mut |_| {}).unwrap();
    counted.series.samples[0].clone()
}

fn of(counts: &[(String, u64)], name: &str) -> u64 {
    let count = counts.iter().find(|(other, _)| other == name);
    count.unwrap_or_else(|| panic!("{name} is not counted")).1
}

// On KVM this counts tracepoints, which are code that the kernel rewrites, and other tests of the same
// boot may run into half-written code. The lab's own tests run it on one CPU.
#[test]
fn the_bit_saves_a_write_of_a_register_for_each_interrupt() {
    let (off, on) = (sample(Mode::Off), sample(Mode::On));
    for Sample {
        ops,
        events,
        counts,
        ..
    } in [&off, &on]
    {
        assert_eq!((*ops, of(counts, TAKEN)), (INTERRUPTS, INTERRUPTS));
        assert_eq!(of(events, "kvm:kvm_msi_set_irq"), INTERRUPTS);
        assert!(of(events, "kvm:kvm_eoi") >= INTERRUPTS);
        assert_eq!(of(events, "kvm:kvm_pv_eoi"), of(counts, SPARED));
    }
    assert_eq!(of(&off.counts, SPARED), 0);
    assert_eq!(of(&off.events, "kvm:kvm_msr"), INTERRUPTS);
    // An exit that the host causes takes the bit back now and then.
    let spared = of(&on.counts, SPARED);
    assert!(spared >= INTERRUPTS * 8 / 10, "{spared} spared");
    assert_eq!(of(&on.events, "kvm:kvm_msr"), INTERRUPTS - spared);
    // Each write of the register is an exit; the number of halts before it depends on timing.
    assert!(on.exits > Some(INTERRUPTS) && off.exits > Some(2 * INTERRUPTS));
}
