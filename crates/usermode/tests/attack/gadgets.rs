//! Guests that make the stub's system calls themselves, in a loop: writes to every doorbell, futex calls in shared
//! memory, and the interrupt signal to every thread of the sandbox, including the descriptor thread.
#![allow(unsafe_code)]

use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use stub::layout::{FD_BASE, RunPage, SHARED_BASE, SLOT_BASE, SharedState};
use vm_memory::{Bytes, GuestAddress};
use vmbell::doorbell::{Datamatch, IoEventAddress, Sharing};
use vmbell_guest::Parameters;
use vmbell_hypervisor::{Hypervisor, Irqchip, Vcpu, Vm, VmConfig, VmEntry};
use vmm_sys_util::eventfd::EventFd;

use crate::attack::bells::{self, come_and_go, raise};
use crate::attack::calls::{BACK, FUTEX, WAKE, WRITE, call, gadgets, returning_gadget};
use crate::attack::random::{Random, pause};
use crate::attack::scatter;
use crate::attack::vcpus::{config, create, end, pause_until, run_until};
use crate::attack::watch::Watch;
use testbed::jumps::{FREE, Jump, MOST, base, landed, landing, take};
use testbed::process::{await_gone, signal, sleeps_in_write, tasks, with_sandbox};
use testbed::symbols::symbol;
use testbed::{AREA, HANG, await_that, begin, chain, count, event, programs, start, step};

const TGKILL: u64 = 234;
const WAIT: u64 = 0;
const VALUES: u64 = FREE - 0x1000;

/// The size of `boot_stack` in the stub's `elf/entry.rs`.
const BOOT_STACK_SIZE: u64 = 16384;

/// Returns the address of a word that a guest adds to the counts of eventfds. Some of the values are small, some are
/// too large for any count.
fn value(random: &mut Random, index: u32) -> u64 {
    base(index) + VALUES + 8 * random.below(5)
}

fn write_values(vm: &Arc<dyn Vm>, random: &mut Random, index: u32) {
    let words = [1, 7, 1 << 40, u64::MAX - 1, random.word()];
    let bytes = words.map(u64::to_le_bytes).concat();
    let place = GuestAddress(base(index) + VALUES);
    vm.memory().write_slice(&bytes, place).unwrap();
}

/// Makes one call; with `sleeps`, some calls wait until they are interrupted.
fn spray(random: &mut Random, gadget: u64, index: u32, threads: &[u64], sleeps: bool) -> Jump {
    let (number, arguments) = match random.below(3) {
        0 => {
            let fd = u64::from(FD_BASE) + random.below(8);
            (WRITE, [fd, value(random, index), 8, 0])
        }
        1 => {
            let run_pages = std::mem::offset_of!(SharedState, runs) as u64;
            let run = SHARED_BASE + run_pages + random.below(2) * size_of::<RunPage>() as u64;
            let word = random.pick(&[run, run + 64, SHARED_BASE]);
            let wait = sleeps && random.once_in(4);
            (FUTEX, [word, if wait { WAIT } else { WAKE }, 0, 0])
        }
        _ => (TGKILL, [threads[0], random.pick(threads), 12, 0]),
    };
    call(gadget, index, number, arguments)
}

/// Starts a second vCPU: it does nothing, or writes over the stack of the descriptor thread, which the thread uses if a
/// signal reaches it.
fn other(vm: &Arc<dyn Vm>, random: &mut Random, gadgets: &[u64]) -> Box<dyn Vcpu> {
    if random.once_in(3) {
        return start(vm, programs::spin(), Parameters::default(), 1);
    }
    // The kernel puts a signal's frame at the top of the stack.
    let top = symbol("boot_stack") + BOOT_STACK_SIZE;
    let len = random.pick(&[0x200, 0x800, 0x1400]);
    let from = top - len - (random.below(0x1400 - len + 1) & !7);
    let mut words = gadgets.to_vec();
    words.extend([landing(0), base(0), top, SLOT_BASE]);
    scatter::take(vm, 1, random, from, len, &words)
}

