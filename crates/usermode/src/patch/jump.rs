//! Replaces an `out` or a store by a jump, such that branches into the overwritten bytes still work. Runs on the thread
//! of the vCPU that asked. If the guest has other vCPUs, the sandbox is stopped while the bytes change: a vCPU that is
//! between two of the overwritten instructions continues as if it had branched there.
//!
//! The five bytes of the jump may cover further instructions. Each further instruction that began there now begins with
//! a byte of the jump's distance, and the distance is chosen so that this byte is an invalid opcode in 64-bit mode. A
//! branch to such an instruction therefore traps, and the stub continues at the copy of the instruction after the
//! trampoline.

use std::sync::atomic::Ordering::{Relaxed, SeqCst};

use iced_x86::{
    BlockEncoder, BlockEncoderOptions, Code, Decoder, DecoderOptions, FlowControl, Instruction,
    InstructionBlock,
};
use stub::layout::{PATCH_BASE, PATCH_SIZE};
use stub::patches::INT3;
use stub::trampoline::{JMP, ROOM};
use vm_memory::{Bytes, GuestAddress, GuestMemoryMmap, VolatileMemory};

use super::super::sandbox::Sandbox;
use super::trampoline::{Trampolines, assemble_trampoline, is_replaceable, is_store};

/// The length of the jump in bytes.
const LEN: u64 = 5;

/// A patched site, with the data needed to undo the patch.
#[derive(Debug)]
pub struct Jump {
    site: u64,
    original: [u8; 5],
    jump: [u8; 5],
    overwritten: Vec<u64>,
    /// Whether the site is a store, which cannot become `int3`.
    is_store: bool,
}

impl Jump {
    /// Returns the address of the replaced instruction.
    pub const fn site(&self) -> u64 {
        self.site
    }

    /// Returns whether the replaced instruction is a store.
    pub const fn is_store(&self) -> bool {
        self.is_store
    }

    /// Returns whether an instruction that the jump overwrites began at `address`.
    pub fn overwrites(&self, address: u64) -> bool {
        self.overwritten.contains(&address)
    }

    /// Replaces the `out` or store at `site`. Returns `None` if that is not possible there.
    pub fn write(
        sandbox: &Sandbox,
        memory: &GuestMemoryMmap,
        trampolines: &mut Trampolines,
        site: u64,
    ) -> Option<Self> {
        // Enough for every byte that the stub may read of an instruction under the jump, partly from before the change
        // and partly from after it.
        let mut bytes = [0; 32];
        memory.read_slice(&mut bytes, GuestAddress(site)).ok()?;
        let covered = covered(&bytes, site)?;
        let (first, end) = (covered.first()?, covered.last()?.next_ip());
        if is_store(first) && !is_replaceable(first) {
            return None;
        }
        let overwritten: Vec<u64> = covered
            .iter()
            .skip(1)
            .map(Instruction::ip)
            .filter(|ip| *ip < site + LEN)
            .collect();
        let target = trampolines.find(site + LEN, ROOM, |place| {
            overwritten.contains(&(site + 1 + place))
        })?;

        let mut code = assemble_trampoline(target, first)?;
        let copy = target + code.len() as u64;
        let mut rest = covered[1..].to_vec();
        let mut back = Instruction::with_branch(Code::Jmp_rel32_64, end).ok()?;
        // Any address but `end`: the encoder treats a branch to the address of an instruction in the block as
        // a branch within the block.
        back.set_ip(target);
        rest.push(back);
        let block = InstructionBlock::new(&rest, copy);
        let encoded = BlockEncoder::encode(
            64,
            block,
            BlockEncoderOptions::RETURN_NEW_INSTRUCTION_OFFSETS,
        )
        .ok()?;
        code.extend(&encoded.code_buffer);
        if code.len() as u64 > ROOM {
            return None;
        }
        let offset = usize::try_from(target - PATCH_BASE).ok()?;
        trampolines.take(target, ROOM);
        // The trampoline is written before a redirect leads to it.
        let region = &sandbox.trampolines;
        region.get_slice(offset, code.len()).ok()?.copy_from(&code);
        let patches = &sandbox.control.patches;
        if !patches.trampolines.insert(target, site) {
            return None;
        }
        let redirects = &patches.redirects;
        for (instruction, offset) in covered[1..].iter().zip(&encoded.new_instruction_offsets) {
            let inside = instruction.ip() < site + LEN;
            let moved = copy + u64::from(*offset);
            if inside && !redirects.insert(instruction.ip(), moved) {
                return None;
            }
        }
        // A vCPU may have trapped at the site but not have read the instruction yet.
        if !redirects.insert(site, target) {
            return None;
        }
        let distance = i32::try_from(target.cast_signed() - (site + LEN).cast_signed()).ok()?;
        let mut patch = [JMP; 5];
        patch[1..].copy_from_slice(&distance.to_le_bytes());
        let mut original = [0; 5];
        original.copy_from_slice(&bytes[..5]);
        // The copies were made from all of these bytes, so none may have changed.
        let covered = usize::try_from(end - site).ok()?;
        replace(sandbox, memory, site, &bytes[..covered], &patch)?;
        Some(Self {
            site,
            original,
            jump: patch,
            overwritten,
            is_store: is_store(first),
        })
    }

