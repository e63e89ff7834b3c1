//! The hypercall page: code that the backend writes for the guest.
//!
//! The page has one indirect jump into the stub for hypercalls, and one for the return from interrupt handlers. The
//! thread that starts a sandbox assembles the page.

use iced_x86::IcedError;
use iced_x86::code_asm::{CodeAssembler, qword_ptr};
use stub::layout::{HYPERCALL_ENTRY, INTERRUPT_RETURN_ENTRY};
use stub::patches::INT3;
use vmbell_core::addresses::{HYPERCALL_PAGE, INTERRUPT_RETURN};
use vmbell_hypervisor::Error;

/// Offset of the second jump in the page, in bytes.
const RETURN_OFFSET: usize = ((INTERRUPT_RETURN - HYPERCALL_PAGE) & 0xfff) as usize;

/// Returns the bytes of the page, to be loaded at [`HYPERCALL_PAGE`].
pub fn assemble() -> Result<Vec<u8>, Error> {
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
    let assembled = || {
        let mut page = jump(HYPERCALL_PAGE, HYPERCALL_ENTRY)?;
        page.resize(RETURN_OFFSET, INT3);
        page.extend(jump(INTERRUPT_RETURN, INTERRUPT_RETURN_ENTRY)?);
        Ok(page)
    };
    assembled().map_err(|error: IcedError| Error::System {
        operation: "assemble the hypercall page",
        source: std::io::Error::other(error),
    })
}
