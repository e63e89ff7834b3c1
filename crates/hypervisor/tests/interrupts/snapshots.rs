//! A guest that is saved and continues in a second one, with the interrupts that it has not taken.

use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use vm_memory::{Bytes, GuestMemoryBackend, GuestMemoryRegion};
use vmbell::irq::Gsi;
use vmbell_guest::{CODE, Parameters, programs};
use vmbell_hypervisor::{
    Capability, Error, Hypervisor, Vcpu, VcpuState, Vm, VmEntry, VmExit, VmState,
};

use testbed::taker::{
    Doing, EDGE, LEVEL, PINS, PV_EOI, msi, rounds, take, taken, while_running, with_interrupts,
};
use testbed::{HOLE, await_that, chain, configured, plain, start, step};

/// A message that the guest has not taken when it is saved.
const PENDING: u8 = 0x44;

fn gsi(number: u32) -> Gsi {
    Gsi::new(number).unwrap()
}

/// Writes a state and reads it back.
fn written<T: Serialize + DeserializeOwned>(state: &T) -> T {
    serde_json::from_value(serde_json::to_value(state).unwrap()).unwrap()
}

/// Runs a vCPU while `meanwhile` runs, and takes it out of the guest by a kick.
fn run_and_kick(mut vcpu: Box<dyn Vcpu>, meanwhile: impl FnOnce()) -> Box<dyn Vcpu> {
    let kick = vcpu.kick_handle();
    std::thread::scope(|scope| {
        let running = scope.spawn(move || {
            assert_eq!(vcpu.run(VmEntry::Resume).unwrap(), VmExit::Kicked);
            vcpu
        });
        meanwhile();
        kick.kick();
        running.join().unwrap()
    })
}

/// Makes a guest from the state and the memory of another one.
fn restored<H: Hypervisor>(
    h: &H,
    from: &Arc<dyn Vm>,
    vcpu: &VcpuState,
    state: &VmState,
) -> (Arc<dyn Vm>, Box<dyn Vcpu>) {
    let vm = configured(h, with_interrupts(1));
    let region = from.memory().iter().next().unwrap();
    let mut bytes = vec![0; usize::try_from(region.len()).unwrap()];
    let start = region.start_addr();
    from.memory().read_slice(&mut bytes, start).unwrap();
    vm.memory().write_slice(&bytes, start).unwrap();
    let mut restored = vm.create_vcpu(0).unwrap();
    restored.set_interrupt_handler(CODE.0 + 16).unwrap();
    restored
        .restore(vcpu)
        .unwrap_or_else(|error| panic!("{}", chain(&error)));
    vm.restore(state).unwrap();
    (vm, restored)
}

/// Takes ten edges at pin 5.
fn take_edges(vm: &Arc<dyn Vm>) {
    for _ in 0..10 {
        let before = taken(vm, 0, EDGE);
        vm.set_line(gsi(5), true).unwrap();
        vm.set_line(gsi(5), false).unwrap();
        await_that("an edge", || taken(vm, 0, EDGE) == before + 1);
    }
}

/// Whether the backend saves guests. One that does not says so by name.
fn saves<H: Hypervisor>(h: &H) -> bool {
    if h.support(Capability::Snapshots).is_yes() {
        return true;
    }
    let vm = plain(h);
    let vcpu = vm.create_vcpu(0).unwrap();
    for refused in [vm.save().map(drop), vcpu.save().map(drop)] {
        let error = refused.unwrap_err();
        let capability = Capability::Snapshots;
        assert!(
            matches!(error, Error::Unsupported { capability: named, .. } if named == capability),
            "{error}"
        );
    }
    false
}

