//! Attacks on the usermode engine, in rounds of random choices: guests that jump into the stub, write over what it
//! shares with the monitor, or call the kernel as it does; sandboxes and monitors that are killed or stopped.
//! In every case each call of the monitor returns within a bound, and nothing leaks. Attacks whose end is known are in `expected`.
//!
//! `cargo test` makes a few rounds of each. The environment says otherwise:
//! - `VMBELL_ATTACK_ROUNDS`: how many rounds, or `full` for the number that each attack asks for;
//! - `VMBELL_ATTACK_SEED`: where the choices come from, as a failure says it;
//! - `VMBELL_ATTACK_ROUND`: the one round to make.

mod batch;
mod bells;
mod counters;
mod expected;
mod gadgets;
mod jumps;
mod kills;
mod leaks;
mod orphans;
mod random;
mod scatter;
mod stops;
mod vcpus;
mod watch;
