//! The runner of all attacks. It makes their rounds in a separate process, where a hang can be ended and open files can
//! be counted. After each round the monitor has what it had before, so no sandbox is left, and after the last round it
//! serves an honest guest normally.
//!
//! The test starts itself again with [`ROUNDS`] set and reads how far it gets. If a round fails or hangs, the test
//! starts it again after that round. A child ends when its parent does.

use std::collections::VecDeque;
use std::env;
use std::io::{BufRead, BufReader, Read, Write};
use std::num::NonZeroU64;
use std::ops::Range;
use std::process::{Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use crate::attack::leaks::Holdings;
use crate::attack::orphans::is_victim;
use crate::attack::random::Random;
use crate::attack::watch::Watch;
use testbed::HANG;

/// Set in the process that makes the rounds: the seed, the first round, and the round after the last.
const ROUNDS: &str = "VMBELL_ATTACK_CHILD";

/// How long the child may print nothing: it prints at the start of each round. One round may wait for several things.
const SILENCE: Duration = HANG.saturating_mul(5);

/// After this number of failures the remaining rounds are skipped.
const MOST_FAILURES: usize = 20;

/// An attack. Its rounds fail by a panic.
#[derive(Clone, Copy, Debug)]
pub struct Attack {
    /// The name of the attack's test.
    pub name: &'static str,
    /// The number of rounds in `cargo test`.
    pub rounds: u64,
    /// The number of rounds in the attack's full form; 1 if the attack makes no random choices.
    pub full: u64,
    /// Makes one round.
    pub round: fn(&'static Watch, &mut Random),
}

fn number(name: &str) -> Option<u64> {
    let text = env::var(name).ok()?;
    Some(
        text.parse()
            .unwrap_or_else(|_| panic!("{name} is not a number: {text}")),
    )
}

impl Attack {
    /// Makes all rounds, or some of them in the process that is started for them.
    pub fn run(&self) {
        if is_victim() {
            return;
        }
        if let Ok(rounds) = env::var(ROUNDS) {
            let mut words = rounds.split(' ').map(|word| word.parse().unwrap());
            let mut next = || words.next().unwrap();
            let seed = next();
            return self.make(seed, next()..next());
        }
        let seed = number("VMBELL_ATTACK_SEED").unwrap_or_else(some_seed);
        let count = self.count(env::var("VMBELL_ATTACK_ROUNDS").ok().as_deref());
        let mut rounds = match number("VMBELL_ATTACK_ROUND") {
            Some(round) => round..round + 1,
            None => 0..count,
        };
        let begin = Instant::now();
        println!(
            "{}: VMBELL_ATTACK_SEED={seed}, rounds {rounds:?}",
            self.name
        );
        let mut failures = Vec::new();
        while !rounds.is_empty() && failures.len() < MOST_FAILURES {
            match self.supervise(seed, rounds.clone()) {
                Ok(summary) => {
                    print!("{summary}");
                    break;
                }
                Err((round, text)) => {
                    println!("round {round} of seed {seed} failed:\n{text}");
                    failures.push(round);
                    rounds.start = round + 1;
                }
            }
        }
        println!("{}: {:.1?}", self.name, begin.elapsed());
        assert!(
            failures.is_empty(),
            "rounds {failures:?} failed, VMBELL_ATTACK_SEED={seed}"
        );
    }

    /// The number of rounds that the value of VMBELL_ATTACK_ROUNDS asks for.
    fn count(&self, wanted: Option<&str>) -> u64 {
        match wanted {
            _ if self.full == 1 => 1,
            Some("full") => self.full,
            Some(text) => text.parse().map_or_else(
                |_| panic!("VMBELL_ATTACK_ROUNDS is not 'full' or a number above 0: {text}"),
                NonZeroU64::get,
            ),
            None => self.rounds,
        }
    }

    /// Starts a process for these rounds. Returns the process's summary, or the round that failed and how it failed.
    fn supervise(&self, seed: u64, rounds: Range<u64>) -> Result<String, (u64, String)> {
        let (output, input) = std::io::pipe().unwrap();
        let mut command = Command::new(env::current_exe().unwrap());
        command
            .args(["--exact", self.name, "--nocapture", "--test-threads=1"])
            .env(ROUNDS, format!("{seed} {} {}", rounds.start, rounds.end))
            .stdin(Stdio::piped())
            .stdout(input.try_clone().unwrap())
            .stderr(input);
        let mut child = command.spawn().unwrap();
        // `command` holds the other ends of the pipe.
        drop(command);
        let (sender, lines) = channel();
        let reader = std::thread::spawn(move || {
            for line in BufReader::new(output).lines() {
                let _ = sender.send(line.unwrap_or_default());
            }
        });
        let (mut round, mut summary) = (rounds.start, None);
        let mut last = VecDeque::new();
        loop {
            match lines.recv_timeout(SILENCE) {
                Ok(line) => {
                    if let Some(number) = line.strip_prefix("round ") {
                        round = number.parse().unwrap();
                        last.clear();
                    } else if let Some(all) = line.strip_prefix("all made: ") {
                        summary = Some(all.replace(';', "\n"));
                    }
                    last.push_back(line);
                    if last.len() > 60 {
                        last.pop_front();
                    }
                }
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => {
                    last.push_back(format!("hang: nothing said for {SILENCE:?}"));
                    break;
                }
            }
        }
        // An error means that the child has already ended.
        let _ = child.kill();
        let status = child.wait().unwrap();
        reader.join().unwrap();
        match summary {
            Some(summary) if status.success() => Ok(summary),
            _ => {
                last.push_back(status.to_string());
                Err((round, Vec::from(last).join("\n")))
            }
        }
    }

    /// Makes rounds in a separate process.
    fn make(&self, seed: u64, rounds: Range<u64>) {
        end_with_parent();
        let watch = Watch::start();
        // This round makes the backend start the threads that it starts once per process.
        watch.begin("the round before the first".into());
        crate::attack::vcpus::a_good_guest_rings(watch);
        let before = Holdings::now();
        for number in rounds {
            println!("round {number}");
            std::io::stdout().flush().unwrap();
            watch.begin(format!("round {number} of seed {seed}"));
            (self.round)(watch, &mut Random::new(seed, self.name, number));
            before.await_again();
        }
        watch.begin("the round after the last".into());
        crate::attack::vcpus::a_good_guest_rings(watch);
        before.await_again();
        println!("all made: {}", watch.summary().replace('\n', ";"));
    }
}

fn some_seed() -> u64 {
    let time = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap();
    u64::from(time.subsec_nanos()) ^ (u64::from(std::process::id()) << 20)
}

/// Ends this process when its parent, which holds the other end of its input, has ended.
pub fn end_with_parent() {
    let wait = || {
        let _ = std::io::stdin().read(&mut [0]);
        std::process::abort();
    };
    std::thread::spawn(wait);
}

const RANDOM: Attack = Attack {
    name: "attack::random",
    rounds: 3,
    full: 300,
    round: |_, _| {},
};

#[test]
fn an_attack_makes_as_many_rounds_as_it_is_asked_for() {
    let counts = [None, Some("7"), Some("full")].map(|wanted| RANDOM.count(wanted));
    assert_eq!(counts, [3, 7, 300]);
}

#[test]
#[should_panic(expected = "a number above 0: 0")]
fn an_attack_without_rounds_is_refused() {
    RANDOM.count(Some("0"));
}
