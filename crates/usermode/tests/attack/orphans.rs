//! Monitors that are killed at any moment, including their own start: their sandboxes end with them.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{WaitOptions, getpid, set_child_subreaper, wait};
use vmbell_guest::Parameters;
use vmbell_hypervisor::{Hypervisor, Irqchip, SpinPolicy, VmConfig, VmEntry};

use crate::attack::batch::end_with_parent;
use crate::attack::bells::{come_and_go, raise};
use crate::attack::random::{Random, pause};
use crate::attack::vcpus::run_until;
use crate::attack::watch::Watch;
use testbed::process::{children_of, exists, stat, with_sandbox};
use testbed::taker::{self, Doing};
use testbed::{HANG, Usermode, await_that, kick_if_hung, programs, start};

/// Set in the process that is to be killed: the seed of its choices, or [`SPINS`].
const VICTIM: &str = "VMBELL_ATTACK_VICTIM";
/// The kind of a victim that only lets its guest spin.
const SPINS: &str = "spins";

/// Returns whether this process was a victim; a victim normally runs here until it is killed.
pub fn is_victim() -> bool {
    let Ok(kind) = std::env::var(VICTIM) else {
        return false;
    };
    if kind == SPINS {
        let_a_guest_spin();
    } else {
        be_a_monitor(kind.parse().unwrap());
    }
    true
}

/// Starts this test's process again, as a victim.
fn victim(name: &str, kind: &str) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", name, "--nocapture", "--test-threads=1"])
        .env(VICTIM, kind)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    command.spawn().unwrap()
}

fn let_a_guest_spin() {
    let (vm, sandbox) = with_sandbox(&Usermode, &VmConfig::default());
    let mut vcpu = start(&vm, programs::spin(), Parameters::default(), 0);
    println!("sandbox {sandbox}");
    // The process is killed long before, and the loop ends by itself in any case.
    let _end = kick_if_hung(vcpu.kick_handle());
    vcpu.run(VmEntry::Resume).unwrap();
}

/// Rings, registers and removes until this process is killed.
fn be_a_monitor(seed: u64) {
    end_with_parent();
    let watch = Watch::start();
    let random = &mut Random::new(seed, VICTIM, 0);
    println!("starts");
    let config = VmConfig {
        irqchip: Irqchip::Full,
        vcpus: 2,
        ram_size: 4 << 20,
        spin: SpinPolicy::Sleep,
        ..VmConfig::default()
    };
    let vm = watch
        .call("create_vm", || Usermode.create_vm(&config))
        .unwrap();
    println!("runs");
    let mut vcpus = [0, 1].map(|index| taker::take(&vm, index, Doing::Writes, 0x500, taker::PINS));
    let over = Instant::now() + Duration::from_secs(10);
    let (mut first, mut second) = (random.fork(), random.fork());
    let pauses = random.pick(&[Duration::from_micros(20), Duration::from_millis(2)]);
    std::thread::scope(|scope| {
        for vcpu in &mut vcpus {
            scope.spawn(|| run_until(watch, vcpu, over));
        }
        scope.spawn(|| raise(watch, &vm, &mut first, pauses, over));
        come_and_go(watch, &vm, &mut second, pauses, over);
    });
    drop(vm);
}

pub fn no_sandbox_outlives_its_monitor(watch: &'static Watch, random: &mut Random) {
    // The victim's orphans become children of this process.
    set_child_subreaper(Some(getpid())).unwrap();
    let seed = random.word().to_string();
    let mut victim = victim("attack::no_sandbox_outlives_its_monitor", &seed);
    let (line, most) = random.pick(&[("", 100), ("starts", 10), ("starts", 10), ("runs", 60)]);
    watch.call("the victim's start", || {
        let output = victim.stdout.as_mut().unwrap();
        let mut lines = BufReader::new(output).lines();
        let found = lines.by_ref().any(|each| each.unwrap().ends_with(line));
        assert!(found, "the victim never {line}");
    });
    pause(random.time(Duration::from_millis(most)));
    watch.note(format!(
        "after {line:?}: {} children of the victim",
        children_of(victim.id().cast_signed()).len()
    ));
    victim.kill().unwrap();
    victim.wait().unwrap();
    let begun = Instant::now();
    loop {
        match wait(WaitOptions::NOHANG) {
            Ok(Some((_, status))) => watch.note(format!("an orphan ended: {status:?}")),
            Ok(None) => pause(Duration::from_micros(500)),
            Err(rustix::io::Errno::CHILD) => return,
            Err(error) => panic!("{error}"),
        }
        let left = children_of(std::process::id().cast_signed());
        let states: Vec<_> = left.into_iter().map(|pid| (pid, stat(pid))).collect();
        if begun.elapsed() > HANG {
            panic!("outlive their monitor: {states:?}");
        }
    }
}

pub fn a_killed_monitor_leaves_no_sandbox<H: Hypervisor>(_: &H) {
    let mut monitor = victim("attack::a_killed_monitor_leaves_no_sandbox", SPINS);
    let output = BufReader::new(monitor.stdout.take().unwrap());
    let sandbox = output
        .lines()
        .find_map(|line| line.unwrap().rsplit_once("sandbox ")?.1.trim().parse().ok());
    let sandbox = sandbox.expect("the victim says its sandbox's number");
    assert!(exists(sandbox) && children_of(monitor.id().cast_signed()).contains(&sandbox));
    monitor.kill().unwrap();
    monitor.wait().unwrap();
    // The sandbox is init's child now, and init may take some time to reap it.
    await_that("the sandbox to end with its monitor", || {
        stat(sandbox).is_none_or(|stat| ["Z", "X"].contains(&&*stat[0]))
    });
}
