//! Sandboxes that are killed: at any moment of their start and of their guests' runs, while doorbells and irqfds come
//! and go, and in the middle of a removal.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use vmbell::doorbell::{Datamatch, IoEventAddress, Sharing};
use vmbell_guest::{PARAMETERS, Parameters, Results};
use vmbell_hypervisor::{Hypervisor, Irqchip, Vcpu, Vm, VmConfig, VmEntry};

use crate::attack::bells::{self, PLACES, come_and_go, raise};
use crate::attack::random::{Random, pause};
use crate::attack::vcpus::{config, create, end, note, run_until};
use crate::attack::watch::Watch;
use testbed::process::{exists, is_child_of, processes, signal, stat, with_sandbox};
use testbed::script::{Op, Player};
use testbed::taker::{self, Doing};
use testbed::{HANG, HOLE, Usermode, await_that, begin, chain, event, programs, start};

pub fn a_sandbox_may_be_killed_at_any_moment(watch: &'static Watch, random: &mut Random) {
    let irqchips = [Irqchip::None, Irqchip::Split, Irqchip::Full];
    let config = config(random, &irqchips);
    if random.once_in(3) {
        while_it_starts(watch, random, &config);
    } else {
        while_it_runs(watch, random, &config);
    }
}

/// Returns the id of the process or thread that was created last, on the whole host.
fn last_made() -> i32 {
    let text = fs::read_to_string("/proc/loadavg").unwrap();
    text.trim_end().rsplit(' ').next().unwrap().parse().unwrap()
}

/// Kills the next child of this process, `delay` after it has this number of `threads`.
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
                // The child may already have ended.
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
    // The kill comes at any time after the creation, or late: a sandbox that has all its threads is almost ready.
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

/// Starts vCPUs that ring, halt, spin, or are interrupted.
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

/// Creates a guest while another thread sends `number` to its sandbox, `delay` after it exists. Checks that the sandbox
/// is gone, and returns the error, if any.
fn strike<H: Hypervisor>(h: &H, number: Signal, delay: Duration) -> Option<String> {
    let own = std::process::id().cast_signed();
    let before = processes();
    let made = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let striker = scope.spawn(|| {
            loop {
                let mut new = processes();
                // Only new processes are asked for their parent: asking all of them would take longer than a start.
                new.retain(|pid| !before.contains(pid) && is_child_of(*pid, own));
                if let [pid] = new[..] {
                    let struck = Instant::now() + delay;
                    while Instant::now() < struck {
                        std::hint::spin_loop();
                    }
                    if !made.load(Relaxed) {
                        signal(pid, number).unwrap();
                    }
                    return Some(pid);
                }
                if made.load(Relaxed) {
                    return None;
                }
            }
        });
        let vm = h.create_vm(&VmConfig {
            vcpus: 16,
            ..VmConfig::default()
        });
        // The process id belongs to the sandbox until the guest is dropped.
        made.store(true, Relaxed);
        let pid = striker.join().unwrap();
        let error = vm.err().map(|error| chain(&error));
        if let Some(pid) = pid {
            assert!(!exists(pid), "a sandbox is left after {error:?}");
        }
        error
    })
}

pub fn a_sandbox_that_is_killed_while_it_starts_is_an_error<H: Hypervisor + Sync>(h: &H) {
    let mut random = Random::new(0x9e37_79b9_7f4a_7c15, "", 0);
    let mut errors = 0;
    let begin = Instant::now();
    let mut round = 0;
    while errors < 40 && begin.elapsed() < HANG {
        round += 1;
        let delay = Duration::from_micros(random.below(2_000));
        if let Some(error) = strike(h, Signal::KILL, delay) {
            assert!(error.contains("killed by SIGKILL"), "{round}: {error}");
            errors += 1;
        }
    }
    assert!(errors > 0, "none was killed while it started");
}

pub fn a_sandbox_that_is_stopped_while_it_starts_is_an_error<H: Hypervisor + Sync>(h: &H) {
    let mut random = Random::new(0x2545_f491_4f6c_dd1d, "", 0);
    let mut errors = 0;
    let begin = Instant::now();
    let mut round = 0;
    while errors < 3 && begin.elapsed() < HANG {
        round += 1;
        // Some are signalled as soon as they exist.
        let delay = Duration::from_micros(random.below(500) * (round & 1));
        if let Some(error) = strike(h, Signal::STOP, delay) {
            assert!(error.contains("the sandbox is stopped"), "{round}: {error}");
            errors += 1;
        }
    }
    assert!(errors > 0, "none was stopped while it started");
}

