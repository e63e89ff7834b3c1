//! Guests that make the stub's own system calls, again and again.
#![allow(unsafe_code)]

use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use iced_x86::{Decoder, FlowControl};
use rustix::process::Signal;
use stub::layout::FD_BASE;
use vm_memory::{Bytes, GuestAddress};
use vmbell::doorbell::{Datamatch, IoEventAddress, Sharing};
use vmbell_guest::Parameters;
use vmbell_hypervisor::{Hypervisor, Irqchip, Vcpu, Vm, VmConfig, VmEntry};
use vmm_sys_util::eventfd::EventFd;

use testbed::process::{await_gone, signal, sleeps_in_write, with_sandbox};
use testbed::symbols::{code, syscalls};
use testbed::{AREA, HANG, await_that, begin, chain, count, event, programs, start, step};

/// Enough for the memory that the guest program leaves to the stub's code.
const RAM: u64 = 64 << 20;
/// How many removals race with the guest's writes.
const REMOVALS: u32 = 300;
/// More than a host has CPUs to spare, so that some are preempted in the middle of their call.
const VCPUS: u32 = 4;
const PLACE: IoEventAddress = IoEventAddress::Pio(0x500);
const ANY: Datamatch = Datamatch::AnyLength;

/// A `syscall` of the stub that is followed by a return and no branch.
fn returning_gadget() -> u64 {
    let (base, bytes) = code();
    let returns = |gadget: &u64| {
        let skip = usize::try_from(gadget - base).unwrap();
        let behind = Decoder::with_ip(64, &bytes[skip + 2..], gadget + 2, 0).into_iter();
        let mut flow = behind.map(|instruction| instruction.flow_control());
        flow.find(|flow| *flow != FlowControl::Next) == Some(FlowControl::Return)
    };
    syscalls().into_iter().find(returns).expect("such a gadget")
}

/// A vCPU that is about to make this call from the stub.
fn caller(vm: &Arc<dyn Vm>, call: [u64; 4]) -> Box<dyn Vcpu> {
    for (word, address) in call.into_iter().zip((AREA..).step_by(8)) {
        vm.memory().write_obj(word, GuestAddress(address)).unwrap();
    }
    let parameters = Parameters {
        address: AREA,
        value: returning_gadget(),
        ..Parameters::default()
    };
    start(vm, programs::gadget(), parameters, 0)
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
            // The sandbox is likely to end meanwhile.
            drop(vm.register_ioevent(&bell, PLACE, ANY, Sharing::Exclusive));
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
        let mut doorbell = vm
            .register_ioevent(&bell, PLACE, ANY, Sharing::Exclusive)
            .unwrap();
        doorbell.remove().unwrap();
    }
}

/// A guest with a vCPU that writes the doorbell's descriptor from the stub, in no section.
fn with_writer<H: Hypervisor>(h: &H) -> (Arc<dyn Vm>, Box<dyn Vcpu>, i32) {
    let config = VmConfig {
        ram_size: RAM,
        vcpus: VCPUS,
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
        // One that is gone already has ended.
        let _ = signal(self.0, Signal::KILL);
    }
}

fn calls(vm: &Arc<dyn Vm>) -> u64 {
    vm.memory().read_obj(GuestAddress(AREA + 0x80)).unwrap()
}

fn await_calls(vm: &Arc<dyn Vm>) {
    let before = calls(vm);
    await_that("the guest's calls", || calls(vm) >= before + 3);
}

fn no_system_call_of_a_guests_own_making_rings_after_a_removal<H: Hypervisor>(h: &H) {
    let (vm, vcpu, sandbox) = with_writer(h);
    std::thread::scope(|scope| {
        let _end = KillAtEnd(sandbox);
        let others = (1..VCPUS).map(|index| begin(&vm, index));
        for mut vcpu in others.chain([vcpu]).collect::<Vec<_>>() {
            scope.spawn(move || vcpu.run(VmEntry::Resume));
        }
        let bell = event();
        await_calls(&vm);
        let (begun, mut removals, mut rung) = (Instant::now(), 0, 0);
        while (removals < REMOVALS || rung == 0) && begun.elapsed() < HANG {
            removals += 1;
            let mut doorbell = vm
                .register_ioevent(&bell, PLACE, ANY, Sharing::Exclusive)
                .unwrap();
            std::thread::sleep(Duration::from_micros(100));
            doorbell.remove().unwrap();
            rung += count(&bell);
            std::thread::sleep(Duration::from_millis(3));
            assert_eq!(count(&bell), 0, "rung after the removal had returned");
        }
        assert!(rung > 0, "the guest never rang");
    });
}

fn no_write_that_waits_for_a_full_eventfd_rings_after_a_removal<H: Hypervisor>(h: &H) {
    let (vm, mut vcpu, sandbox) = with_writer(h);
    std::thread::scope(|scope| {
        let _end = KillAtEnd(sandbox);
        scope.spawn(|| vcpu.run(VmEntry::Resume));
        await_calls(&vm);
        for _ in 0..10 {
            let bell = Arc::new(EventFd::new(0).unwrap());
            bell.write(u64::MAX - 1).unwrap();
            let mut doorbell = vm
                .register_ioevent(&bell, PLACE, ANY, Sharing::Exclusive)
                .unwrap();
            await_that("the guest to be held", || sleeps_in_write(sandbox));
            doorbell.remove().unwrap();
            assert_eq!(bell.read().unwrap(), u64::MAX - 1);
            std::thread::sleep(Duration::from_millis(2));
            let mut poll = libc::pollfd {
                fd: bell.as_raw_fd(),
                events: libc::POLLIN,
                revents: 0,
            };
            // SAFETY: one entry, which outlives the call.
            let readable = unsafe { libc::poll(&raw mut poll, 1, 0) };
            assert_eq!(readable, 0, "rung after the removal had returned");
            await_calls(&vm);
        }
    });
}

/// How many removals race with signals of another process; `VMBELL_STOPS` asks for more.
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
                    Signal::STOP
                } else {
                    Signal::CONT
                };
                signal(sandbox, number).unwrap();
                if done.load(Relaxed) && number == Signal::CONT {
                    return;
                }
                std::thread::sleep(Duration::from_micros(round * 7919 % 300));
            }
        });
        let bell = event();
        for _ in 0..stops() {
            let registered = vm.register_ioevent(&bell, PLACE, ANY, Sharing::Exclusive);
            let Ok(mut doorbell) = registered else {
                continue;
            };
            await_that("the removal", || doorbell.remove().is_ok());
            let _ = count(&bell);
            std::thread::sleep(Duration::from_micros(300));
            assert_eq!(count(&bell), 0, "rung after the removal had returned");
        }
        done.store(true, Relaxed);
        meddler.join().unwrap();
    });
}

testbed::on_usermode! {
    the_descriptor_thread_cannot_be_signalled_by_its_guest;
    the_descriptor_thread_handles_no_signal;
    no_system_call_of_a_guests_own_making_rings_after_a_removal;
    no_write_that_waits_for_a_full_eventfd_rings_after_a_removal;
    a_removal_ends_whoever_stops_and_continues_the_sandbox;
}
