//! What this host lets the engine do, found by trying.

use std::sync::OnceLock;

use super::super::{Capability, Hypervisor, Support, VmConfig};
use super::Usermode;

/// Whether the engine has `capability` here, and if not, why.
pub fn support(capability: Capability) -> Support {
    match capability {
        Capability::Run => run(),
        Capability::SilentSaturation => Support::No(
            "the ring is a write(2): at a saturated counter it is dropped without EPOLLERR, and an eventfd without \
             EFD_NONBLOCK holds the vcpu until it is read or kicked"
                .into(),
        ),
        Capability::CoalescedMmio => Support::No("every write that no doorbell takes is an exit".into()),
        Capability::KernelPort => Support::No("the stub has no devices".into()),
        Capability::HypercallInstruction => Support::No(
            "in ring 3 it would reach another hypervisor, or none: guests call the hypercall page".into(),
        ),
        Capability::BareLoop => Support::No("nothing below the VMM's own loop can leave the guest".into()),
        Capability::Kernels => Support::No("guest code runs in ring 3".into()),
        Capability::PioDoorbell
        | Capability::MmioDoorbell
        | Capability::HypercallDoorbell
        | Capability::HypercallExit
        | Capability::MsrExits
        | Capability::SpinPolicy
        | Capability::Interrupts
        | Capability::EndOfInterrupt
        | Capability::DoorbellGroups
        | Capability::MixedGroups
        | Capability::Int3Patching
        | Capability::JmpPatching => match run() {
            Support::Yes => Support::Yes,
            Support::No(_) => Support::No("no guest can run".into()),
        },
    }
}

/// Starts a sandbox to see whether one starts. Once one has, the answer stands; a reason why not is
/// looked for anew each time, as it may have gone away.
fn run() -> Support {
    static STARTED: OnceLock<()> = OnceLock::new();
    if STARTED.get().is_some() {
        return Support::Yes;
    }
    let config = VmConfig {
        ram_size: 4096,
        ..VmConfig::default()
    };
    match Usermode.create_vm(&config) {
        Ok(_) => {
            let _ = STARTED.set(());
            Support::Yes
        }
        Err(error) => Support::No(chain(&error)),
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
