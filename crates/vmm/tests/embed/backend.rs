//! The choice of a backend.

use vmbell_hypervisor::kvm::Kvm;
use vmbell_hypervisor::{Capability, Error};
use vmbell_vmm::{Backend, choose_backend};

use testbed::chain;

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
    let chosen = choose_backend(&[Capability::Run, Capability::HypercallDoorbell]).unwrap();
    assert_eq!(chosen.hypervisor.name(), "usermode");
    assert!(chosen.why_not_kvm.is_some());
    let support = chosen.hypervisor.support(Capability::HypercallDoorbell);
    assert!(support.is_yes(), "{support}");
}

#[test]
fn what_no_backend_has_is_an_error_with_both_reasons() {
    // KVM has no register exits, and the usermode backend runs no kernels.
    let error = choose_backend(&[Capability::RegisterExits, Capability::Kernels]).unwrap_err();
    assert!(matches!(error, Error::NoBackend { .. }), "{error:?}");
    let text = chain(&error);
    for reason in ["kvm", "guest code runs in ring 3"] {
        assert!(text.contains(reason), "{text}");
    }
}

#[test]
fn a_backend_opens_by_the_name_that_it_has() {
    for backend in Backend::ALL {
        // This host may have no KVM, but each backend of the build can be asked.
        match backend.open() {
            Ok(opened) => assert_eq!(opened.name(), backend.name()),
            Err(error) => assert!(!matches!(error, Error::Architecture { .. }), "{error}"),
        }
    }
}