fn a_guest_continues_with_its_pending_interrupts<H: Hypervisor>(h: &H) {
    if !saves(h) {
        return;
    }
    for (doing, flags) in [
        (Doing::Halts, PINS),
        (Doing::Spins, PINS),
        (Doing::Spins, PINS | PV_EOI),
    ] {
        let vm = configured(h, with_interrupts(1));
        let vcpu = take(&vm, 0, doing, 0, flags);
        let vcpu = run_and_kick(vcpu, || {
            let is_ready = || {
                // Before its first round, the guest has not set up its pins.
                vm.signal_msi(msi(0, PENDING)).unwrap();
                rounds(&vm, 0) > 0
            };
            await_that("the guest's first round", is_ready);
            take_edges(&vm);
        });
        let before = taken(&vm, 0, PENDING);
        assert!(vm.signal_msi(msi(0, PENDING)).unwrap());
        vm.set_line(gsi(4), true).unwrap();
        let (state, vm_state) = (written(&vcpu.save().unwrap()), written(&vm.save().unwrap()));
        let made = rounds(&vm, 0);

        for copy in 0..2 {
            let (vm, vcpu) = restored(h, &vm, &state, &vm_state);
            while_running(&vm, vec![vcpu], || {
                let what = || format!("{doing:?}, copy {copy}");
                await_that("the message", || taken(&vm, 0, PENDING) == before + 1);
                await_that("the line that is up", || taken(&vm, 0, LEVEL) > 0);
                vm.set_line(gsi(4), false).unwrap();
                take_edges(&vm);
                assert_eq!(taken(&vm, 0, PENDING), before + 1, "{}", what());
                assert!(rounds(&vm, 0) > made, "{}", what());
            });
            assert_eq!(taken(&vm, 0, EDGE), 20);
        }
    }
}

fn a_vcpu_is_not_saved_before_its_exit_is_answered<H: Hypervisor>(h: &H) {
    if !saves(h) {
        return;
    }
    let vm = plain(h);
    let parameters = Parameters {
        count: 1,
        address: HOLE,
        ..Parameters::default()
    };
    let mut vcpu = start(&vm, programs::mmio_load(), parameters, 0);
    let exit = step(&mut vcpu, VmEntry::Resume).unwrap();
    assert!(matches!(exit, VmExit::MmioRead { .. }), "{exit:?}");
    let error = vcpu.save().unwrap_err();
    assert!(matches!(error, Error::Unsaved { .. }), "{error}");
    vcpu.kick_handle().kick();
    assert_eq!(vcpu.run(VmEntry::Data(7)).unwrap(), VmExit::Kicked);
    vcpu.save().unwrap();
}

/// What a state says that is not so here is named, and so is a field that is missing or unknown.
fn a_state_that_does_not_fit_is_refused_by_name<H: Hypervisor>(h: &H) {
    if !saves(h) {
        return;
    }
    let vm = configured(h, with_interrupts(1));
    let vcpu = take(&vm, 0, Doing::Halts, 0, PINS);
    let state = serde_json::to_value(vcpu.save().unwrap()).unwrap();
    let refusal = |change: &dyn Fn(&mut Value)| {
        let mut state = state.clone();
        change(&mut state);
        let state = match serde_json::from_value::<VcpuState>(state) {
            Ok(state) => state,
            Err(error) => return error.to_string(),
        };
        let vm = configured(h, with_interrupts(1));
        let mut vcpu = vm.create_vcpu(0).unwrap();
        vcpu.restore(&state).unwrap_err().to_string()
    };
    let fields = state.as_object().unwrap().keys();
    let registers = state["registers"].as_object().unwrap().keys();
    for field in fields.chain(registers) {
        let error = refusal(&|state| {
            let inner = state["registers"].as_object_mut().unwrap();
            if inner.remove(field).is_none() {
                state.as_object_mut().unwrap().remove(field).unwrap();
            }
        });
        assert!(
            error.contains(&format!("missing field `{field}`")),
            "{error}"
        );
    }
    for (change, expected) in [
        (("tsc_khz", Value::from(1)), "the TSC's rate"),
        (("cpuid", Value::Array(Vec::new())), "leaves of cpuid"),
        (("colour", Value::from(1)), "unknown field `colour`"),
    ] {
        let (field, value) = change;
        let error = refusal(&|state| state[field] = value.clone());
        assert!(error.contains(expected), "{error}");
    }
    // A structure of another length is no structure with zeros at its end.
    for (pointer, name) in [
        ("/registers/sregs", "kvm_sregs"),
        ("/registers/xcrs", "kvm_xcrs"),
        ("/registers/debug", "kvm_debugregs"),
        ("/registers/xsave", "kvm_xsave"),
        ("/registers/msrs/0", "kvm_msr_entry"),
        ("/registers/lapic/0", "kvm_lapic_state"),
        ("/registers/lapic/1", "kvm_mp_state"),
        ("/registers/events", "kvm_vcpu_events"),
        ("/registers/regs", "kvm_regs"),
        ("/cpuid/0", "kvm_cpuid_entry2"),
    ] {
        let of = |len: usize| format!("invalid length {len}, expected the");
        let bytes = state.pointer(pointer).unwrap().as_array().unwrap();
        for len in [0, bytes.len() - 1, bytes.len() + 1] {
            let mut cut = bytes.clone();
            cut.resize(len, Value::from(0));
            let error = refusal(&|state| *state.pointer_mut(pointer).unwrap() = cut.clone().into());
            let is_named = error.contains(&of(len)) && error.contains(name);
            assert!(is_named, "{name}: {error}");
        }
    }
    let error = refusal(&|state| {
        // EAX of the first leaf, after its number, index and flags.
        let eax = &mut state["cpuid"][0][12];
        *eax = (eax.as_u64().unwrap() ^ 1).into();
    });
    assert!(error.contains("eax of cpuid leaf"), "{error}");

    let mut controllers = serde_json::to_value(vm.save().unwrap()).unwrap();
    for (pointer, name) in [
        ("/controllers/0/2", "kvm_irqchip"),
        ("/controllers/1", "kvm_pit_state2"),
    ] {
        let bytes = controllers.pointer_mut(pointer).unwrap();
        let whole = bytes.clone();
        bytes.as_array_mut().unwrap().pop().unwrap();
        let error = serde_json::from_value::<VmState>(controllers.clone()).unwrap_err();
        assert!(error.to_string().contains(name), "{name}: {error}");
        *controllers.pointer_mut(pointer).unwrap() = whole;
    }

    let plain = configured(h, vmbell_hypervisor::VmConfig::default());
    let error = plain.restore(&vm.save().unwrap()).unwrap_err();
    assert!(matches!(error, Error::Unrestored { .. }), "{error}");
}

