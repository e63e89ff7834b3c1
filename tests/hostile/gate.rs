//! Guests that make the stub's own system calls, again and again.
#![allow(unsafe_code)]

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use iced_x86::{Decoder, FlowControl};
use stub::layout::FD_BASE;
use vm_memory::{Bytes, GuestAddress};
use vmbell::doorbell::{Datamatch, IoEventAddress, Sharing};
use vmbell::guest::Parameters;
use vmbell::hypervisor::{Hypervisor, Irqchip, Vcpu, Vm, VmConfig, VmEntry};

use crate::harness::process::{await_gone, signal, with_sandbox};
use crate::harness::symbols::{code, syscalls};
use crate::harness::{AREA, chain, count, event, programs, start, step};

/// Enough for the memory that the guest program leaves to the stub's code.
const RAM: u64 = 64 << 20;
/// How long an operation may take, whatever the guest does.
const SECONDS: Duration = Duration::from_secs(10);
const PLACE: IoEventAddress = IoEventAddress::Pio(0x500);
const ANY: Datamatch = Datamatch::AnyLength;

/// A `syscall` of the stub that is followed by a return and no branch.
fn returning_gate() -> u64 {
    let (base, bytes) = code();
    let returns = |gate: &u64| {
        let skip = usize::try_from(gate - base).unwrap();
        let behind = Decoder::with_ip(64, &bytes[skip + 2..], gate + 2, 0).into_iter();
        let mut flow = behind.map(|instruction| instruction.flow_control());
        flow.find(|flow| *flow != FlowControl::Next) == Some(FlowControl::Return)
    };
    syscalls().into_iter().find(returns).expect("such a gate")
}

/// A vCPU that is about to make this call from the stub.
fn caller<V: Vm>(vm: &V, call: [u64; 4]) -> V::Vcpu {
    for (word, address) in call.into_iter().zip((AREA..).step_by(8)) {
        vm.memory().write_obj(word, GuestAddress(address)).unwrap();
    }
    let parameters = Parameters {
        address: AREA,
        value: returning_gate(),
        ..Parameters::default()
    };
    start(vm, programs::gate(), parameters, 0)
}

fn the_descriptor_thread_cannot_be_signalled_by_its_guest<H: Hypervisor>(h: &H) {
    let config = VmConfig {
        irqchip: Irqchip::Full,
        ram_size: RAM,
        ..VmConfig::default()
    };
    let (vm, sandbox) = with_sandbox(h, &config);
    let own = u64::from(sandbox.cast_unsigned());
    let signal = u64::from(libc::SIGUSR2.cast_unsigned());
    let mut vcpu = caller(&vm, [234, own, own, signal]);
    std::thread::scope(|scope| {
        let vcpu = scope.spawn(|| step(&mut vcpu, VmEntry::Resume).map_err(|error| chain(&error)));
        let bell = event();
        for _ in 0..20 {
            let begin = Instant::now();
            // The sandbox is likely to end meanwhile.
            let registered = vm.register_ioevent(&bell, PLACE, ANY, Sharing::Exclusive);
            if registered.is_ok() {
                let _ = vm.unregister_ioevent(&bell, PLACE, ANY);
            }
            assert!(begin.elapsed() < SECONDS, "{:?}", begin.elapsed());
        }
        let end = vcpu.join().unwrap().expect_err("an end");
        assert!(end.contains("SIGSYS"), "{end}");
    });
    drop(vcpu);
    drop(vm);
    await_gone(sandbox);
}

