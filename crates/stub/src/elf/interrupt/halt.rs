//! `hlt`: the vCPU's thread sleeps in the sandbox until an interrupt can be delivered.

use super::mask::is_masked;
use crate::elf::context::Context;
use crate::elf::kick::{KICK, hand_kick_over};
use crate::elf::percpu::{PerCpu, control};
use crate::elf::syscall::{epoll_wait, futex_wait, ring_eventfd};
use crate::sync::Ordering::{Acquire, Relaxed};

/// Sleeps until an interrupt can be delivered; `frame.rip` is behind the `hlt`. A kick hands over to the
/// monitor from here, and the vCPU goes back to sleep when the monitor enters it again.
pub fn halt(frame: &mut Context, cpu: &PerCpu) {
    let state = cpu.interrupts();
    cpu.run().counters.halts.fetch_add(1, Relaxed);
    super::answered(cpu);
    loop {
        let bed = Bed::of(cpu);
        // From here on, each sender of an interrupt or a kick changes the word or rings the bell.
        let asleep = match bed {
            Bed::Word => state.presence.halt(),
            Bed::Epoll(_) => {
                state.presence.halt_by_bell();
                0
            }
        };
        if cpu.noted.fetch_and(!KICK, Relaxed) & KICK != 0 {
            state.presence.wake();
            hand_kick_over(frame, cpu);
            continue;
        }
        let handler = state.handler.load(Relaxed);
        if handler != 0 && !is_masked(frame) && cpu.lapic().next_interrupt().is_some() {
            break;
        }
        match bed {
            Bed::Word => futex_wait(state.presence.word(), asleep),
            Bed::Epoll(epoll) => epoll_wait(epoll),
        }
    }
    state.presence.wake();
}

/// What a halted vCPU sleeps on.
enum Bed {
    /// In a futex wait on its presence word: no irqfd has woken the vCPU yet.
    Word,
    /// In `epoll_wait` on the epoll descriptor of its halt set, which a write to an irqfd ends directly.
    Epoll(u32),
}

impl Bed {
    fn of(cpu: &PerCpu) -> Self {
        match cpu.halt_set().epoll.load(Acquire) {
            0 => Self::Word,
            epoll => Self::Epoll(epoll),
        }
    }
}

/// A kick has arrived in stub code: keeps the vCPU from falling asleep.
pub fn stay_awake(cpu: &PerCpu) {
    if cpu.interrupts().presence.wake() {
        let bell = cpu.halt_set().bell.load(Relaxed);
        ring_eventfd(bell, control().one.as_ptr());
    }
}