pub fn a_killed_sandbox_is_an_error_on_every_vcpu<H: Hypervisor>(h: &H) {
    let (vm, sandbox) = with_sandbox(
        h,
        &VmConfig {
            vcpus: 3,
            ..VmConfig::default()
        },
    );
    let mut vcpus = vec![start(&vm, programs::spin(), Parameters::default(), 0)];
    vcpus.push(begin(&vm, 1));
    let mut idle = begin(&vm, 2);
    let threads: Vec<_> = vcpus
        .into_iter()
        .map(|mut vcpu| {
            std::thread::spawn(move || vcpu.run(VmEntry::Resume).map_err(|error| chain(&error)))
        })
        .collect();
    let rings = || Results::read(vm.memory(), PARAMETERS).unwrap().rings;
    await_that("a guest to run", || rings() > 0);
    signal(sandbox, Signal::KILL).unwrap();
    for thread in threads {
        let end = thread.join().unwrap().expect_err("an end");
        assert!(
            end.contains("the sandbox ended: killed by SIGKILL"),
            "{end}"
        );
    }
    let end = chain(&idle.run(VmEntry::Resume).expect_err("an end"));
    assert!(end.contains("the sandbox ended"), "{end}");
    let place = IoEventAddress::Pio(1);
    let error = vm
        .register_ioevent(&event(), place, Datamatch::AnyLength, Sharing::Exclusive)
        .expect_err("an end");
    assert!(
        chain(&error).contains("the sandbox ended"),
        "{}",
        chain(&error)
    );
    drop(idle);
    drop(vm);
    assert!(!exists(sandbox), "a zombie");
}

pub fn a_sandbox_ends_with_its_guest<H: Hypervisor>(h: &H) {
    let (vm, sandbox) = with_sandbox(
        h,
        &VmConfig {
            vcpus: 2,
            ..VmConfig::default()
        },
    );
    let vcpu = vm.create_vcpu(0).unwrap();
    drop(vm);
    drop(vcpu);
    assert!(!exists(sandbox), "a zombie");
}

pub fn a_removal_from_a_sandbox_that_is_being_killed_succeeds<H: Hypervisor>(h: &H) {
    let (place, datamatch) = (IoEventAddress::Pio(0x500), Datamatch::U8(None));
    for _ in 0..100 {
        let (vm, sandbox) = with_sandbox(h, &VmConfig::default());
        let bell = event();
        let mut doorbell = vm
            .register_ioevent(&bell, place, datamatch, Sharing::Exclusive)
            .unwrap();
        signal(sandbox, Signal::KILL).unwrap();
        doorbell.remove().unwrap();
    }
}

pub fn a_guest_outlives_the_thread_that_made_it<H: Hypervisor + Copy + Send + 'static>(h: &H) {
    let hypervisor = *h;
    let (vm, sandbox) = std::thread::spawn(move || with_sandbox(&hypervisor, &VmConfig::default()))
        .join()
        .unwrap();
    std::thread::sleep(Duration::from_millis(50));
    let mut player = Player::new(&vm);
    assert_eq!(player.play(&[Op::Out(1, 0x10, 1)]).len(), 1);
    assert!(exists(sandbox));
}

pub fn a_sandbox_has_no_files_but_its_doorbells<H: Hypervisor>(h: &H) {
    let (vm, sandbox) = with_sandbox(h, &VmConfig::default());
    let mut player = Player::new(&vm);
    player.play(&[]);
    let files = || {
        std::fs::read_dir(format!("/proc/{sandbox}/fd"))
            .unwrap()
            .count()
    };
    assert_eq!(files(), 0);
    let _doorbell = vm
        .register_ioevent(
            &event(),
            IoEventAddress::Pio(1),
            Datamatch::AnyLength,
            Sharing::Exclusive,
        )
        .unwrap();
    assert_eq!(files(), 1);
}