    /// Restores the instructions, but an `out` becomes an `int3`. The trampoline stays, because a vCPU may be executing
    /// it. Returns false if the jump is no longer there, or if the sandbox cannot be stopped.
    pub fn undo(&self, sandbox: &Sandbox, memory: &GuestMemoryMmap) -> bool {
        let mut restored = self.original;
        // If the map is full, the `out` stays and traps as it did before.
        let int3_sites = &sandbox.control.patches.int3_sites;
        if !self.is_store && int3_sites.insert(self.site, restored[0].into()) {
            restored[0] = INT3;
        }
        replace(sandbox, memory, self.site, &self.jump, &restored).is_some()
    }
}

/// Replaces the code at `site`, while no vCPU executes it. Returns `None` if the code is no longer `before`, because
/// the guest has changed it, or if the sandbox cannot be stopped.
fn replace(
    sandbox: &Sandbox,
    memory: &GuestMemoryMmap,
    site: u64,
    before: &[u8],
    after: &[u8; 5],
) -> Option<()> {
    let write = || {
        let mut found = [0; 32];
        let found = &mut found[..before.len()];
        memory.read_slice(found, GuestAddress(site)).ok()?;
        if found != before {
            return None;
        }
        sandbox.control.patches.count.fetch_add(1, SeqCst);
        memory.write_slice(after, GuestAddress(site)).ok()
    };
    if sandbox.control.vcpus.load(Relaxed) == 1 {
        // The only vCPU waits for the answer to its exit.
        return write();
    }
    sandbox.process().while_stopped(write).ok()?
}

/// Returns the instructions from `site` on that a jump covers; `None` if one of them cannot run at another address.
fn covered(bytes: &[u8], site: u64) -> Option<Vec<Instruction>> {
    let mut instructions = Vec::new();
    for instruction in Decoder::with_ip(64, bytes, site, DecoderOptions::NONE) {
        // The `int3` of a patched site is recognized by its address, which a copy would not have. The jump of another
        // patch is removed only at its own address, so it must not be copied either.
        let is_patch = instruction.flow_control() == FlowControl::Interrupt
            || (PATCH_BASE..PATCH_BASE + PATCH_SIZE).contains(&instruction.near_branch_target());
        if instruction.is_invalid() || is_patch {
            return None;
        }
        let end = instruction.next_ip();
        instructions.push(instruction);
        if end >= site + LEN {
            return Some(instructions);
        }
    }
    None
}

const _: () = assert!(
    PATCH_BASE + PATCH_SIZE <= i32::MAX as u64,
    "every jump reaches every trampoline"
);
