//! Makes tests from bodies that are generic over the backend. Each test has a time limit.

use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use crate::HANG;

/// Longer than one wait, because a test waits for many things one after another.
const TEST_HANG: Duration = HANG.saturating_mul(5);

/// Runs a test's body on its own thread, and fails if it hangs: a guest that breaks its engine could block it forever.
pub fn bounded(body: impl FnOnce() + Send + 'static) {
    let (sender, result) = channel();
    let run = move || {
        body();
        let _ = sender.send(());
    };
    let name = std::thread::current().name().unwrap_or("test").to_owned();
    let thread = std::thread::Builder::new().name(name).spawn(run).unwrap();
    match result.recv_timeout(TEST_HANG) {
        Err(RecvTimeoutError::Timeout) => panic!("hangs: still running after {TEST_HANG:?}"),
        // The body panicked, which drops the sender: pass the panic on.
        _ => {
            if let Err(panic) = thread.join() {
                std::panic::resume_unwind(panic);
            }
        }
    }
}

/// Wraps generic bodies as tests of the usermode backend, which only x86-64 has. The attributes before a name are the
/// conditions under which the body exists.
#[macro_export]
macro_rules! on_usermode {
    ($($(#[$condition:meta])* $name:ident;)*) => {
        #[cfg(target_arch = "x86_64")]
        mod usermode {
            $($(#[$condition])*
            #[test]
            fn $name() {
                $crate::bounded(|| super::$name(&$crate::Usermode));
            })*
        }
    };
}

/// Wraps generic bodies as tests of both backends. The tests on KVM run only in the lab.
#[macro_export]
macro_rules! on_both {
    ($($(#[$condition:meta])* $name:ident;)*) => {
        $crate::on_usermode! { $($(#[$condition])* $name;)* }
        $crate::on_kvm! { $($(#[$condition])* $name;)* }
    };
}

/// Wraps generic bodies as tests on KVM.
#[macro_export]
macro_rules! on_kvm {
    ($($(#[$condition:meta])* $name:ident;)*) => {
        mod kvm {
            $($(#[$condition])*
            #[test]
            #[ignore = "needs /dev/kvm: cargo xtask lab"]
            fn $name() {
                $crate::bounded(|| match $crate::Kvm::open() {
                    Ok(kvm) => super::$name(&kvm),
                    Err(error) => panic!("{}", $crate::chain(&error)),
                });
            })*
        }
    };
}
