//! Interrupts in the sandbox: interrupt storms, handlers without a stack, and full eventfds.

mod bad;
mod bare;
mod held;
mod storms;
