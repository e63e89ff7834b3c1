//! Tests of how long a vCPU may leave kicks unanswered. They pass the times, so that none waits for a limit.

use super::*;

/// The time of the first kick that is unanswered, in nanoseconds.
const FIRST: u64 = 7;

fn after(time: Duration) -> u64 {
    FIRST + as_nanoseconds(time)
}

fn idle() -> Duration {
    Duration::ZERO
}

/// A thread that no signal reaches.
fn thread() -> VcpuThread {
    VcpuThread::new(0, Pid::INIT)
}

#[test]
fn vcpu_of_a_sandbox_that_sleeps_is_lost_after_the_long_limit() {
    let thread = thread();
    assert!(!thread.is_lost(FIRST, 1, idle));
    assert!(!thread.is_lost(after(KICK_TIMEOUT * 2), 1, idle));
    assert!(!thread.is_lost(after(IDLE_KICK_TIMEOUT), 1, idle));
    assert!(thread.is_lost(after(IDLE_KICK_TIMEOUT) + 1, 1, idle));
}

#[test]
fn vcpu_of_a_sandbox_that_runs_is_lost_after_the_short_limit_and_the_budget_of_all_vcpus() {
    let thread = thread();
    let used = |seconds| move || Duration::from_secs(seconds);
    assert!(!thread.is_lost(FIRST, 2, used(100)));
    assert!(!thread.is_lost(after(KICK_TIMEOUT), 2, used(200)));
    // Only what is used after the short limit counts.
    let late = after(KICK_TIMEOUT) + 1;
    assert!(!thread.is_lost(late, 2, used(300)));
    assert!(!thread.is_lost(late, 2, used(302)));
    assert!(thread.is_lost(late, 2, used(303)));
}

#[test]
fn answer_restarts_both_limits() {
    let thread = thread();
    let used = |seconds| move || Duration::from_secs(seconds);
    assert!(!thread.is_lost(FIRST, 1, used(1)));
    assert!(!thread.is_lost(after(KICK_TIMEOUT) + 1, 1, used(1)));
    thread.enter();
    let late = after(IDLE_KICK_TIMEOUT * 2);
    assert!(!thread.is_lost(late, 1, used(9)));
    assert!(!thread.is_lost(late + as_nanoseconds(KICK_TIMEOUT) + 1, 1, used(9)));
}

#[test]
fn vcpu_that_is_outside_the_guest_has_nothing_to_answer() {
    let thread = thread();
    for now in [FIRST, after(IDLE_KICK_TIMEOUT * 2)] {
        assert_eq!(thread.kick(now, 1, idle), KickResult::Sent);
    }
    thread.enter();
    assert_eq!(thread.kick(FIRST, 1, idle), KickResult::Sent);
    let late = after(IDLE_KICK_TIMEOUT * 2);
    assert_eq!(thread.kick(late, 1, idle), KickResult::Unanswered);
    thread.leave();
    assert_eq!(thread.kick(late, 1, idle), KickResult::Sent);
}

#[cfg(not(miri))]
mod of_a_sandbox {
    use std::sync::Arc;

    use stub::layout::{SLOT_BASE, SLOT_SIZE};
    use vmbell_guest::Parameters;
    use vmbell_hypervisor::{Vm, VmConfig, VmEntry, VmExit, chain};

    use crate::thread::{IDLE_KICK_TIMEOUT, SeqCst, as_nanoseconds, nanoseconds};
    use crate::vm::UsermodeVm;
    use testbed::process::{await_gone, stat};
    use testbed::{await_that, programs, start};

    /// A time at which an unanswered kick has long been given up.
    fn too_late() -> u64 {
        nanoseconds() + 2 * as_nanoseconds(IDLE_KICK_TIMEOUT)
    }

    fn guest() -> (Arc<UsermodeVm>, Arc<dyn Vm>) {
        let vm = Arc::new(UsermodeVm::new(&VmConfig::default()).unwrap());
        (Arc::clone(&vm), vm)
    }

    /// The vCPU of this guest sleeps and answers no kick.
    #[test]
    fn guest_that_writes_over_its_stub_is_ended() {
        for value in [u64::MAX, 0x4141_4141_4141_4141, 0] {
            let (usermode, vm) = guest();
            let parameters = Parameters {
                count: SLOT_SIZE,
                address: SLOT_BASE,
                value,
                pause: 0x66,
            };
            let mut vcpu = start(&vm, programs::scribble(), parameters, 0);
            let sandbox = &usermode.guest.sandbox;
            let (process, thread) = (sandbox.process().pid(), sandbox.thread(0));
            let error = std::thread::scope(|scope| {
                let guest = scope.spawn(move || {
                    loop {
                        if let Err(error) = vcpu.run(VmEntry::Data(0)) {
                            return chain(&error);
                        }
                    }
                });
                let mut kicks = 0;
                await_that("a vcpu that sleeps although it is kicked", || {
                    let sleeps = stat(thread.id().as_raw_pid()).is_some_and(|stat| stat[0] == "S");
                    if sleeps && thread.monitor_waits.load(SeqCst) {
                        sandbox.kick(0);
                        kicks += 1;
                    } else {
                        kicks = 0;
                    }
                    kicks > 20 || guest.is_finished()
                });
                assert!(!sandbox.process().has_ended() && !guest.is_finished());
                sandbox.kick_at(0, too_late());
                guest.join().unwrap()
            });
            assert!(error.contains("it answered no kick"), "{value:#x}: {error}");
            drop((vm, usermode));
            await_gone(process);
        }
    }

    #[test]
    fn guest_that_answers_is_not_ended_however_late_its_next_kick_is() {
        let (usermode, vm) = guest();
        let mut vcpu = start(&vm, programs::spin(), Parameters::default(), 0);
        let sandbox = &usermode.guest.sandbox;
        for kick_at in [nanoseconds, too_late] {
            std::thread::scope(|scope| {
                let guest = scope.spawn(|| vcpu.run(VmEntry::Resume));
                await_that("the guest to run", || {
                    sandbox.thread(0).monitor_waits.load(SeqCst)
                });
                sandbox.kick_at(0, kick_at());
                assert_eq!(guest.join().unwrap().unwrap(), VmExit::Kicked);
            });
        }
    }
}
