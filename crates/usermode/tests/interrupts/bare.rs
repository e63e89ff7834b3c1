//! A guest whose stack pointer a test chooses.

use std::sync::Arc;

use vmbell_guest::{CODE, Parameters};
use vmbell_hypervisor::{Vcpu, Vm};

use testbed::{programs, start};

/// Starts vCPU 0, which reports when it has its stack, and waits for interrupts.
pub fn spin_with_stack(vm: &Arc<dyn Vm>, rsp: u64) -> Box<dyn Vcpu> {
    let parameters = Parameters {
        value: rsp,
        ..Parameters::default()
    };
    let mut vcpu = start(vm, programs::bare(), parameters, 0);
    vcpu.set_interrupt_handler(CODE.0).unwrap();
    vcpu
}
