//! A VMM with its guest in one process, without KVM: a driver and a device that share a ring in a file, advance step by
//! step, and can be paused, saved and restored. Each fault forgets one thing at a restore.
//!
//! The test program runs itself as the double: a libtest program with a filter is the only one whose path a test knows.

use std::fs::{self, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

use vmm_sys_util::eventfd::{EFD_NONBLOCK, EventFd};

use vm_memory::{Bytes, FileOffset, GuestAddress, GuestMemoryMmap};

/// What the double is: `ROLE FAULT SOCKET SNAPSHOT`.
const ROLE: &str = "VMBELL_SWEEP_DOUBLE";
const MEMORY: usize = 16 << 20;
const STEP: Duration = Duration::from_millis(1);

const SIZE: u16 = 8;
const AVAILABLE: u64 = 0x10_0000;
const USED: u64 = 0x20_0000;
const SEEN: u64 = 0x30_0000;
const AVAIL_EVENT: u64 = USED + 4 + 8 * SIZE as u64;

/// Steps that the device takes to look, to answer and to interrupt: more for what a fault forgets, so that most pauses
/// find it.
const QUICK: u32 = 3;
const SLOW: u32 = 7;
/// Steps after which the driver misses an answer.
const BOUND: u32 = 60;
/// Steps before the traffic, in which the sweep can pause the double.
const IDLE: u32 = 100;

/// The description of a double with this fault.
pub fn description(fault: &str) -> String {
    let program = std::env::current_exe().unwrap();
    let call = |role: &str| {
        let program = program.display();
        format!(
            "env '{ROLE}={role}' {program} -q --exact --nocapture sweep::double::the_double_is_a_vmm_if_it_is_told_to"
        )
    };
    [
        ("name", "double".to_owned()),
        (
            "start",
            call(&format!("start {fault} {{socket}} {{image}}")),
        ),
        ("pause", call("pause - {socket} -")),
        ("resume", call("resume - {socket} -")),
        ("snapshot", call("snapshot - {socket} {snapshot}")),
        (
            "restore",
            call(&format!("restore {fault} {{socket}} {{snapshot}}")),
        ),
    ]
    .map(|(key, value)| format!("{key} = \"{value}\"\n"))
    .concat()
}

#[test]
fn the_double_is_a_vmm_if_it_is_told_to() {
    let Ok(told) = std::env::var(ROLE) else {
        return;
    };
    let words: Vec<&str> = told.split(' ').collect();
    let [role, fault, socket, snapshot] = words[..] else {
        panic!("{told}");
    };
    match role {
        "start" => Double::new(socket, fault).run(),
        "restore" => Double::restored(socket, fault, Path::new(snapshot)).run(),
        command => {
            let mut stream = UnixStream::connect(socket).unwrap();
            writeln!(stream, "{command} {snapshot}").unwrap();
            let mut answer = String::new();
            BufReader::new(stream).read_line(&mut answer).unwrap();
            assert_eq!(answer, "done\n");
        }
    }
}

/// What a VMM has to save besides guest memory.
#[derive(Clone, Copy, Default)]
struct State {
    /// The device's position.
    position: u32,
    /// Steps until the device looks, answers and interrupts; 0 if it does not.
    look: u32,
    answer: u32,
    interrupt: u32,
    /// Steps for which the driver has waited.
    waited: u32,
    /// Whether the driver notified the device.
    kicked: u32,
    /// Whether the driver helps.
    helps: u32,
    /// Steps before the traffic.
    idle: u32,
}

impl State {
    fn words(&mut self) -> [&mut u32; 8] {
        [
            &mut self.position,
            &mut self.look,
            &mut self.answer,
            &mut self.interrupt,
            &mut self.waited,
            &mut self.kicked,
            &mut self.helps,
            &mut self.idle,
        ]
    }
}

struct Double {
    memory: GuestMemoryMmap,
    ram: PathBuf,
    listener: UnixListener,
    state: State,
    /// Unread from the driver's notification until the device looks.
    kick: EventFd,
    fault: String,
    is_restored: bool,
    is_paused: bool,
    /// Whether it does nothing any more.
    is_stalled: bool,
    /// Whether a notification does not make it look at the open request.
    is_deaf: bool,
}

fn say(text: &str) {
    let mut out = std::io::stdout();
    // The sweep may have ended.
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

impl Double {
    fn new(socket: &str, fault: &str) -> Self {
        let mut double = Self::with_ram(socket, fault);
        say(&format!(
            "\nsweep ready ring=split event_idx=1 in_flight=1 size={SIZE} chain=1 descriptors=0 driver={AVAILABLE:#x} \
             device={USED:#x} seen={SEEN:#x}\n"
        ));
        double.state.idle = IDLE;
        double
    }

    fn with_ram(socket: &str, fault: &str) -> Self {
        let ram = PathBuf::from(format!("{socket}.ram"));
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&ram);
        let file = file.unwrap();
        file.set_len(MEMORY as u64).unwrap();
        let range = (GuestAddress(0), MEMORY, Some(FileOffset::new(file, 0)));
        let listener = UnixListener::bind(socket).unwrap();
        listener.set_nonblocking(true).unwrap();
        Self {
            memory: GuestMemoryMmap::from_ranges_with_files([range]).unwrap(),
            ram,
            listener,
            state: State::default(),
            kick: EventFd::new(EFD_NONBLOCK).unwrap(),
            fault: fault.to_owned(),
            is_restored: false,
            is_paused: false,
            is_stalled: false,
            is_deaf: false,
        }
    }

    fn restored(socket: &str, fault: &str, snapshot: &Path) -> Self {
        if fault == "refuses" {
            eprintln!("cannot load the state");
            std::process::exit(1);
        }
        fs::copy(snapshot.join("memory"), format!("{socket}.ram")).unwrap();
        if fault == "logs" {
            say("v1.2.3 started...\n");
        }
        let mut double = Self::with_ram(socket, fault);
        let saved = fs::read_to_string(snapshot.join("state")).unwrap();
        for (word, text) in double.state.words().into_iter().zip(saved.split(' ')) {
            *word = text.parse().unwrap();
        }
        // The second VM that restores a snapshot is the one that fails.
        let first = OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(snapshot.join("first"));
        if fault == "second" && first.is_err() {
            double.fault = "twice".to_owned();
        }
        let state = &mut double.state;
        match fault {
            "kick" => state.look = 0,
            "request" => state.answer = 0,
            "interrupt" | "pending" => state.interrupt = 0,
            // It takes the open request for answered.
            "base" if state.answer != 0 => {
                state.answer = 0;
                double.is_deaf = true;
            }
            "suppression" => {
                let stale = double.get(AVAILABLE + 2).wrapping_sub(3);
                double.set(AVAIL_EVENT, stale);
            }
            _ => {}
        }
        double.is_restored = true;
        double
    }

    fn get(&self, address: u64) -> u16 {
        self.memory.read_obj(GuestAddress(address)).unwrap()
    }

    fn set(&self, address: u64, value: u16) {
        self.memory.write_obj(value, GuestAddress(address)).unwrap();
    }

    /// The steps of a phase, which this fault forgets.
    fn steps(&self, fault: &str) -> u32 {
        if self.fault == fault { SLOW } else { QUICK }
    }

    fn run(mut self) {
        loop {
            self.command();
            if !self.is_paused {
                match self.fault.as_str() {
                    _ if self.is_stalled => {}
                    "timer" if self.is_restored => {}
                    "logs" if self.is_restored => say("I/O ... served.\n"),
                    "talks" if self.is_restored => {
                        say(&"I/O served.\n".repeat(100_000));
                        self.step();
                    }
                    "spins" if self.is_restored => loop {
                        std::hint::spin_loop();
                    },
                    "twice" if self.is_restored => {
                        say("\nsweep twice op=1\n");
                        self.is_restored = false;
                    }
                    _ => self.step(),
                }
            }
            sleep(STEP);
        }
    }

    fn command(&mut self) {
        let Ok((stream, _)) = self.listener.accept() else {
            return;
        };
        stream.set_nonblocking(false).unwrap();
        let mut stream = BufReader::new(stream);
        let mut line = String::new();
        stream.read_line(&mut line).unwrap();
        match line.trim_end().split_once(' ').unwrap() {
            ("pause", _) => {
                self.is_paused = true;
                if self.fault == "dies" {
                    stream.get_mut().write_all(b"done\n").unwrap();
                    std::process::exit(1);
                }
            }
            ("resume", _) => {
                self.is_paused = false;
                self.is_stalled = self.fault == "stalls";
            }
            (_, folder) => {
                let words = self.state.words().map(|word| word.to_string());
                fs::write(Path::new(folder).join("state"), words.join(" ")).unwrap();
                fs::copy(&self.ram, Path::new(folder).join("memory")).unwrap();
            }
        }
        stream.get_mut().write_all(b"done\n").unwrap();
    }

    /// One step of the driver and of the device.
    fn step(&mut self) {
        if self.state.idle != 0 {
            self.state.idle -= 1;
            return;
        }
        let [available, used, seen] = [AVAILABLE + 2, USED + 2, SEEN].map(|word| self.get(word));
        if available == seen {
            self.state.kicked = u32::from(self.get(AVAIL_EVENT) == available);
            self.set(AVAILABLE + 2, available.wrapping_add(1));
            self.state.waited = 0;
            if self.state.kicked != 0 {
                self.state.look = self.steps("kick");
                self.kick.write(1).unwrap();
            }
            return;
        }
        let due = |steps: &mut u32| {
            let is_due = *steps == 1;
            *steps = steps.saturating_sub(1);
            is_due
        };
        if due(&mut self.state.look) {
            // It is empty after a restore, and for the driver's help.
            let _ = self.kick.read();
            self.state.position = available.into();
            if !self.is_restored || self.fault != "suppression" {
                self.set(AVAIL_EVENT, available);
            }
            self.state.answer = self.steps("request").max(self.steps("base"));
        }
        if due(&mut self.state.answer) {
            self.set(USED + 2, u16::try_from(self.state.position).unwrap());
            self.state.interrupt = self.steps("interrupt").max(self.steps("pending"));
        }
        let interrupts = due(&mut self.state.interrupt);
        self.state.waited += 1;
        let is_over = self.state.waited > BOUND;
        if interrupts || is_over && used != seen {
            match (interrupts, self.state.helps != 0) {
                (true, false) => {}
                (true, true) => say("sweep revived by=kick\n"),
                (false, _) => {
                    self.lost();
                    say(match self.fault.as_str() {
                        "pending" => "sweep revived by=interrupt\n",
                        _ => "sweep revived by=look\n",
                    });
                }
            }
            self.state.helps = 0;
            self.set(SEEN, self.get(USED + 2));
            say(&format!("\nsweep step {}\n", self.get(SEEN)));
        } else if is_over && self.is_deaf {
            self.lost();
            say("sweep dead\n");
            self.is_stalled = true;
        } else if is_over && self.state.helps == 0 {
            self.lost();
            self.state.helps = 1;
            self.state.waited = 0;
            self.state.look = 1;
        }
    }

    fn lost(&self) {
        let words = [AVAILABLE + 2, USED + 2, SEEN, AVAIL_EVENT].map(|word| self.get(word));
        let [available, used, seen, avail_event] = words;
        say(&format!(
            "\nsweep lost op=1 kicked={} interrupts=0 available={available} used={used} seen={seen} \
             avail_event={avail_event} used_event={seen}\n",
            self.state.kicked
        ));
    }
}
