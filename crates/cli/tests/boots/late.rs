//! A QEMU whose main loop is late: each of its steps waits until no other thread of QEMU runs. On a busy host any step
//! may be delayed like this, because the kernel's scheduler does not guarantee how soon a runnable thread runs. Here a
//! tracer stops the thread, so the delay is certain.
#![allow(unsafe_code, reason = "ptrace")]

use std::collections::HashSet;
use std::fs;
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use super::{only_boot, text};

/// How often the threads are checked.
const PAUSE: Duration = Duration::from_millis(1);
/// The longest delay of a step. A guest may busy-wait for a device that the main loop serves.
const LONGEST: Duration = Duration::from_millis(250);

/// The command's output if its QEMU's main loop is late from the middle of a boot on.
pub fn output_with_a_late_main_loop(command: &mut Command) -> Output {
    let _one = only_boot();
    let command = command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let run = command.spawn().unwrap();
    let lab = run.id();
    let run = thread::spawn(|| run.wait_with_output().unwrap());
    let mut seen = HashSet::new();
    while !run.is_finished() {
        for main in busy_children(lab) {
            if seen.insert(main) {
                thread::spawn(move || delay(main));
            }
        }
        thread::sleep(5 * PAUSE);
    }
    let output = run.join().unwrap();
    eprint!("{}", text(&output.stderr));
    output
}

/// Traces the main thread of this process until the process ends.
fn delay(main: i32) {
    let trace = |request, signal: i32| {
        let signal = libc::c_long::from(signal);
        // SAFETY: these requests take no pointers; the thread is one of a descendant of this process.
        let result = unsafe { libc::ptrace(request, main, libc::c_long::default(), signal) };
        // The process may have ended.
        result == 0
    };
    if !trace(libc::PTRACE_SEIZE, 0) || !trace(libc::PTRACE_INTERRUPT, 0) {
        return;
    }
    let mut status = 0;
    // SAFETY: the call fills `status`, which outlives it.
    while unsafe { libc::waitpid(main, &raw mut status, libc::__WALL) } == main
        && libc::WIFSTOPPED(status)
    {
        let begin = Instant::now();
        while another_runs(main) && begin.elapsed() < LONGEST {
            thread::sleep(PAUSE);
        }
        // A stop without a signal is the entry to or exit from a system call.
        let signal = match libc::WSTOPSIG(status) {
            libc::SIGTRAP => 0,
            _ if status >> 16 != 0 => 0,
            signal => signal,
        };
        if !trace(libc::PTRACE_SYSCALL, signal) {
            return;
        }
    }
}

/// Whether a thread of this process other than the first runs, or waits for a CPU.
fn another_runs(process: i32) -> bool {
    let threads = fs::read_dir(format!("/proc/{process}/task"));
    let mut threads = threads.into_iter().flatten().flatten();
    threads.any(|thread| {
        let path = thread.path().join("stat");
        let is_first = thread.file_name().to_str() == Some(&process.to_string());
        !is_first
            && words(&path.to_string_lossy())
                .first()
                .is_some_and(|state| state == "R")
    })
}

/// This process's children that have used half a second of CPU time.
fn busy_children(parent: u32) -> Vec<i32> {
    const TICKS: u64 = 50;
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let numbers = processes.filter_map(|process| process.file_name().to_str()?.parse().ok());
    let is_one = |number: &i32| {
        let words = words(&format!("/proc/{number}/stat"));
        // The state, the parent, and the twelfth word, the time in user mode.
        let number = |index: usize| words.get(index).and_then(|word| word.parse().ok());
        number(1) == Some(parent.into()) && number(11).is_some_and(|ticks: u64| ticks >= TICKS)
    };
    numbers.filter(is_one).collect()
}

/// The words after the name in a process's or thread's `stat` file; empty if it has ended.
fn words(stat: &str) -> Vec<String> {
    let stat = fs::read_to_string(stat).unwrap_or_default();
    let after_its_name = stat.rsplit_once(") ").map_or("", |(_, rest)| rest);
    after_its_name.split(' ').map(str::to_owned).collect()
}
