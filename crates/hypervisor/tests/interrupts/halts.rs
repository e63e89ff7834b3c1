//! Halted vCPUs and what wakes them, after an irqfd has woken them once: no interrupt is lost, and none comes twice.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use vm_memory::{Bytes, GuestAddress};
use vmbell::irq::{Gsi, Route, Target};
use vmbell_guest::{CODE, DONE_PORT, Parameters};
use vmbell_hypervisor::{Hypervisor, Vcpu, Vm, VmEntry, VmExit};
use vmm_sys_util::eventfd::EventFd;

use testbed::taker::{
    Doing, EDGE, PINS, msi, page, stop, take, taken, while_running, while_running_and_seeing,
    with_interrupts, word,
};
use testbed::{await_that, configured, event, programs, step};

fn gsi(number: u32) -> Gsi {
    Gsi::new(number).unwrap()
}

/// Gives a vCPU time to fall asleep. A vCPU that is still awake takes its interrupt on a different path.
fn let_it_sleep() {
    std::thread::sleep(Duration::from_micros(300));
}

/// Signals an irqfd again and again, each time after the vCPU has taken the previous interrupt.
fn wake(vm: &Arc<dyn Vm>, vcpu: u32, irqfd: &EventFd, vector: u8, times: u64) {
    let before = taken(vm, vcpu, vector);
    for round in 1..=times {
        let_it_sleep();
        irqfd.write(1).unwrap();
        await_that("the irqfd's interrupt", || {
            taken(vm, vcpu, vector) == before + round
        });
    }
}

fn each_signal_and_each_kick_wakes<H: Hypervisor>(h: &H) {
    let vm = configured(h, with_interrupts(1));
    let irqfd = event();
    let _irqfd = vm.register_irqfd(&irqfd, gsi(5), None).unwrap();
    let vcpu = take(&vm, 0, Doing::Halts, 0, PINS);
    let (kick, kicked) = (vcpu.kick_handle(), AtomicU64::new(0));
    let see = |exit: &VmExit| {
        assert_eq!(*exit, VmExit::Kicked);
        kicked.fetch_add(1, Relaxed);
    };
    while_running_and_seeing(&vm, vec![vcpu], &see, || {
        for round in 1..=50 {
            wake(&vm, 0, &irqfd, EDGE, 6);
            let_it_sleep();
            kick.kick();
            await_that("the kick", || kicked.load(Relaxed) == round);
        }
    });
    assert_eq!((taken(&vm, 0, EDGE), kicked.into_inner()), (300, 50));
}

fn the_others_wake_when_one_irqfd_is_removed<H: Hypervisor>(h: &H) {
    let vm = configured(h, with_interrupts(1));
    let (removed, other) = (event(), event());
    let vcpu = take(&vm, 0, Doing::Halts, 0, PINS);
    let (mut edges, mut messages) = (0, 0);
    while_running(&vm, vec![vcpu], || {
        let _irqfd = vm.register_irqfd(&other, gsi(5), None).unwrap();
        for _ in 0..20 {
            let irqfd = vm.register_irqfd(&removed, gsi(5), None).unwrap();
            wake(&vm, 0, &removed, EDGE, 3);
            drop(irqfd);
            removed.write(1).unwrap();
            for _ in 0..3 {
                let_it_sleep();
                assert!(vm.signal_msi(msi(0, 0x44)).unwrap());
                messages += 1;
                await_that("the message", || taken(&vm, 0, 0x44) == messages);
            }
            wake(&vm, 0, &other, EDGE, 3);
            edges += 6;
            assert_eq!(
                removed.read().unwrap(),
                1,
                "no irqfd takes the count any more"
            );
        }
    });
    assert_eq!(
        (taken(&vm, 0, EDGE), taken(&vm, 0, 0x44)),
        (edges, messages)
    );
}

