//! Models of the state that threads share while interrupts arrive and end, checked in every order that the memory model
//! allows. Run with `RUSTFLAGS="--cfg loom" cargo test --profile loom -p vmbell-core --lib models --target-dir
//! target/loom`.

mod forwarded;
mod line;
mod requests;
mod vcpu;

use loom::model::Builder;

use crate::lapic::{Lapic, Register};

/// A local APIC that is switched on, with APIC ID 0.
fn lapic() -> Lapic {
    let lapic = Lapic::default();
    lapic.reset(0);
    let _ = lapic.write(Register::Svr, 0x1ff);
    lapic
}

/// Explores every interleaving of a small case, with at most three preemptions.
fn check(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(model);
}
