//! The guests of the tests.
#![allow(unsafe_code)]

vmbell_guest::guest_programs! {
    /// Plays a list of accesses that the host writes.
    script = "../guests/script.S" | "../guests/aarch64/script.S";
    /// All forms of port input and output.
    ports = "../guests/ports.S";
    /// All forms of stores.
    stores = "../guests/stores.S";
    /// Executes a store that the host puts into it, again and again, and saves all registers.
    hot_store = "../guests/hot_store.S";
    /// Stores to each of a list of addresses by one instruction.
    store_list = "../guests/store_list.S";
    /// Branches past a store every second time.
    branch_past_store = "../guests/branch_past_store.S";
    /// Two stores next to each other, of which it executes the second or both.
    two_stores = "../guests/two_stores.S";
    /// All forms of loads.
    loads = "../guests/loads.S";
    /// Loads all registers, leaves in a chosen way, and saves them.
    state = "../guests/state.S";
    /// Model-specific registers, `hlt`, and hypercalls from a misaligned stack.
    control = "../guests/control.S";
    /// String output in both directions.
    strings = "../guests/strings.S";
    /// Changes the segment bases and leaves.
    bases = "../guests/bases.S";
    /// Rings in a chosen way while all registers that it does not need hold a pattern.
    storm = "../guests/storm.S";
    /// Sends interrupts to another vCPU, and waits for an interrupt from that vCPU after each.
    partners = "../guests/partners.S";
    /// Waits for interrupts with a stack pointer that the host chooses.
    bare = "../guests/bare.S";
    /// An interrupt handler that logs what it takes.
    handler = "../guests/handler.S";
    /// Takes interrupts and counts them by vector while it does other work.
    interrupts = "../guests/interrupts.S"
        | "../guests/aarch64/interrupts_handler.S" "../../guest/src/aarch64/gic.S" "../../guest/src/aarch64/its.S" "../guests/aarch64/interrupts.S";
    /// Checks arm64's interrupt controllers.
    gic_checks = | "../../guest/src/aarch64/interrupt_head.S" "../../guest/src/aarch64/gic.S" "../../guest/src/aarch64/its.S" "../guests/aarch64/gic_checks.S";
    /// Counts in memory and never leaves.
    spin = "../guests/spin.S" | "../guests/aarch64/spin.S";
    /// Branches into the middle of the instructions after an output.
    interior = "../guests/interior.S";
    /// Makes a system call from the stub's own instruction, again and again.
    gadget = "../guests/gadget.S";
    /// Makes jumps with registers that the host chooses.
    jumps = "../guests/jumps.S";
    /// Writes to a port, reads it, says that it is done, and pushes.
    trapper = "../guests/trapper.S";
    /// Does what a guest must not do.
    crimes = "../guests/crimes.S";
    /// Writes over memory.
    scribble = "../guests/scribble.S";
    /// Writes to random places.
    scatter = "../guests/scatter.S";
    /// Drives QEMU's edu: raises its interrupt and takes it.
    edu = "../../guest/src/x86_64/interrupt_head.S" "../guests/edu.S";
    /// Drives a PL031 clock: raises its alarm and takes it.
    clock = | "../../guest/src/aarch64/interrupt_head.S" "../../guest/src/aarch64/gic.S" "../../guest/src/aarch64/its.S" "../guests/aarch64/clock.S";
    /// Enters an interrupt handler as if it had interrupted a chosen instruction.
    before_halt = "../guests/before_halt.S";
    /// Enters an interrupt handler as if the same interrupt had come again within its handler.
    taken_twice = "../guests/taken_twice.S";
    /// Rewrites its own code, which exits often.
    rewrite = "../guests/rewrite.S";
}

/// The beginning of a guest: 40 outputs to port 0x42. A jump that replaces `out` covers all instructions after it.
pub const OUTPUTS: [u8; 11] = [
    0xb9, 40, 0, 0, 0, // mov ecx, 40
    0xe6, 0x42, // out 0x42, al
    0xff, 0xc9, // dec ecx
    0x75, 0xfa, // jnz, two instructions back
];
