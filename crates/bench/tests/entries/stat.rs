//! The counts of `vmbell bench eoi` agree with what the guest reports.

use std::sync::Arc;

use vmbell_bench::stat::{InterruptPace, OFF, ON, SPARED, TAKEN, entries};
use vmbell_bench::{RunSample, SampleSeries};
use vmbell_hypervisor::Hypervisor;
use vmbell_usermode::Usermode;

use crate::measure::measured;

const INTERRUPTS: u64 = 200;

/// Two runs of both modes, in turn.
fn measure(pace: InterruptPace) -> [SampleSeries; 2] {
    let hypervisor: Arc<dyn Hypervisor> = Arc::new(Usermode);
    let entries = entries(&hypervisor, pace);
    let cpu = vmbell_bench::affinity::allowed_cpus().unwrap()[0];
    let series = measured(&entries, &[cpu], [2, INTERRUPTS], kit::wait::HANG).series;
    assert_eq!(
        series.iter().map(|one| &one.name).collect::<Vec<_>>(),
        [OFF, ON]
    );
    series.try_into().unwrap()
}

fn of(counts: &[(String, u64)], name: &str) -> u64 {
    let count = counts.iter().find(|(other, _)| other == name);
    count.unwrap_or_else(|| panic!("{name} is not counted")).1
}

// On KVM this enables tracepoints, for which the kernel rewrites its code. Other tests of the same boot could execute
// half-written code. The lab's own tests run it on one CPU.
#[test]
fn the_bit_saves_a_write_of_a_register_for_each_interrupt() {
    let [off, on] = measure(InterruptPace::Lockstep);
    for one in [&off, &on] {
        assert_eq!(one.samples.len(), 2, "{:?}", one.reason);
        assert!(one.setting.counter.is_some());
    }
    for RunSample {
        ops,
        events,
        counts,
        ..
    } in off.samples.iter().chain(&on.samples)
    {
        assert_eq!((*ops, of(counts, TAKEN)), (INTERRUPTS, INTERRUPTS));
        assert_eq!(of(events, "kvm:kvm_msi_set_irq"), INTERRUPTS);
        assert!(of(events, "kvm:kvm_eoi") >= INTERRUPTS);
        assert_eq!(of(events, "kvm:kvm_pv_eoi"), of(counts, SPARED));
    }
    for (off, on) in off.samples.iter().zip(&on.samples) {
        assert_eq!(of(&off.counts, SPARED), 0);
        assert_eq!(of(&off.events, "kvm:kvm_msr"), INTERRUPTS);
        // An exit that the host causes occasionally clears the bit.
        let spared = of(&on.counts, SPARED);
        assert!(spared >= INTERRUPTS * 8 / 10, "{spared} spared");
        assert_eq!(of(&on.events, "kvm:kvm_msr"), INTERRUPTS - spared);
        // Each write of the register is an exit; the number of halts before it depends on timing.
        assert!(on.exits > Some(INTERRUPTS) && off.exits > Some(2 * INTERRUPTS));
    }
}

#[test]
fn interrupts_at_a_rate_are_as_many_in_each_run_as_asked_for() {
    let rate = 2000;
    for one in measure(InterruptPace::Rate(rate)) {
        assert_eq!(one.samples.len(), 2, "{:?}", one.reason);
        for sample in &one.samples {
            assert_eq!(
                (sample.ops, of(&sample.counts, TAKEN)),
                (INTERRUPTS, INTERRUPTS)
            );
            // Each interrupt waits for its turn, so the run cannot be shorter than all turns.
            assert!(sample.ns_per_op() >= 0.99e9 / f64::from(rate), "{sample:?}");
        }
    }
}
