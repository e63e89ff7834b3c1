//! The loops with the least work around an exit.

use std::time::Duration;

use vmbell_hypervisor::measure::BareExit;
use vmbell_hypervisor::{Capability, Hypervisor};

use crate::harness::{chain, plain};

/// The exits that a guest of any architecture can make.
const EXITS: [BareExit; 2] = [BareExit::Mmio, BareExit::Ioeventfd];

fn bare_loop_runs_again_after_a_kick<H: Hypervisor>(h: &H) {
    for exit in EXITS {
        let mut bare = plain(h).measure().bare_loop(exit).unwrap();
        bare.run(1000).unwrap();
        let kick = bare.kick_handle();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(Duration::from_millis(50));
                kick.kick();
            });
            let error = bare.run(u64::MAX).unwrap_err();
            assert!(chain(&error).contains("kicked"), "{}", chain(&error));
        });
        bare.run(0).unwrap();
        bare.run(1000).unwrap();
    }
}

fn backend_has_bare_loops_or_says_why_not<H: Hypervisor>(h: &H) {
    let has = h.support(Capability::BareLoop).is_yes();
    for exit in EXITS {
        let made = plain(h).measure().bare_loop(exit).map(drop);
        assert_eq!(made.is_ok(), has, "{made:?}");
    }
}

kit::on_usermode! {
    backend_has_bare_loops_or_says_why_not;
}

kit::on_kvm! {
    backend_has_bare_loops_or_says_why_not;
    bare_loop_runs_again_after_a_kick;
}
