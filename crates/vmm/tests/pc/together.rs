//! Several vCPUs of any backend at once, until one of them or the limit ends them all.

use vm_memory::{Bytes, GuestAddress};
use vmbell_guest::{CODE, PARAMETERS, Parameters, Results};
use vmbell_hypervisor::{EntryPoint, Hypervisor, Vcpu, VmConfig};
use vmbell_vmm::{Machine, Stop};

use testbed::{AREA, configured, programs};

const VCPUS: u32 = 3;
/// The address of the program that never leaves the guest, away from the other program.
const SPIN: GuestAddress = GuestAddress(CODE.0 + 0x8000);

/// The page of a vCPU.
fn page(index: u32) -> GuestAddress {
    GuestAddress(AREA + 0x1_0000 * u64::from(index))
}

/// A machine whose vCPUs count forever. The first is done at once if `first_is_done`.
fn machine<H: Hypervisor>(hypervisor: &H, first_is_done: bool) -> (Machine, Vec<Box<dyn Vcpu>>) {
    let config = VmConfig {
        vcpus: VCPUS,
        ..VmConfig::default()
    };
    let machine = Machine::new(configured(hypervisor, config));
    let memory = machine.vm().memory();
    memory.write_slice(programs::script().code, CODE).unwrap();
    memory.write_slice(programs::spin().code, SPIN).unwrap();
    let mut vcpus = Vec::new();
    for index in 0..VCPUS {
        // An empty script: the page after the parameters is zero.
        let parameters = Parameters {
            address: page(index).0 + 0x1000,
            ..Parameters::default()
        };
        parameters.write(memory, page(index)).unwrap();
        let program = if index == 0 && first_is_done {
            CODE
        } else {
            SPIN
        };
        let mut vcpu = machine.vm().create_vcpu(index).unwrap();
        vcpu.set_entry_point(EntryPoint::Program {
            pc: program.0,
            sp: PARAMETERS.0 + 0x2_0000 + 0x1_0000 * u64::from(index),
            arguments: [page(index).0, index.into()],
        })
        .unwrap();
        vcpus.push(vcpu);
    }
    (machine, vcpus)
}

fn first_to_end_ends_the_others<H: Hypervisor>(hypervisor: &H) {
    let (machine, mut vcpus) = machine(hypervisor, true);
    let stop = machine.run_together(&mut vcpus, || false).unwrap();
    assert!(matches!(stop, Stop::Done(_)), "{stop}");
}

fn limit_ends_all_and_all_have_run<H: Hypervisor>(hypervisor: &H) {
    let (machine, mut vcpus) = machine(hypervisor, false);
    let memory = machine.vm().memory().clone();
    let counts = move || {
        (0..VCPUS)
            .map(|index| Results::read(&memory, page(index)).unwrap().rings)
            .collect::<Vec<u64>>()
    };
    let asked = counts.clone();
    let until = move || asked().iter().all(|count| *count > 0);
    let stop = machine.run_together(&mut vcpus, until).unwrap();
    assert_eq!(stop, Stop::Kicked);
    assert!(counts().iter().all(|count| *count > 0), "{:?}", counts());
}

fn machine_without_vcpus_is_halted<H: Hypervisor>(hypervisor: &H) {
    let (machine, vcpus) = machine(hypervisor, false);
    drop(vcpus);
    let stop = machine.run_together(&mut [], || false).unwrap();
    assert_eq!(stop, Stop::Halted);
}

testbed::on_both! {
    first_to_end_ends_the_others;
    limit_ends_all_and_all_have_run;
    machine_without_vcpus_is_halted;
}