fn the_descriptor_thread_handles_no_signal<H: Hypervisor>(h: &H) {
    let (vm, sandbox) = with_sandbox(h, &VmConfig::default());
    for thread in std::fs::read_dir(format!("/proc/{sandbox}/task")).unwrap() {
        let thread = thread.unwrap();
        let status = std::fs::read_to_string(thread.path().join("status")).unwrap();
        let mask = status.lines().find_map(|line| line.strip_prefix("SigBlk:"));
        let mask = u64::from_str_radix(mask.unwrap().trim(), 16).unwrap();
        // SIGKILL and SIGSTOP cannot be blocked.
        let expected = if thread.file_name() == *sandbox.to_string() {
            !(1 << (libc::SIGKILL - 1) | 1 << (libc::SIGSTOP - 1))
        } else {
            0
        };
        assert_eq!(mask, expected, "{status}");
    }
    let bell = event();
    for _ in 0..100 {
        // SAFETY: no pointers.
        unsafe { libc::syscall(libc::SYS_tgkill, sandbox, sandbox, libc::SIGUSR2) };
        vm.register_ioevent(&bell, PLACE, ANY, Sharing::Exclusive)
            .unwrap();
        vm.unregister_ioevent(&bell, PLACE, ANY).unwrap();
    }
}

/// A guest with a vCPU that writes the doorbell's descriptor from the stub, in no section.
fn with_writer<H: Hypervisor>(h: &H) -> (H::Vm, <H::Vm as Vm>::Vcpu, i32) {
    let config = VmConfig {
        ram_size: RAM,
        ..VmConfig::default()
    };
    let (vm, sandbox) = with_sandbox(h, &config);
    let value = AREA + 0x90;
    vm.memory().write_obj(5_u64, GuestAddress(value)).unwrap();
    let vcpu = caller(&vm, [1, u64::from(FD_BASE), value, 8]);
    (vm, vcpu, sandbox)
}

/// Ends a guest that answers no kick, being always in the stub's code; when a test fails too.
struct KillAtEnd(i32);

impl Drop for KillAtEnd {
    fn drop(&mut self) {
        // SAFETY: no pointers; the process is there until the guest is dropped.
        unsafe { libc::kill(self.0, libc::SIGKILL) };
    }
}

fn calls<V: Vm>(vm: &V) -> u64 {
    vm.memory().read_obj(GuestAddress(AREA + 0x80)).unwrap()
}

fn await_calls<V: Vm>(vm: &V) {
    let (before, begin) = (calls(vm), Instant::now());
    while calls(vm) < before + 3 {
        assert!(begin.elapsed() < SECONDS, "the guest makes no calls");
        std::thread::yield_now();
    }
}

/// How many removals race with signals of somebody else; `VMBELL_STOPS` asks for more.
fn stops() -> u32 {
    let more = std::env::var("VMBELL_STOPS").ok();
    more.map_or(150, |stops| stops.parse().unwrap())
}

fn a_removal_ends_whoever_stops_and_continues_the_sandbox<H: Hypervisor>(h: &H) {
    let (vm, mut vcpu, sandbox) = with_writer(h);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _end = KillAtEnd(sandbox);
        scope.spawn(|| vcpu.run(VmEntry::Resume));
        await_calls(&vm);
        let meddler = scope.spawn(|| {
            for round in 0_u64.. {
                // Ends with a SIGCONT.
                let number = if round % 3 == 0 {
                    libc::SIGSTOP
                } else {
                    libc::SIGCONT
                };
                signal(sandbox, number);
                if done.load(Relaxed) && number == libc::SIGCONT {
                    return;
                }
                std::thread::sleep(Duration::from_micros(round * 7919 % 300));
            }
        });
        let bell = event();
        for _ in 0..stops() {
            let begin = Instant::now();
            let registered = vm.register_ioevent(&bell, PLACE, ANY, Sharing::Exclusive);
            assert!(begin.elapsed() < SECONDS, "{:?}", begin.elapsed());
            if registered.is_err() {
                continue;
            }
            while vm.unregister_ioevent(&bell, PLACE, ANY).is_err() {
                assert!(begin.elapsed() < 3 * SECONDS, "{:?}", begin.elapsed());
            }
            let _ = count(&bell);
            std::thread::sleep(Duration::from_micros(300));
            assert_eq!(count(&bell), 0, "rung after the removal had returned");
        }
        done.store(true, Relaxed);
        meddler.join().unwrap();
    });
}

crate::on_usermode! {
    the_descriptor_thread_cannot_be_signalled_by_its_guest;
    the_descriptor_thread_handles_no_signal;
    a_removal_ends_whoever_stops_and_continues_the_sandbox;
}
