//! Sandboxes that are killed at any moment: while they start, while their guests run, ring and are interrupted, and
//! while doorbells and irqfds come and go.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use testbed::Usermode;
use vmbell::doorbell::{Datamatch, IoEventAddress, Sharing};
use vmbell_guest::Parameters;
use vmbell_hypervisor::{Hypervisor, Irqchip, Vcpu, Vm, VmConfig};

use crate::attack::batch::Attack;
use crate::attack::bells::{self, PLACES, come_and_go, raise};
use crate::attack::random::{Random, pause};
use crate::attack::vcpus::{config, create, end, note, run_until};
use crate::attack::watch::Watch;
use testbed::process::{signal, stat};
use testbed::taker::{self, Doing};
use testbed::{HOLE, begin, event, programs, start};

#[test]
fn a_sandbox_may_be_killed_at_any_moment() {
    Attack {
        name: "attack::kills::a_sandbox_may_be_killed_at_any_moment",
        rounds: 16,
        full: 400,
        round,
    }
    .run();
}

fn round(watch: &'static Watch, random: &mut Random) {
    let irqchips = [Irqchip::None, Irqchip::Split, Irqchip::Full];
    let config = config(random, &irqchips);
    if random.once_in(3) {
        while_it_starts(watch, random, &config);
    } else {
        while_it_runs(watch, random, &config);
    }
}

/// The number of the process or thread that was made last, on the whole host.
fn last_made() -> i32 {
    let text = fs::read_to_string("/proc/loadavg").unwrap();
    text.trim_end().rsplit(' ').next().unwrap().parse().unwrap()
}

/// Kills the next child of this process, `delay` after it has `threads`.
fn kill_the_next(after: i32, threads: usize, delay: Duration, give_up: &AtomicBool) -> Option<i32> {
    let own = std::process::id().to_string();
    let mut seen = after;
    loop {
        let last = last_made();
        for pid in seen + 1..=last {
            if stat(pid).is_some_and(|stat| stat[1] == own) {
                let task = format!("/proc/{pid}/task");
                let count = || fs::read_dir(&task).map_or(0, Iterator::count);
                while count() < threads && !give_up.load(Relaxed) {
                    std::hint::spin_loop();
                }
                pause(delay);
                // It may have ended by itself.
                let _ = signal(pid, Signal::KILL);
                return Some(pid);
            }
        }
        seen = last;
        if give_up.load(Relaxed) {
            return None;
        }
    }
}

fn while_it_starts(watch: &Watch, random: &mut Random, config: &VmConfig) {
    // From its birth on, or late: when it has all threads it has little left to do.
    let (threads, most) = random.pick(&[(1, 6000), (1 + config.vcpus as usize, 500)]);
    let delay = random.time(Duration::from_micros(most));
    let created = AtomicBool::new(false);
    let (result, killed) = std::thread::scope(|scope| {
        let (ready, await_ready) = std::sync::mpsc::channel();
        let created = &created;
        let killer = scope.spawn(move || {
            let after = last_made();
            ready.send(()).unwrap();
            kill_the_next(after, threads, delay, created)
        });
        await_ready.recv().unwrap();
        let result = watch.call("create_vm", || Usermode.create_vm(config));
        created.store(true, Relaxed);
        (result, killer.join().unwrap())
    });
    if killed.is_none() {
        watch.note("create_vm was faster than the kill");
    }
    note(watch, "create_vm", &result);
    if let Ok(vm) = result {
        let [pid] = vm.measure().processes()[..] else {
            panic!(
                "a guest has one process, not {:?}",
                vm.measure().processes()
            )
        };
        let mut vcpus = guests(&vm, random, config);
        for vcpu in &mut vcpus {
            run_until(watch, vcpu, Instant::now() + Duration::from_millis(20));
        }
        end(watch, vm, vcpus, pid.cast_signed());
    }
}

/// vCPUs that ring, halt, spin, or are interrupted meanwhile.
fn guests(vm: &Arc<dyn Vm>, random: &mut Random, config: &VmConfig) -> Vec<Box<dyn Vcpu>> {
    let indices = 0..config.vcpus;
    if config.irqchip == Irqchip::None {
        let (address, value) = random.pick(&[(0x500, 0), (HOLE, 1), (7, 2)]);
        let ringing = Parameters {
            count: u64::MAX,
            address,
            value,
            pause: 0,
        };
        let program = random.pick(&[programs::storm(), programs::storm(), programs::spin()]);
        let first = start(vm, program, ringing, 0);
        let others = indices.skip(1).map(|index| begin(vm, index));
        return [first].into_iter().chain(others).collect();
    }
    let (doing, address) = random.pick(&[
        (Doing::Spins, 0),
        (Doing::Halts, 0),
        (Doing::Writes, 0x500),
        (Doing::Stores, HOLE),
        (Doing::Calls, 7),
        (Doing::Masks, 0),
    ]);
    let pins = if config.irqchip == Irqchip::Full {
        taker::PINS
    } else {
        0
    };
    indices
        .map(|index| taker::take(vm, index, doing, address, taker::PV_EOI | pins))
        .collect()
}

fn while_it_runs(watch: &Watch, random: &mut Random, config: &VmConfig) {
    let (vm, sandbox) = create(watch, config);
    let port = IoEventAddress::Pio(0x501);
    let staying = vm
        .register_ioevent(&event(), port, Datamatch::AnyLength, Sharing::Exclusive)
        .unwrap();
    let mut vcpus = guests(&vm, random, config);
    let alive = random.time(Duration::from_millis(60));
    let over = Instant::now() + alive + Duration::from_millis(40);
    let pauses = random.pick(&[Duration::from_micros(20), Duration::from_millis(2)]);
    let (mut first, mut second) = (random.fork(), random.fork());
    let vm = &vm;
    let removed = std::thread::scope(|scope| {
        for vcpu in &mut vcpus {
            scope.spawn(|| run_until(watch, vcpu, over));
        }
        if config.irqchip != Irqchip::None {
            scope.spawn(|| raise(watch, vm, &mut first, pauses, over));
        }
        let bells = scope.spawn(|| come_and_go(watch, vm, &mut second, pauses, over));
        pause(alive);
        signal(sandbox, Signal::KILL).unwrap();
        bells
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    });
    bells::remove(watch, staying);
    for kick in vcpus.iter().map(|vcpu| vcpu.kick_handle()) {
        watch.call("kick", || kick.kick());
    }
    removed.check();
    let (place, datamatch) = PLACES[0];
    let result = watch.call("register_ioevent", || {
        vm.register_ioevent(&event(), place, datamatch, Sharing::Exclusive)
    });
    result.expect_err("a sandbox that was killed");
    drop(vcpus);
}
