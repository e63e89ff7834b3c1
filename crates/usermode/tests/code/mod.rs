//! Guest code as the stub reads and changes it, and the stub's own code.

mod decode;
mod patches;
mod stub_code;
