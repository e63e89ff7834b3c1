//! The hypercall page: one indirect jump into the stub.

use iced_x86::code_asm::{CodeAssembler, qword_ptr};
use stub::layout::{HYPERCALL_ENTRY, HYPERCALL_PAGE};

use super::super::error::UsermodeError;

/// The page's bytes, for [`HYPERCALL_PAGE`].
pub fn hypercall_page() -> Result<Vec<u8>, UsermodeError> {
    let assemble = || {
        let mut code = CodeAssembler::new(64)?;
        let mut entry = code.create_label();
        code.jmp(qword_ptr(entry))?;
        // Aligned: the guest may have alignment checks on.
        code.nops_with_size(2)?;
        code.set_label(&mut entry)?;
        code.dq(&[HYPERCALL_ENTRY])?;
        code.assemble(HYPERCALL_PAGE)
    };
    assemble().map_err(|error: iced_x86::IcedError| UsermodeError::System {
        operation: "assemble the hypercall page",
        source: std::io::Error::other(error),
    })
}