/// The entry point is part of the state, so a vCPU that has run takes none.
fn a_vcpu_that_has_run_is_not_restored<H: Hypervisor>(h: &H) {
    if !saves(h) {
        return;
    }
    let vm = configured(h, with_interrupts(1));
    let vcpu = take(&vm, 0, Doing::Spins, 0, PINS);
    let mut vcpu = run_and_kick(vcpu, || await_that("a round", || rounds(&vm, 0) > 0));
    let state = vcpu.save().unwrap();
    assert!(matches!(vcpu.restore(&state), Err(Error::Running)));
}

/// KVM would take the write of a time stamp counter that is close to what it expects for an attempt to synchronize the
/// vCPUs, and ignore its value.
fn a_young_guest_has_the_time_stamp_counters_it_was_saved_with<H: Hypervisor>(h: &H) {
    if !saves(h) {
        return;
    }
    let (ahead, apart) = (1 << 28, 1 << 20);
    let vm = configured(h, with_interrupts(2));
    let vcpus = [0, 1].map(|index| vm.create_vcpu(index).unwrap());
    let mut states = vcpus
        .each_ref()
        .map(|vcpu| serde_json::to_value(vcpu.save().unwrap()).unwrap());
    let field = |state: &Value, name: &str| state[name].as_u64().unwrap();
    let tsc = |state: &Value| field(state, "host_tsc").wrapping_add(field(state, "tsc_offset"));
    for (state, more) in states.iter_mut().zip([ahead, ahead + apart]) {
        let offset = field(state, "tsc_offset").wrapping_add(more);
        state["tsc_offset"] = offset.into();
    }
    let vm = configured(h, with_interrupts(2));
    let again = [0, 1].map(|index| {
        let mut vcpu = vm.create_vcpu(index).unwrap();
        let state = &states[usize::try_from(index).unwrap()];
        vcpu.restore(&serde_json::from_value(state.clone()).unwrap())
            .unwrap();
        serde_json::to_value(vcpu.save().unwrap()).unwrap()
    });
    let shift = |index: usize| {
        let [before, after] = [&states, &again].map(|states| field(&states[index], "tsc_offset"));
        after.wrapping_sub(before)
    };
    // Both have moved by the same value, so that they are as far apart as they were.
    assert_eq!(shift(0), shift(1));
    let [before, after] = [&states[0], &again[0]];
    let passed = tsc(after).wrapping_sub(tsc(before)).cast_signed();
    let since = field(after, "host_tsc").wrapping_sub(field(before, "host_tsc"));
    assert!(
        (0..since.cast_signed()).contains(&passed),
        "{passed} of {since} cycles have passed"
    );
}

testbed::on_both! {
    a_guest_continues_with_its_pending_interrupts;
    a_vcpu_is_not_saved_before_its_exit_is_answered;
    a_state_that_does_not_fit_is_refused_by_name;
    a_vcpu_that_has_run_is_not_restored;
    a_young_guest_has_the_time_stamp_counters_it_was_saved_with;
}
