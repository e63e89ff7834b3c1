//! The vCPU's file descriptor, for VMMs whose own loop does the least work around an exit.

use vmbell_hypervisor::{Capability, Hypervisor};

use testbed::plain;

fn vcpu_has_a_descriptor_if_its_exits_can_be_measured_alone<H: Hypervisor>(h: &H) {
    let has = h.support(Capability::BareLoop).is_yes();
    let vcpu = plain(h).create_vcpu(0).unwrap();
    assert_eq!(vcpu.descriptor().is_some(), has);
}

testbed::on_both! {
    vcpu_has_a_descriptor_if_its_exits_can_be_measured_alone;
}
