//! One type for all backends, and the choice of the best one.

use vmbell::doorbell::{Datamatch, IoEventAddress, Sharing};
use vmbell_hypervisor::kvm::Kvm;
use vmbell_hypervisor::{Capability, Error, Hypervisor, IoEvents, Vm, VmConfig, VmExit};
use vmbell_usermode::Usermode;
use vmbell_vmm::{AnyHypervisor, choose_backend};

use crate::harness::script::{Op, Player};
use crate::harness::{HOLE, chain, configured, count, event};

#[test]
fn best_is_kvm_where_it_opens_and_else_says_why_not() {
    let chosen = choose_backend(&[]).unwrap();
    match Kvm::open() {
        Ok(_) => {
            assert_eq!(chosen.hypervisor.name(), "kvm");
            assert!(chosen.why_not_kvm.is_none());
        }
        Err(error) => {
            assert_eq!(chosen.hypervisor.name(), "usermode");
            assert_eq!(chain(&chosen.why_not_kvm.unwrap()), chain(&error));
        }
    }
}

#[test]
fn best_is_the_backend_that_has_what_is_needed() {
    let chosen = choose_backend(&[Capability::Run, Capability::MixedGroups]).unwrap();
    assert_eq!(chosen.hypervisor.name(), "usermode");
    assert!(chosen.why_not_kvm.is_some());
    let support = chosen.hypervisor.support(Capability::MixedGroups);
    assert!(support.is_yes(), "{support}");
}

#[test]
fn what_no_backend_has_is_an_error_with_both_reasons() {
    // KVM has no register exits, and the usermode backend no kernels.
    let error = choose_backend(&[Capability::RegisterExits, Capability::Kernels]).unwrap_err();
    assert!(matches!(error, Error::NoBackend { .. }), "{error:?}");
    let text = chain(&error);
    for reason in ["kvm", "guest code runs in ring 3"] {
        assert!(text.contains(reason), "{text}");
    }
}

/// Runs a guest behind the enums, with a doorbell, an exit that no doorbell takes, and a kick.
fn passes_on(hypervisor: &AnyHypervisor) {
    let config = VmConfig {
        ram_size: 4 << 20,
        ..VmConfig::default()
    };
    let vm = configured(hypervisor, config);
    let bell = event();
    let register = || {
        vm.register_ioevent(
            &bell,
            IoEventAddress::Mmio(HOLE),
            Datamatch::U32(Some(7)),
            Sharing::Exclusive,
        )
    };
    register().unwrap();
    assert!(matches!(register(), Err(Error::Doorbell(_))));
    let mut player = Player::new(&vm);
    let ops = [Op::Store(4, HOLE, 7), Op::Store(4, HOLE, 8)];
    let other = VmExit::MmioWrite {
        address: HOLE,
        len: 4,
        data: 8,
    };
    assert_eq!(player.play(&ops), [other]);
    assert_eq!(count(&bell), 1);
    assert!(matches!(vm.create_vcpu(0), Err(Error::Vcpu { .. })));
    let usermode = matches!(hypervisor, AnyHypervisor::Usermode(_));
    assert_eq!(vm.processes().len(), usize::from(usermode));
}

fn any_backend_passes_its_calls_on<H: Hypervisor>(hypervisor: &H) {
    passes_on(&match hypervisor.name() {
        "kvm" => AnyHypervisor::Kvm(crate::harness::kvm()),
        _ => AnyHypervisor::Usermode(Usermode),
    });
}

crate::on_both! {
    any_backend_passes_its_calls_on;
}
