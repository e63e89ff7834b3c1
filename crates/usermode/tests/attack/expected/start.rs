//! Sandboxes that are killed or stopped while they start.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use vmbell_hypervisor::{Hypervisor, VmConfig};

use testbed::process::{alone, exists, is_child_of, processes, signal};
use testbed::{HANG, chain};

/// Numbers that look random and are the same in each run.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}

/// Makes a guest while another thread sends `number` to its sandbox, `delay` after it is there.
/// Gives the error, if there was one, after it has made sure that the sandbox is gone.
fn strike<H: Hypervisor>(h: &H, number: Signal, delay: Duration) -> Option<String> {
    let own = std::process::id().cast_signed();
    let before = processes();
    let made = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let striker = scope.spawn(|| {
            loop {
                let mut new = processes();
                // Few are left: asking all for their parent would take longer than a start.
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
        // The process number is the sandbox's until the guest is dropped.
        made.store(true, Relaxed);
        let pid = striker.join().unwrap();
        let error = vm.err().map(|error| chain(&error));
        if let Some(pid) = pid {
            assert!(!exists(pid), "a sandbox is left after {error:?}");
        }
        error
    })
}

fn a_sandbox_that_is_killed_while_it_starts_is_an_error<H: Hypervisor + Sync>(h: &H) {
    alone(|| {
        let mut random = Random(0x9e37_79b9_7f4a_7c15);
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
    });
}

fn a_sandbox_that_is_stopped_while_it_starts_is_an_error<H: Hypervisor + Sync>(h: &H) {
    alone(|| {
        let mut random = Random(0x2545_f491_4f6c_dd1d);
        let mut errors = 0;
        let begin = Instant::now();
        let mut round = 0;
        while errors < 3 && begin.elapsed() < HANG {
            round += 1;
            // Some as soon as they are there.
            let delay = Duration::from_micros(random.below(500) * (round & 1));
            if let Some(error) = strike(h, Signal::STOP, delay) {
                assert!(error.contains("the sandbox is stopped"), "{round}: {error}");
                errors += 1;
            }
        }
        assert!(errors > 0, "none was stopped while it started");
    });
}

testbed::on_usermode! {
    a_sandbox_that_is_killed_while_it_starts_is_an_error;
    a_sandbox_that_is_stopped_while_it_starts_is_an_error;
}
