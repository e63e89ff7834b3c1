//! Kills preparations at random moments. They run apt's own programs against a mirror on this host.

use std::fs;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Instant;

use vmbell_statistics::Random;

use super::mirror::Mirror;
use super::support::{self, Sandbox};
use kit::signals::hear_signals;
use kit::wait::await_that;

const SEED: u64 = 1;
/// The default number of kills. This variable overrides it, as in `.ci/run`.
const KILLS: usize = 5;
const VARIABLE: &str = "VMBELL_KILLS";

#[test]
fn a_preparation_that_is_killed_anywhere_goes_on_the_next_time_and_leaves_nothing_running() {
    let sandbox = Sandbox::new();
    let mirror = Mirror::new(&sandbox);
    let kills = std::env::var(VARIABLE).map_or(KILLS, |kills| kills.parse().unwrap());
    let begun = Instant::now();
    assert!(prepare(&sandbox).status().unwrap().success());
    let whole = begun.elapsed();
    assert!(
        mirror
            .fetched()
            .iter()
            .any(|name| name.starts_with("liba_"))
    );
    let mut random = Random::new(SEED);
    for kill in 0..kills {
        fs::remove_dir_all(sandbox.path("cache")).unwrap();
        let mut command = prepare(&sandbox);
        let mut vmbell = hear_signals(&mut command).spawn().unwrap();
        let share = random.below(1000);
        let signal = ["KILL", "KILL", "TERM", "INT"][random.below(4)];
        // Any moment will do: on a busy host, the kill interrupts a different step.
        thread::sleep(whole.mul_f64(share as f64 / 1000.0));
        if vmbell.try_wait().unwrap().is_none() {
            support::kill(vmbell.id(), signal);
        }
        vmbell.wait().unwrap();
        let what = format!("kill {kill} of seed {SEED}, SIG{signal} after {share} of 1000");
        await_that(&format!("the end of all programs, {what}"), || {
            running(&sandbox).is_empty()
        });
        let kept = archives(&sandbox);
        mirror.fetched();
        let output = prepare(&sandbox).stderr(Stdio::piped()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{what}: {said}");
        let again = mirror.fetched();
        assert!(
            !again.iter().any(|name| kept.contains(name)),
            "{what}: {again:?}, had {kept:?}"
        );
        assert_eq!(sandbox.left(), [""; 0], "{what}");
        let verified = sandbox
            .vmbell()
            .args(["lab", "status", "--verify"])
            .output();
        assert!(verified.unwrap().status.success(), "{what}");
    }
}

fn prepare(sandbox: &Sandbox) -> Command {
    let mut command = sandbox.vmbell();
    command
        .args(["lab", "kernel", "prepare", "--modules", "none", "--kernel"])
        .arg(sandbox.kernel())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command
}

/// The programs that run with the cache's configuration.
fn running(sandbox: &Sandbox) -> Vec<String> {
    let cache = sandbox.path("cache").into_os_string().into_encoded_bytes();
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let uses_cache = |process: &fs::DirEntry| {
        // Zombies have no environment, and other users' cannot be read.
        let environment = fs::read(process.path().join("environ")).unwrap_or_default();
        environment
            .windows(cache.len())
            .any(|window| window == cache)
    };
    let used = processes.filter(uses_cache);
    used.map(|process| process.file_name().to_string_lossy().into_owned())
        .collect()
}

/// The completely downloaded packages.
fn archives(sandbox: &Sandbox) -> Vec<String> {
    let folder = sandbox.path("cache/vmbell/lab/downloads/apt/archives");
    let names = fs::read_dir(folder).into_iter().flatten().flatten();
    let names = names.map(|item| item.file_name().to_string_lossy().into_owned());
    names.filter(|name| name.ends_with(".deb")).collect()
}
