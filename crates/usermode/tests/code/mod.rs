//! Guest code as the stub reads and changes it.

mod decode;
mod patches;
