//! Several vCPUs: each takes its own interrupts, and they interrupt each other.

use testbed::done;
use vm_memory::Bytes;
use vmbell::irq::{Gsi, Msi, Route, Target};
use vmbell_guest::{CODE, Parameters};
use vmbell_hypervisor::{Hypervisor, Irqchip, Vcpu, VmConfig, VmEntry};

use testbed::taker::{
    Doing, has_messages, msi, page, take, taken, while_running, with_interrupts, word,
};
use testbed::{await_that, begin_at, configured, programs, rounds};

fn each_vcpu_takes_its_own<H: Hypervisor>(h: &H) {
    if !has_messages(h) {
        return;
    }
    let vm = configured(h, with_interrupts(3));
    let doings = [Doing::Halts, Doing::Halts, Doing::Spins];
    let vcpus = (0..).zip(doings);
    let vcpus = vcpus.map(|(index, doing)| take(&vm, index, doing, 0, 0));
    while_running(&vm, vcpus.collect(), || {
        for round in 1..=100 {
            for index in 0..3_u8 {
                assert!(vm.signal_msi(msi(index, 0x40 + index)).unwrap());
            }
            await_that("all three", || {
                (0..3_u8).all(|index| taken(&vm, index.into(), 0x40 + index) == round)
            });
        }
    });
    for (index, vector) in [
        (0, 0x41),
        (0, 0x42),
        (1, 0x40),
        (1, 0x42),
        (2, 0x40),
        (2, 0x41),
    ] {
        assert_eq!(
            taken(&vm, index, vector),
            0,
            "vcpu {index} took {vector:#x}"
        );
    }
}

/// A message through an ITS has one target.
#[cfg(target_arch = "x86_64")]
fn a_message_to_all_reaches_all<H: Hypervisor>(h: &H) {
    let vm = configured(h, with_interrupts(3));
    let vcpus = (0..3).map(|index| take(&vm, index, Doing::Halts, 0, 0));
    while_running(&vm, vcpus.collect(), || {
        for round in 1..=50 {
            assert!(vm.signal_msi(msi(0xff, 0x55)).unwrap());
            await_that("all three", || {
                (0..3).all(|index| taken(&vm, index, 0x55) == round)
            });
        }
        assert!(!vm.signal_msi(msi(7, 0x55)).unwrap(), "there is no vcpu 7");
    });
}

/// On arm64 the API's lines are SPIs and never messages.
#[cfg(target_arch = "x86_64")]
fn a_gsi_leads_where_its_route_says<H: Hypervisor>(h: &H) {
    let config = VmConfig {
        irqchip: Irqchip::Split,
        ..with_interrupts(2)
    };
    let vm = configured(h, config);
    let gsi = Gsi::new(30).unwrap();
    let route = |msi: Msi| Route {
        gsi,
        target: Target::Msi(msi),
    };
    let vcpus = (0..2).map(|index| take(&vm, index, Doing::Halts, 0, 0));
    while_running(&vm, vcpus.collect(), || {
        for round in 1..=50 {
            for index in 0..2_u8 {
                vm.set_routing(&[route(msi(index, 0x60 + index))]).unwrap();
                vm.set_line(gsi, true).unwrap();
                vm.set_line(gsi, false).unwrap();
                await_that("its vcpu", || {
                    taken(&vm, index.into(), 0x60 + index) == round
                });
            }
        }
        vm.set_routing(&[]).unwrap();
        vm.set_line(gsi, true).unwrap();
        vm.set_line(Gsi::new(31).unwrap(), true).unwrap();
    });
    assert_eq!((taken(&vm, 0, 0x60), taken(&vm, 1, 0x61)), (50, 50));
    assert_eq!((taken(&vm, 0, 0x61), taken(&vm, 1, 0x60)), (0, 0));
}

/// Runs two vCPUs that send interrupts to each other, each waiting for the other's.
#[cfg(target_arch = "x86_64")]
fn send<H: Hypervisor>(h: &H, halts: [u64; 2]) {
    let count = rounds(2_000);
    let vm = configured(h, with_interrupts(2));
    vm.memory()
        .write_slice(programs::partners().code, CODE)
        .unwrap();
    let vcpus = [0_u32, 1].map(|index| {
        let parameters = Parameters {
            count,
            address: u64::from(1 - index),
            value: 0x70,
            pause: halts[index as usize],
        };
        parameters.write(vm.memory(), page(index)).unwrap();
        let mut vcpu = begin_at(&vm, index, page(index));
        vcpu.set_interrupt_handler(CODE.0 + 16).unwrap();
        vcpu
    });
    std::thread::scope(|scope| {
        let run = |mut vcpu: Box<dyn Vcpu>| {
            scope.spawn(move || {
                let exit = vcpu.run(VmEntry::Resume).unwrap();
                assert!(done(&exit).is_some(), "{exit:?}");
            })
        };
        for thread in vcpus.map(run) {
            thread
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        }
    });
    for index in 0..2 {
        assert_eq!(word(&vm, index, 0x800), count, "vcpu {index}, {halts:?}");
    }
}

#[cfg(target_arch = "x86_64")]
fn vcpus_interrupt_each_other<H: Hypervisor>(h: &H) {
    send(h, [0, 0]);
    send(h, [1, 1]);
    send(h, [0, 1]);
}

testbed::on_both! {
    each_vcpu_takes_its_own;
    #[cfg(target_arch = "x86_64")] a_message_to_all_reaches_all;
    #[cfg(target_arch = "x86_64")] a_gsi_leads_where_its_route_says;
    #[cfg(target_arch = "x86_64")] vcpus_interrupt_each_other;
}
