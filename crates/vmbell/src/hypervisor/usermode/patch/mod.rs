//! Replaces hot trapping instructions by cheaper ones, when the user asked for it.
//!
//! The stub counts traps by site and asks; the vCPU is stopped while the monitor answers. Any site
//! can become `int3`, one byte, which no branch can hit the middle of. A hot `out` can become a
//! jump to a trampoline that rings without a trap. A guest that reads its own code sees the
//! difference, so both are off by default.

mod hypercall;
mod jump;
mod trampoline;

use std::fs::File;
use std::sync::Mutex;
use std::sync::PoisonError;

use stub::decode::{Instruction, Operation, decode};
use stub::layout::{PATCH_OFFSET, PATCH_SIZE};
use vm_memory::{Bytes, FileOffset, GuestAddress, GuestMemoryMmap, MmapRegion};

pub use hypercall::hypercall_page;

use self::jump::Jump;
use self::trampoline::Trampolines;
use super::super::{Error, PatchMode};
use super::sandbox::Sandbox;

/// Traps at one site before it is patched.
pub const HOT: u32 = 16;

/// Most trampolines of a guest, each of which takes a page: a hostile one can ask for ever.
const MAX_TRAMPOLINES: usize = 256;

const INT3: u8 = 0xcc;

/// Maps the trampolines' memory, which the sandbox sees at [`stub::layout::PATCH_BASE`].
pub fn map(read_only: &File) -> Result<MmapRegion, Error> {
    let operation = "map the trampolines";
    let file = read_only.try_clone().map_err(Error::system(operation))?;
    let size = usize::try_from(PATCH_SIZE).map_err(|error| Error::System {
        operation,
        source: std::io::Error::other(error),
    })?;
    MmapRegion::from_file(FileOffset::new(file, PATCH_OFFSET), size).map_err(|error| {
        Error::System {
            operation,
            source: std::io::Error::other(error),
        }
    })
}

/// Patches the sites of one guest.
#[derive(Debug)]
pub struct Patcher {
    mode: PatchMode,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    jumps: Vec<Jump>,
    trampolines: Trampolines,
}

/// What [`Patcher::patch`] did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The site is `int3` now.
    Int3,
    /// The site is a jump now.
    Jmp,
    /// The site stays as it is: nothing there that can be replaced.
    Refused,
}

impl Patcher {
    /// For a guest whose user asked for `mode`.
    pub fn new(mode: PatchMode) -> Self {
        Self {
            mode,
            state: Mutex::default(),
        }
    }

    /// Patches the instruction at `site`, which the sandbox named and so may be any number. The
    /// vCPU that asked is stopped.
    pub fn patch(&self, sandbox: &Sandbox, memory: &GuestMemoryMmap, site: u64) -> Outcome {
        // The sandbox may ask for anything at any time.
        if self.mode == PatchMode::Off {
            return Outcome::Refused;
        }
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(place) = state.jumps.iter().position(|jump| jump.has_interior(site)) {
            // Branched into all the time: each costs a trap on an invalid opcode, the dearest kind.
            let jump = state.jumps.swap_remove(place);
            return jump.undo(sandbox, memory);
        }
        let mut bytes = [0; 15];
        if memory.read_slice(&mut bytes, GuestAddress(site)).is_err() {
            return Outcome::Refused;
        }
        let Some(Instruction { operation, .. }) = decode(|place| bytes[usize::from(place)]) else {
            return Outcome::Refused;
        };
        if matches!(operation, Operation::Load { .. } | Operation::Store { .. }) {
            return Outcome::Refused;
        }
        let out = matches!(operation, Operation::Out { .. });
        if out && self.mode == PatchMode::Jmp && state.trampolines.count() < MAX_TRAMPOLINES {
            let State { jumps, trampolines } = &mut *state;
            if let Some(jump) = Jump::write(sandbox, memory, trampolines, site) {
                jumps.push(jump);
                return Outcome::Jmp;
            }
        }
        int3(sandbox, memory, site, bytes[0])
    }
}

/// Replaces the first byte of an instruction. The stub must know the byte before the trap can come.
fn int3(sandbox: &Sandbox, memory: &GuestMemoryMmap, site: u64, first: u8) -> Outcome {
    if !sandbox.control.int3_sites.insert(site, u64::from(first)) {
        return Outcome::Refused;
    }
    match memory.write_obj(INT3, GuestAddress(site)) {
        Ok(()) => Outcome::Int3,
        Err(_) => Outcome::Refused,
    }
}
