//! Trials of capabilities that only a guest can show. A trial runs on the thread that asks; a second thread ends
//! it after a time limit.
//!
//! A KVM that is itself paravirtual may run the guest's kernel mode in its instruction emulator. That one does not
//! know every instruction, executes the hypercall instruction over and over, may end an interrupt itself when it
//! delivers it (Intel SDM vol. 3, 13.8.4), and signals an ioeventfd without an exit that it would count.

mod code;
mod guest;

use std::sync::Arc;

use vmm_sys_util::eventfd::{EFD_NONBLOCK, EventFd};

use super::super::system::System;
use super::cpuid;
use crate::{Error, IoEvents, Irqchip, Support, VmExit};
use code::{BELL, IN_SERVICE, RINGS};
use guest::Trial;
use vmbell::doorbell::{Datamatch, IoEventAddress, Sharing};

/// Whether a guest that executes the hypercall instruction goes on behind it; tried once.
pub fn hypercalls(system: &Arc<System>) -> Support {
    let code = || code::hypercall(cpuid::has_vmmcall(&system.host.cpuid));
    let one = || Trial::new(system, Irqchip::None, None, code())?.run();
    let answer = system.host.hypercalls.get_or_init(|| match one() {
        Ok(VmExit::PioOut { .. }) => Support::Yes,
        Ok(VmExit::Kicked) => no(
            "the hypercall instruction never ends here: this kvm emulates the guest's kernel mode",
        ),
        Ok(exit) => Support::No(format!("a hypercall made the guest leave with {exit:x?}")),
        Err(error) => untried(&error),
    });
    answer.clone()
}

/// Whether an interrupt stays in service until the guest's EOI; tried once.
pub fn ends_of_interrupts(system: &Arc<System>) -> Support {
    let handler = || Some(code::handler());
    let one = || Trial::new(system, Irqchip::Full, handler(), code::interrupt())?.run();
    let answer = system.host.ends_of_interrupts.get_or_init(|| match one() {
        Ok(VmExit::PioOut { data, .. }) if data & IN_SERVICE != 0 => Support::Yes,
        Ok(VmExit::PioOut { .. }) => no(
            "an interrupt ends here when it is delivered: this kvm does not wait for the guest's EOI",
        ),
        Ok(VmExit::Kicked) => no("a vcpu's interrupt to itself never came"),
        Ok(exit) => Support::No(format!("an interrupt made the guest leave with {exit:x?}")),
        Err(error) => untried(&error),
    });
    answer.clone()
}

/// Whether the kernel's statistics count the exits of a guest that rings an ioeventfd; tried once.
pub fn light_exits(system: &Arc<System>) -> Support {
    let answer = system.host.light_exits.get_or_init(|| match rings(system) {
        Ok((VmExit::PioOut { .. }, counted)) if counted >= RINGS.into() => Support::Yes,
        Ok((VmExit::PioOut { .. }, counted)) => Support::No(format!(
            "{RINGS} writes to an ioeventfd are {counted} exits in this kvm's statistics"
        )),
        Ok((VmExit::Kicked, _)) => no("a guest that rings never came to its end"),
        Ok((exit, _)) => Support::No(format!("a ring made the guest leave with {exit:x?}")),
        Err(error) => untried(&error),
    });
    answer.clone()
}

/// Whether guest code of ring 0 runs on the CPU; tried once.
pub fn native_kernel_mode(system: &Arc<System>) -> Support {
    let one = || Trial::new(system, Irqchip::None, None, code::unknown_to_emulators())?.run();
    let answer = system.host.native_kernel_mode.get_or_init(|| match one() {
        Ok(VmExit::PioOut { .. }) => Support::Yes,
        Ok(VmExit::Fault(_)) => no(
            "this kvm runs ring 0 in its instruction emulator, which does not know an instruction that the cpu has",
        ),
        Ok(exit) => Support::No(format!("code of ring 0 made the guest leave with {exit:x?}")),
        Err(error) => untried(&error),
    });
    answer.clone()
}

/// The first exit of a guest that rings an ioeventfd before it, and the exits that the kernel counted until then
/// without the one to the VMM.
fn rings(system: &Arc<System>) -> Result<(VmExit, u64), Error> {
    let mut trial = Trial::new(system, Irqchip::None, None, code::rings())?;
    let event = EventFd::new(EFD_NONBLOCK).map_err(Error::system("make an eventfd"))?;
    let _doorbell = trial.vm.register_ioevent(
        &Arc::new(event),
        IoEventAddress::Pio(BELL.into()),
        Datamatch::AnyLength,
        Sharing::Exclusive,
    )?;
    let exit = trial.run()?;
    let [light, _] = trial.vm.exits();
    Ok((exit, light))
}

fn no(reason: &str) -> Support {
    Support::No(reason.to_owned())
}

fn untried(error: &Error) -> Support {
    Support::No(format!("no guest could try it: {error}"))
}
