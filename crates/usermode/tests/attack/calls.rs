//! System calls that a guest makes with the stub's own instructions and returns from.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use iced_x86::{Decoder, FlowControl};
use stub::layout::SHARED_BASE;
use vmbell_hypervisor::VmConfig;

use crate::attack::vcpus::{create, end, run_until};
use crate::attack::watch::Watch;
use testbed::HANG;
use testbed::jumps::{FREE, Jump, RBX, RSP, base, landed, take};
use testbed::symbols::{code, symbol, syscalls};

pub const WRITE: u64 = 1;
pub const FUTEX: u64 = 202;
pub const WAKE: u64 = 1;

/// The number of words on the vCPU's stack that lead back to the guest.
pub const BACK: u64 = 32;

/// Makes a system call that returns to the guest: with these registers, the stub's code after the instruction reaches a
/// `ret`. All registers that are not arguments of the call are 0 or point to otherwise unused RAM.
pub fn call(gadget: u64, index: u32, number: u64, arguments: [u64; 4]) -> Jump {
    let mut jump = Jump::call(gadget, number, arguments);
    jump.registers[RBX] = base(index) + FREE;
    jump.registers[RSP] = base(index) + 2 * FREE;
    jump
}

/// Returns the stub's `syscall` instructions from which a guest returns. Direct code ends with a `ret` on the guest's
/// stack, so its instructions are tried first. The others are tried only if the guest returns from none of these.
pub fn gadgets(watch: &Watch) -> &'static [u64] {
    static GADGETS: OnceLock<Vec<u64>> = OnceLock::new();
    GADGETS.get_or_init(|| {
        let comes_back = |gadget: &u64, time: Duration| {
            let (vm, sandbox) = create(watch, &VmConfig::default());
            let wake = call(*gadget, 0, FUTEX, [SHARED_BASE, WAKE, 0, 0]);
            let mut vcpu = take(&vm, 0, &[wake], BACK);
            run_until(watch, &mut vcpu, Instant::now() + time);
            let back = landed(&vm, 0) > 1;
            end(watch, vm, vec![vcpu], sandbox);
            back
        };
        let direct = symbol("stub_direct_section")..symbol("stub_direct_section_end");
        let (direct, others): (Vec<_>, Vec<_>) = syscalls()
            .into_iter()
            .partition(|gadget| direct.contains(gadget));
        let mut time = Duration::from_millis(3);
        // An instruction that does not return is noticed only by a timeout, which must be longer on a busy host.
        while time < HANG {
            for some in [&direct, &others] {
                let mut gadgets = some.clone();
                gadgets.retain(|gadget| comes_back(gadget, time));
                if !gadgets.is_empty() {
                    return gadgets;
                }
            }
            time *= 4;
        }
        panic!("no system call of the stub comes back to a guest");
    })
}

/// Returns a `syscall` of the stub that is followed by a return without a branch.
pub fn returning_gadget() -> u64 {
    let (base, bytes) = code();
    let returns = |gadget: &u64| {
        let skip = usize::try_from(gadget - base).unwrap();
        let behind = Decoder::with_ip(64, &bytes[skip + 2..], gadget + 2, 0).into_iter();
        let mut flow = behind.map(|instruction| instruction.flow_control());
        flow.find(|flow| *flow != FlowControl::Next) == Some(FlowControl::Return)
    };
    syscalls().into_iter().find(returns).expect("such a gadget")
}