pub fn a_guest_may_make_the_stubs_system_calls(watch: &'static Watch, random: &mut Random) {
    let gadgets = gadgets(watch);
    let config = config(
        random,
        &[Irqchip::None, Irqchip::Full, Irqchip::Split, Irqchip::Full],
    );
    let (vm, sandbox) = create(watch, &config);
    let threads: Vec<_> = tasks(sandbox)
        .iter()
        .map(|id| u64::from(id.cast_unsigned()))
        .collect();
    // The first id is the process, whose id the filter checks. Without local APICs the filter allows no signal.
    let kinds = if config.irqchip == Irqchip::None {
        2
    } else {
        3
    };
    // Every kick finds such a guest in a call, so the guest answers no kick and is killed after 5 seconds.
    let sleeps = random.once_in(10);
    let port = IoEventAddress::Pio(0x501);
    let staying = vm
        .register_ioevent(&event(), port, Datamatch::AnyLength, Sharing::Exclusive)
        .unwrap();
    let mut vcpus = Vec::new();
    let gadget = random.pick(gadgets);
    for index in 0..config.vcpus {
        if index == 1 && random.once_in(2) {
            vcpus.push(other(&vm, random, gadgets));
            continue;
        }
        write_values(&vm, random, index);
        let mut calls: Vec<_> = (0..1 + random.below(MOST as u64 - 1))
            .map(|_| spray(random, gadget, index, &threads, sleeps))
            .collect();
        calls.retain(|call| kinds == 3 || call.registers[0] != TGKILL);
        if calls.is_empty() {
            calls.push(call(
                gadget,
                index,
                WRITE,
                [FD_BASE.into(), value(random, index), 8, 0],
            ));
        }
        vcpus.push(take(&vm, index, &calls, BACK));
    }
    let over = Instant::now() + Duration::from_millis(30) + random.time(Duration::from_millis(150));
    let pauses = random.pick(&[Duration::from_micros(20), Duration::from_millis(5)]);
    let (mut first, mut second, mut third) = (random.fork(), random.fork(), random.fork());
    let kicks: Vec<_> = vcpus.iter().map(|vcpu| vcpu.kick_handle()).collect();
    let removed = std::thread::scope(|scope| {
        // The first vCPU may end the guest with its first call, so the second begins.
        for vcpu in vcpus.iter_mut().rev() {
            scope.spawn(|| run_until(watch, vcpu, over));
            pause(Duration::from_micros(500));
        }
        if config.irqchip != Irqchip::None {
            scope.spawn(|| raise(watch, &vm, &mut first, pauses, over));
        }
        let bells = scope.spawn(|| come_and_go(watch, &vm, &mut second, pauses, over));
        while Instant::now() < over {
            watch.call("kick", || third.pick(&kicks).kick());
            pause_until(third.time(Duration::from_millis(10)), over);
        }
        bells
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    });
    drop(kicks);
    bells::remove(watch, staying);
    pause(Duration::from_micros(200));
    removed.check();
    watch.note(if landed(&vm, 0) > 100 {
        "more than 100 calls"
    } else {
        "fewer calls"
    });
    end(watch, vm, vcpus, sandbox);
}

/// Enough RAM to contain the free memory at which the guest program points the stub's registers.
const RAM: u64 = 64 << 20;
/// More than the host has spare CPUs, so that some vCPUs are preempted in the middle of their call.
const VCPUS: u32 = 4;
const PLACE: IoEventAddress = IoEventAddress::Pio(0x500);
const ANY: Datamatch = Datamatch::AnyLength;

/// Starts a vCPU that is about to make this call from the stub.
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

pub fn the_descriptor_thread_cannot_be_signalled_by_its_guest<H: Hypervisor>(h: &H) {
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
            // The sandbox is likely to end in the meantime.
            drop(vm.register_ioevent(&bell, PLACE, ANY, Sharing::Exclusive));
        }
        let end = vcpu.join().unwrap().expect_err("an end");
        assert!(end.contains("SIGSYS"), "{end}");
    });
    drop(vcpu);
    drop(vm);
    await_gone(sandbox);
}

pub fn the_descriptor_thread_handles_no_signal<H: Hypervisor>(h: &H) {
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

/// Makes a guest with a vCPU that writes to the doorbell's descriptor from the stub, outside any section.
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

/// Kills a guest that answers no kick because it is always in the stub's code; even if the test fails.
struct KillAtEnd(i32);

impl Drop for KillAtEnd {
    fn drop(&mut self) {
        // The sandbox may have ended already.
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

pub fn no_system_call_of_a_guests_own_making_rings_after_a_removal<H: Hypervisor>(h: &H) {
    let (vm, vcpu, sandbox) = with_writer(h);
    std::thread::scope(|scope| {
        let _end = KillAtEnd(sandbox);
        let others = (1..VCPUS).map(|index| begin(&vm, index));
        for mut vcpu in others.chain([vcpu]).collect::<Vec<_>>() {
            scope.spawn(move || vcpu.run(VmEntry::Resume));
        }
        let bell = event();
        await_calls(&vm);
        let planned = rounds("VMBELL_REMOVALS", 60);
        let (begun, mut removals, mut rung) = (Instant::now(), 0, 0);
        while (removals < planned || rung == 0) && begun.elapsed() < HANG {
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

pub fn no_write_that_waits_for_a_full_eventfd_rings_after_a_removal<H: Hypervisor>(h: &H) {
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

/// The number of removals that race with the guest, or with another process's signals: the value of a variable, or
/// `few`.
fn rounds(variable: &str, few: u32) -> u32 {
    let more = std::env::var(variable).ok();
    more.map_or(few, |rounds| rounds.parse().unwrap())
}

pub fn a_removal_ends_whoever_stops_and_continues_the_sandbox<H: Hypervisor>(h: &H) {
    let (vm, mut vcpu, sandbox) = with_writer(h);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _end = KillAtEnd(sandbox);
        scope.spawn(|| vcpu.run(VmEntry::Resume));
        await_calls(&vm);
        let meddler = scope.spawn(|| {
            for round in 0_u64.. {
                // The last signal is SIGCONT.
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
        for _ in 0..rounds("VMBELL_STOPS", 150) {
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
