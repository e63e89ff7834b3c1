//! Guests that break the rules of interrupts: each ends with a clear error, and the monitor keeps running.

use std::time::{Duration, Instant};

use stub::layout::{MAX_VCPUS, RunPage, SHARED_BASE, SharedState};
use testbed::Deadline;
use vm_memory::GuestAddress;
use vmbell::irq::Gsi;
use vmbell_guest::{CODE, Parameters};
use vmbell_hypervisor::{Hypervisor, Vcpu, VmConfig, VmEntry, VmExit};

use testbed::logged::{EOI, LOSE_FRAME, Logged};
use testbed::process::{await_gone, with_sandbox};
use testbed::script::{Op, Player};
use testbed::taker::{msi, with_interrupts};
use testbed::{
    AREA, HOLE, begin_at, chain, configured, event, fault, plain, programs, start, step,
};

fn an_interrupt_without_a_stack_is_a_fault<H: Hypervisor>(h: &H) {
    let end = AREA - 0x10_0000 + VmConfig::default().ram_size;
    // 0x100000 has no room below it; after the end of RAM the frame would be in RAM, but not all of it.
    let stacks = [
        0,
        8,
        0x10_0000,
        0x10_0080,
        end + 0x100,
        HOLE,
        1 << 63,
        u64::MAX,
        SHARED_BASE,
    ];
    for rsp in stacks {
        let vm = configured(h, with_interrupts(1));
        let mut vcpu = crate::interrupts::bare::spin_with_stack(&vm, rsp);
        assert!(matches!(
            step(&mut vcpu, VmEntry::Resume).unwrap(),
            VmExit::PioOut { .. }
        ));
        assert!(vm.signal_msi(msi(0, 0x40)).unwrap());
        let fault = fault(&mut vcpu);
        assert_eq!(fault.exception, "#SS", "{rsp:#x}: {fault}");
        assert!(fault.reason.contains("stack"), "{rsp:#x}: {fault}");
    }
}

fn a_return_without_a_frame_is_a_fault<H: Hypervisor>(h: &H) {
    let vm = configured(h, with_interrupts(1));
    let mut guest = Logged::new(&vm, EOI | LOSE_FRAME);
    // If another interrupt waits, the stub reads the frame; otherwise the processor does.
    guest.raise(0x40);
    guest.player.write(&[Op::Unmask]);
    let ended = fault(&mut guest.player.vcpu);
    assert!(["#PF", "#SS"].contains(&ended.exception), "{ended}");

    let vm = configured(h, with_interrupts(1));
    let mut guest = Logged::new(&vm, LOSE_FRAME);
    guest.raise(0x40);
    guest.raise(0x41);
    guest.player.write(&[Op::Unmask]);
    fault(&mut guest.player.vcpu);
}

fn a_guest_without_apics_refuses_everything<H: Hypervisor>(h: &H) {
    let vm = plain(h);
    let gsi = Gsi::new(3).unwrap();
    let mut vcpu = vm.create_vcpu(0).unwrap();
    let errors = [
        vm.signal_msi(msi(0, 0x40)).map(|_| ()),
        vm.set_line(gsi, true),
        vm.set_routing(&[]),
        vm.register_irqfd(&event(), gsi, None).map(drop),
        vcpu.set_interrupt_handler(CODE.0),
    ];
    for error in errors {
        let text = chain(&error.unwrap_err());
        assert!(text.contains("interrupt controller"), "{text}");
    }
    drop(vcpu);
    // Without interrupt controllers, these operations are not emulated.
    for op in [Op::Mask, Op::Unmask] {
        let vm = plain(h);
        let mut player = Player::new(&vm);
        player.write(&[op]);
        assert_eq!(fault(&mut player.vcpu).exception, "#GP", "{op:?}");
    }
    let vm = plain(h);
    let exits = Player::new(&vm).play(&[Op::WriteMsr(0x80b, 0), Op::ReadMsr(0x1b), Op::Halt]);
    assert_eq!(exits.len(), 3, "{exits:?}");
}

