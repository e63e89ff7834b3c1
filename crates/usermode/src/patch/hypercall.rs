//! The hypercall page: one indirect jump into the stub for hypercalls, and one for the return from interrupt
//! handlers. Assembled once for each sandbox, by the thread that starts it.

use iced_x86::code_asm::{CodeAssembler, qword_ptr};
use stub::layout::{HYPERCALL_ENTRY, HYPERCALL_PAGE, INTERRUPT_RETURN, INTERRUPT_RETURN_ENTRY};

use super::INT3;
use vmbell_hypervisor::Error;

/// Offset of the second jump in the page, in bytes.
const RETURN_OFFSET: usize = ((INTERRUPT_RETURN - HYPERCALL_PAGE) & 0xfff) as usize;

/// The bytes of the page, to be loaded at [`HYPERCALL_PAGE`].
pub fn hypercall_page() -> Result<Vec<u8>, Error> {
    let jump = |address, target| {
        let mut code = CodeAssembler::new(64)?;
        let mut entry = code.create_label();
        code.jmp(qword_ptr(entry))?;
        // Aligns the pointer to 8 bytes: the guest may have alignment checks on.
        code.nops_with_size(2)?;
        code.set_label(&mut entry)?;
        code.dq(&[target])?;
        code.assemble(address)
    };
    let assemble = || {
        let mut page = jump(HYPERCALL_PAGE, HYPERCALL_ENTRY)?;
        page.resize(RETURN_OFFSET, INT3);
        page.extend(jump(INTERRUPT_RETURN, INTERRUPT_RETURN_ENTRY)?);
        Ok(page)
    };
    assemble().map_err(|error: iced_x86::IcedError| Error::System {
        operation: "assemble the hypercall page",
        source: std::io::Error::other(error),
    })
}
