//! Monitors that are killed at any moment, their own start included: their sandboxes go with them.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{WaitOptions, getpid, set_child_subreaper, wait};
use testbed::Usermode;
use vmbell_hypervisor::{Hypervisor, Irqchip, SpinPolicy, VmConfig};

use crate::attack::batch::{Attack, end_with_parent};
use crate::attack::bells::{come_and_go, raise};
use crate::attack::random::{Random, pause};
use crate::attack::vcpus::run_until;
use crate::attack::watch::Watch;
use testbed::HANG;
use testbed::process::{children_of, stat};
use testbed::taker::{self, Doing};

/// Set in the process that is to be killed.
const VICTIM: &str = "VMBELL_ATTACK_VICTIM";
const NAME: &str = "attack::orphans::no_sandbox_outlives_its_monitor";

#[test]
fn no_sandbox_outlives_its_monitor() {
    if let Ok(seed) = std::env::var(VICTIM) {
        return be_a_monitor(seed.parse().unwrap());
    }
    Attack {
        name: NAME,
        rounds: 10,
        full: 300,
        round,
    }
    .run();
}

/// Rings, registers and removes until this process is killed.
fn be_a_monitor(seed: u64) {
    end_with_parent();
    let watch = Watch::start();
    let random = &mut Random::new(seed, NAME, 0);
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

fn round(watch: &'static Watch, random: &mut Random) {
    // The victim's orphans become children of this process.
    set_child_subreaper(Some(getpid())).unwrap();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", NAME, "--nocapture", "--test-threads=1"])
        .env(VICTIM, random.word().to_string())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    let mut victim = command.spawn().unwrap();
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
