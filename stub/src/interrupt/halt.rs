//! `hlt`: the vCPU sleeps in the sandbox until an interrupt can be delivered.

use super::mask::is_masked;
use crate::context::Context;
use crate::kick::{KICK, hand_kick_over};
use crate::percpu::PerCpu;
use crate::sync::Ordering::Relaxed;
use crate::syscall::futex_wait;

/// Sleeps with `frame` behind the `hlt`. A kick hands over from here, and the vCPU sleeps on when the
/// monitor enters it again.
pub fn halt(frame: &mut Context, cpu: &PerCpu) {
    let state = cpu.interrupts();
    cpu.run().counters.halts.fetch_add(1, Relaxed);
    super::answered(cpu);
    loop {
        // Whoever sends an interrupt or a kick from here on changes the word.
        let asleep = state.presence.halt();
        if cpu.noted.fetch_and(!KICK, Relaxed) & KICK != 0 {
            state.presence.wake();
            hand_kick_over(frame, cpu);
            continue;
        }
        let handler = state.handler.load(Relaxed);
        if handler != 0 && !is_masked(frame) && cpu.lapic().next().is_some() {
            break;
        }
        futex_wait(state.presence.word(), asleep);
    }
    state.presence.wake();
}
