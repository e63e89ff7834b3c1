//! Replaces instructions that trap often by cheaper ones, if the user has asked for it.
//!
//! The stub counts the traps of each instruction address (a site), and hands a hot site over to the monitor as an exit.
//! The monitor patches it on the thread that runs the vCPU, which is stopped meanwhile. At every site except a store,
//! the first byte can become `int3`: it is one byte, so no branch can land in its middle. A hot `out`, or a store that
//! has rung a doorbell, can instead become a jump to a trampoline, which rings the doorbell without a trap. A guest
//! that reads its own code sees the change, so patching is off by default.

mod jump;
mod trampoline;

use stub::decode::{Instruction, Operation, decode};
use stub::patches::INT3;
use vm_memory::{Bytes, GuestAddress, GuestMemoryMmap};
use vmbell::sync::Mutex;
use vmbell_hypervisor::PatchMode;

use self::jump::Jump;
use self::trampoline::Trampolines;
use super::sandbox::Sandbox;

/// The maximum number of trampolines of a guest. Without a limit a hostile guest could ask for them forever.
const MAX_TRAMPOLINES: usize = 256;

/// Patches the sites of one guest.
#[derive(Debug)]
pub struct Patcher {
    mode: PatchMode,
    state: Mutex<PatchState>,
}

#[derive(Debug, Default)]
struct PatchState {
    jumps: Vec<Jump>,
    trampolines: Trampolines,
    /// Stores whose jump was undone. They do not become jumps again: those would be undone for the same reason.
    given_up: Vec<u64>,
}

impl Patcher {
    /// Makes a patcher that does what `mode` allows.
    pub fn new(mode: PatchMode) -> Self {
        Self {
            mode,
            state: Mutex::default(),
        }
    }

    /// Patches the instruction at `site`, unless it cannot be replaced or a table is full. `site` comes from the
    /// sandbox, so it may have any value. The vCPU that asked is stopped.
    pub fn patch(&self, sandbox: &Sandbox, memory: &GuestMemoryMmap, site: u64) {
        // A hostile sandbox may ask although the mode is off.
        if self.mode == PatchMode::Off {
            return;
        }
        let mut state = self.state.lock();
        // The guest branches into such a jump again and again, and each branch costs a trap on an invalid opcode, the
        // most expensive kind of trap.
        if state.undo(sandbox, memory, |jump| jump.overwrites(site)) {
            return;
        }
        let mut bytes = [0; 15];
        if memory.read_slice(&mut bytes, GuestAddress(site)).is_err() {
            return;
        }
        let Some(Instruction { operation, .. }) = decode(|place| bytes[usize::from(place)]) else {
            return;
        };
        let is_access = matches!(operation, Operation::Load { .. } | Operation::Store { .. });
        let can_jump = matches!(operation, Operation::Out { .. } | Operation::Store { .. });
        if can_jump
            && self.mode == PatchMode::Jmp
            && state.trampolines.count() < MAX_TRAMPOLINES
            && !state.given_up.contains(&site)
            && let Some(jump) = Jump::write(sandbox, memory, &mut state.trampolines, site)
        {
            // If the guest has written over an earlier jump here, that jump is still in the list.
            state.jumps.retain(|other| other.site() != site);
            state.jumps.push(jump);
        } else if !is_access {
            // The trap of an access reports its address; the trap of an `int3` does not.
            int3(sandbox, memory, site, bytes[0]);
        }
    }

    /// Undoes the jump at `site`. The vCPU that asked is stopped.
    pub fn give_back(&self, sandbox: &Sandbox, memory: &GuestMemoryMmap, site: u64) {
        let mut state = self.state.lock();
        state.undo(sandbox, memory, |jump| jump.site() == site);
    }
}

impl PatchState {
    /// Undoes the first jump that `which` selects, unless the guest has written over it. Returns whether `which`
    /// selects one.
    fn undo(
        &mut self,
        sandbox: &Sandbox,
        memory: &GuestMemoryMmap,
        which: impl Fn(&Jump) -> bool,
    ) -> bool {
        let Some(place) = self.jumps.iter().position(which) else {
            return false;
        };
        if self.jumps[place].undo(sandbox, memory) {
            let jump = self.jumps.swap_remove(place);
            if jump.is_store() {
                self.given_up.push(jump.site());
            }
        }
        true
    }
}

/// Replaces the first byte of the instruction at `site` by `int3`. The original byte is stored for the stub
/// before the trap can happen.
fn int3(sandbox: &Sandbox, memory: &GuestMemoryMmap, site: u64, first: u8) {
    let sites = &sandbox.control.patches.int3_sites;
    if sites.insert(site, u64::from(first)) {
        // The first byte was read at this address, and memory is never unmapped.
        let _ = memory.write_obj(INT3, GuestAddress(site));
    }
}
