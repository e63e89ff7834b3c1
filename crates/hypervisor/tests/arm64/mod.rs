//! arm64 on KVM: its exits, doorbells, interrupt controllers and faults, with its own guest programs.

mod accesses;
mod doorbells;
mod ends;
mod exits;
mod interrupts;
mod mmu_off;
mod programs;
mod refused;
mod secondary;
mod taker;