fn many_irqfds_wake_one_vcpu<H: Hypervisor>(h: &H) {
    const MANY: u8 = 40;
    let vm = configured(h, with_interrupts(1));
    let number = |index: u8| gsi(100 + u32::from(index));
    let vector = |index: u8| 0x40 + index;
    let routes = (0..MANY).map(|index| Route {
        gsi: number(index),
        target: Target::Msi(msi(0, vector(index))),
    });
    vm.set_routing(&routes.collect::<Vec<_>>()).unwrap();
    let irqfds: Vec<_> = (0..MANY).map(|index| (index, event())).collect();
    let _registered: Vec<_> = irqfds
        .iter()
        .map(|(index, irqfd)| vm.register_irqfd(irqfd, number(*index), None).unwrap())
        .collect();
    let vcpu = take(&vm, 0, Doing::Halts, 0, 0);
    while_running(&vm, vec![vcpu], || {
        for _ in 0..8 {
            for (index, irqfd) in &irqfds {
                wake(&vm, 0, irqfd, vector(*index), 1);
            }
        }
        for burst in 1..=50 {
            let_it_sleep();
            for (_, irqfd) in &irqfds {
                irqfd.write(1).unwrap();
            }
            await_that("all of them", || {
                (0..MANY).all(|index| taken(&vm, 0, vector(index)) == 8 + burst)
            });
        }
    });
    for index in 0..MANY {
        assert_eq!(taken(&vm, 0, vector(index)), 58, "irqfd {index}");
    }
}

/// Replaces the takers' program with the partners' program. A taker that is done continues after its output, near the
/// program's end, and jumps from there to the start of the new program.
fn go_on_as_partners(vm: &Arc<dyn Vm>) {
    let (takers, partners) = (programs::interrupts().code, programs::partners().code);
    assert!(partners.len() + 16 < takers.len(), "the output is after it");
    let mut code = partners.to_vec();
    // nop
    code.resize(takers.len(), 0x90);
    // jmp CODE
    let back = i32::try_from(code.len() + 5).unwrap();
    code.push(0xe9);
    code.extend((-back).to_le_bytes());
    vm.memory().write_slice(&code, CODE).unwrap();
}

fn to_done(vcpu: &mut Box<dyn Vcpu>) {
    let exit = step(vcpu, VmEntry::Resume).unwrap();
    assert!(
        matches!(
            &exit,
            VmExit::PioOut {
                port: DONE_PORT,
                data: 0,
                ..
            }
        ),
        "{exit:?}"
    );
}

fn vcpus_that_irqfds_woke_wake_each_other<H: Hypervisor>(h: &H) {
    const COUNT: u64 = 2_000;
    let vm = configured(h, with_interrupts(2));
    let routes = [0, 1].map(|index| Route {
        gsi: gsi(100 + u32::from(index)),
        target: Target::Msi(msi(index, 0x45)),
    });
    vm.set_routing(&routes).unwrap();
    let irqfds = [event(), event()];
    let _registered = [0, 1].map(|index| {
        let gsi = routes[index].gsi;
        vm.register_irqfd(&irqfds[index], gsi, None).unwrap()
    });
    let mut vcpus = [0, 1].map(|index| take(&vm, index, Doing::Halts, 0, 0));
    std::thread::scope(|scope| {
        for vcpu in &mut vcpus {
            scope.spawn(|| to_done(vcpu));
        }
        // A message is refused until the guest takes interrupts.
        for index in [0, 1_u8] {
            await_that("the guest's start", || {
                vm.signal_msi(msi(index, 0x46)).unwrap()
            });
        }
        for (index, irqfd) in (0..).zip(&irqfds) {
            wake(&vm, index, irqfd, 0x45, 20);
            stop(&vm, index);
            irqfd.write(1).unwrap();
        }
    });
    go_on_as_partners(&vm);
    for index in [0_u32, 1] {
        let parameters = Parameters {
            count: COUNT,
            address: u64::from(1 - index),
            value: 0x70,
            pause: 1,
        };
        parameters.write(vm.memory(), page(index)).unwrap();
        let stamp = page(index).0 + vmbell_guest::offset::STAMP as u64;
        vm.memory().write_obj(0_u64, GuestAddress(stamp)).unwrap();
    }
    std::thread::scope(|scope| {
        for vcpu in &mut vcpus {
            scope.spawn(|| to_done(vcpu));
        }
    });
    for index in 0..2 {
        assert_eq!(word(&vm, index, 0x800), COUNT, "vcpu {index}");
    }
}

testbed::on_both! {
    each_signal_and_each_kick_wakes;
    the_others_wake_when_one_irqfd_is_removed;
    many_irqfds_wake_one_vcpu;
    vcpus_that_irqfds_woke_wake_each_other;
}
