//! Interrupts in the sandbox: storms of them, handlers without a stack, and full eventfds.

mod bad;
mod bare;
mod held;
mod storms;
