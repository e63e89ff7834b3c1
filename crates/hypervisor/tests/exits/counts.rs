//! The reported numbers of a guest's exits.

use vmbell::doorbell::{Datamatch, Sharing};
use vmbell_guest::Parameters;
use vmbell_hypervisor::{Capability, Hypervisor};

use testbed::{bells, count, event, plain, run, start};

fn light_exits_are_counted_or_not_known<H: Hypervisor>(h: &H) {
    const RINGS: u64 = 500;
    let vm = plain(h);
    let event = event();
    let place = bells::place(0x500);
    let _doorbell = vm
        .register_ioevent(&event, place, Datamatch::U32(None), Sharing::Exclusive)
        .unwrap();
    let parameters = Parameters {
        count: RINGS,
        address: place.value(),
        ..Parameters::default()
    };
    let mut vcpu = start(&vm, bells::program(), parameters, 0);
    let before = vm.measure().exit_counts();
    assert_eq!(run(&mut vcpu), []);
    assert_eq!(count(&event), RINGS);
    let after = vm.measure().exit_counts();
    // The exit with which the guest reports that it is done.
    assert_eq!(after.heavy - before.heavy, 1);
    let light = after.light.zip(before.light).map(|(now, then)| now - then);
    if h.support(Capability::CountsLightExits).is_yes() {
        assert!(light.is_some_and(|light| light >= RINGS), "{light:?}");
    } else {
        assert_eq!(light, None);
    }
}

/// Ring 0 runs either on the CPU or in an emulator, and each capability that depends on it has a separate trial.
fn exits_are_counted_where_ring_0_is_on_the_cpu<H: Hypervisor>(h: &H) {
    let native = h.support(Capability::NativeKernelMode);
    let counted = h.support(Capability::CountsLightExits);
    let ended = h.support(Capability::EndOfInterrupt);
    let same = [&counted, &ended].map(|other| other.is_yes() == native.is_yes());
    assert_eq!(same, [true, true], "{native}, {counted}, {ended}");
}

testbed::on_usermode! {
    light_exits_are_counted_or_not_known;
}

testbed::on_kvm! {
    light_exits_are_counted_or_not_known;
    exits_are_counted_where_ring_0_is_on_the_cpu;
}
