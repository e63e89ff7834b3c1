//! Features that arm64 does not have are refused by name.

use vmbell_hypervisor::{EntryPoint, Error, Hypervisor, Irqchip, VmConfig};

use testbed::{chain, plain};

fn guest_that_cannot_be_is_refused_by_its_setting<H: Hypervisor>(h: &H) {
    let wrong = [
        VmConfig {
            irqchip: Irqchip::Split,
            ..VmConfig::default()
        },
        VmConfig {
            ram_base: 0x1000,
            ..VmConfig::default()
        },
    ];
    for (config, setting) in wrong.iter().zip(["irqchip", "ram_base"]) {
        let error = h.create_vm(config).map(drop).unwrap_err();
        let is_told = matches!(error, Error::Config { what, .. } if what == setting);
        assert!(is_told, "{}", chain(&error));
    }
}

fn entry_points_of_x86_are_refused<H: Hypervisor>(h: &H) {
    let vm = plain(h);
    let mut vcpu = vm.create_vcpu(0).unwrap();
    let real = EntryPoint::RealMode {
        segment: 0,
        offset: 0,
    };
    let protected = EntryPoint::Protected {
        pc: 0,
        eax: 0,
        ebx: 0,
        esi: 0,
    };
    for entry in [real, protected] {
        let error = vcpu.set_entry_point(entry).unwrap_err();
        assert!(matches!(error, Error::Entry { .. }), "{}", chain(&error));
    }
}

fn vcpu_is_handed_out_once<H: Hypervisor>(h: &H) {
    let vm = plain(h);
    vm.create_vcpu(0).unwrap();
    for index in [0, 1] {
        let error = vm.create_vcpu(index).map(drop).unwrap_err();
        assert!(matches!(error, Error::Vcpu { .. }), "{}", chain(&error));
    }
}

testbed::on_kvm! {
    guest_that_cannot_be_is_refused_by_its_setting;
    entry_points_of_x86_are_refused;
    vcpu_is_handed_out_once;
}