fn a_handler_is_set_before_the_first_run_and_in_the_guest<H: Hypervisor>(h: &H) {
    let vm = configured(h, with_interrupts(1));
    let mut guest = Logged::new(&vm, EOI);
    let error = guest.player.vcpu.set_interrupt_handler(CODE.0).unwrap_err();
    assert!(chain(&error).contains("has run"), "{}", chain(&error));
    let vm = configured(h, with_interrupts(1));
    let mut vcpu = vm.create_vcpu(0).unwrap();
    for address in [0, 1 << 32, SHARED_BASE, 1 << 63] {
        let error = chain(&vcpu.set_interrupt_handler(address).unwrap_err());
        assert!(error.contains("handler"), "{error}");
    }
}

const RUNS: u64 =
    SHARED_BASE + (size_of::<SharedState>() - MAX_VCPUS * size_of::<RunPage>()) as u64;

/// Enters a vCPU until its sandbox ends or `end` is reached.
fn enter_until(vcpu: &mut Box<dyn Vcpu>, end: Instant) -> String {
    let _deadline = Deadline::new(end, vcpu.kick_handle()).unwrap();
    while Instant::now() < end {
        match vcpu.run(VmEntry::Resume) {
            Ok(VmExit::Fault(fault)) => return fault.to_string(),
            Ok(_) => {}
            Err(error) => return chain(&error),
        }
    }
    "in time".into()
}

fn local_apics_full_of_nonsense_harm_nobody_else<H: Hypervisor>(h: &H) {
    let apics = SHARED_BASE..RUNS;
    let page = size_of::<RunPage>() as u64;
    for (round, value) in (0..).zip([
        u64::MAX,
        0x5555_5555_5555_5555,
        0x0102_0408_1020_4081,
        3,
        4,
        7,
    ]) {
        // vCPU 1 writes over memory that interrupts vCPU 0: its local APIC, or its run page.
        let (place, len) = if round % 2 == 0 {
            (apics.start, apics.end - apics.start)
        } else {
            (RUNS, page)
        };
        let (vm, sandbox) = with_sandbox(h, &with_interrupts(2));
        let scribble = |address, len, port: u64| Parameters {
            count: len,
            address,
            value,
            pause: port,
        };
        let mut honest = start(&vm, programs::scribble(), scribble(AREA, 64, 0x55), 0);
        honest.set_interrupt_handler(CODE.0).unwrap();
        let second = GuestAddress(AREA + 0x2_0000);
        scribble(place, len, 0).write(vm.memory(), second).unwrap();
        let forger = begin_at(&vm, 1, second);
        let end = Instant::now() + Duration::from_millis(400);
        let gsi = Gsi::new(4).unwrap();
        let forwarded = vm.forward_line(Gsi::new(5).unwrap()).unwrap();
        std::thread::scope(|scope| {
            let threads =
                [honest, forger].map(|mut vcpu| scope.spawn(move || enter_until(&mut vcpu, end)));
            while Instant::now() < end {
                let _ = vm.signal_msi(msi(0, 0x40)).unwrap();
                let _ = vm.signal_msi(msi(0xff, 0x99)).unwrap();
                vm.set_line(gsi, true).unwrap();
                vm.set_line(gsi, false).unwrap();
                forwarded.raise();
                let _ = forwarded.has_ended();
                std::thread::yield_now();
            }
            for thread in threads {
                let text = thread.join().unwrap();
                let clear = ["invalid value", "the sandbox ended", "at 0x", "in time"];
                assert!(clear.iter().any(|part| text.contains(part)), "{text}");
            }
        });
        drop(vm);
        await_gone(sandbox);
    }
}

testbed::on_usermode! {
    an_interrupt_without_a_stack_is_a_fault;
    a_return_without_a_frame_is_a_fault;
    a_guest_without_apics_refuses_everything;
    a_handler_is_set_before_the_first_run_and_in_the_guest;
    local_apics_full_of_nonsense_harm_nobody_else;
}
