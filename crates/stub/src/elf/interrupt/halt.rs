//! `hlt`: the vCPU's thread sleeps in the sandbox until an interrupt can be delivered.

use super::inject::is_masked;
use crate::elf::entry::Context;
use crate::elf::kick::{KICK, hand_over_kick};
use crate::elf::percpu::{PerCpu, control};
use crate::elf::syscall::{epoll_wait, futex_wait, ring_eventfd};
use vmbell_core::sync::Ordering::{Acquire, Relaxed};

/// Sleeps until an interrupt can be delivered; `frame.rip` is after the `hlt`. A kick makes the vCPU hand over to the
/// monitor, and the vCPU goes back to sleep when the monitor enters it again.
pub fn halt(frame: &mut Context, cpu: &PerCpu) {
    let state = cpu.interrupts();
    cpu.run().counters.halts.fetch_add(1, Relaxed);
    super::count_light_exit(cpu);
    loop {
        let wait = HaltWait::of(cpu);
        // From here on, a sender of an interrupt or a kick changes the word or writes to the wake eventfd.
        let expected = match wait {
            HaltWait::Futex => state.mode.halt_in_futex(),
            HaltWait::Epoll(_) => {
                state.mode.halt_in_epoll();
                0
            }
        };
        if cpu.pending_signals.fetch_and(!KICK, Relaxed) & KICK != 0 {
            state.mode.wake();
            hand_over_kick(frame, cpu);
            continue;
        }
        let handler = state.interrupt_handler.load(Relaxed);
        if handler != 0 && !is_masked(frame) && cpu.lapic().next_interrupt().is_some() {
            break;
        }
        match wait {
            HaltWait::Futex => futex_wait(state.mode.word(), expected),
            HaltWait::Epoll(epoll) => epoll_wait(epoll),
        }
    }
    state.mode.wake();
}

/// Where a halted vCPU sleeps.
enum HaltWait {
    /// In a futex wait on its mode word, because no irqfd has woken the vCPU yet.
    Futex,
    /// In `epoll_wait` ([`HaltFds`](crate::layout::HaltFds)), which a write to an irqfd ends directly.
    Epoll(u32),
}

impl HaltWait {
    fn of(cpu: &PerCpu) -> Self {
        match cpu.halt_fds().epoll.load(Acquire) {
            0 => Self::Futex,
            epoll => Self::Epoll(epoll),
        }
    }
}

/// Called when a kick has arrived in stub code: keeps the vCPU from falling asleep.
pub fn cancel_halt(cpu: &PerCpu) {
    if cpu.interrupts().mode.wake() {
        let wake_eventfd = cpu.halt_fds().wake_eventfd.load(Relaxed);
        ring_eventfd(wake_eventfd, control().one.as_ptr());
    }
}
