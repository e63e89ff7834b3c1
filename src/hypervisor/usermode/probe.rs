//! What this host lets the engine do, found by trying.

use super::super::{Capability, Hypervisor, Support, VmConfig};
use super::Usermode;

/// Whether the engine has `capability` here, and if not, why.
pub fn support(capability: Capability) -> Support {
    match capability {
        Capability::Run => match Usermode.create_vm(&VmConfig { ram_size: 4096, ..VmConfig::default() }) {
            Ok(_) => Support::Yes,
            Err(error) => Support::No(chain(&error)),
        },
        Capability::SilentSaturation => Support::No(
            "the ring is a write(2): at a saturated counter it is dropped without EPOLLERR, and an eventfd without \
             EFD_NONBLOCK holds the vcpu until it is read or kicked"
                .into(),
        ),
        Capability::ProtectionKeys => Support::No("the engine does not use them".into()),
        Capability::PioDoorbell
        | Capability::MmioDoorbell
        | Capability::HypercallDoorbell
        | Capability::DoorbellGroups
        | Capability::Int3Patching
        | Capability::JmpPatching => match support(Capability::Run) {
            Support::Yes => Support::Yes,
            Support::No(_) => Support::No("no guest can run".into()),
        },
    }
}

/// An error with its causes, as one line.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}
