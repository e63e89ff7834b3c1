//! Guests that break what they can. Each has its expected end: a clear error, the monitor unharmed,
//! no sandbox left.

mod break_in;
mod crimes;
mod death;
mod gadget;
mod patching;
mod scribble;
mod stacks;
mod start;
mod starved;
mod stub_code;
