//! A process with few descriptors: a separate process, because the limit applies to the whole process.
#![allow(unsafe_code)]

use vmbell::doorbell::{Datamatch, IoEventAddress, Sharing};
use vmbell_hypervisor::Hypervisor;

use testbed::process::alone;
use testbed::script::{Op, Player};
use testbed::{HOLE, chain, count, event, plain};

const LIMIT: u64 = 64;

fn the_descriptor_limit_is_an_error_that_names_it<H: Hypervisor>(h: &H) {
    alone(|| {
        let limit = libc::rlimit {
            rlim_cur: LIMIT,
            rlim_max: LIMIT,
        };
        // SAFETY: `limit` outlives the call.
        let result = unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) };
        assert_eq!(result, 0);
        let vm = plain(h);
        let event = event();
        let place = |index: u64| IoEventAddress::Mmio(HOLE + 4 * index);
        let register = |index| {
            vm.register_ioevent(
                &event,
                place(index),
                Datamatch::U32(None),
                Sharing::Exclusive,
            )
        };
        let mut doorbells = Vec::new();
        let error = loop {
            let registered = doorbells.len() as u64;
            assert!(
                registered < LIMIT,
                "{registered} doorbells with {LIMIT} descriptors"
            );
            match register(registered) {
                Ok(doorbell) => doorbells.push(doorbell),
                Err(error) => break chain(&error),
            }
        };
        let registered = doorbells.len() as u64;
        assert!(registered > LIMIT / 2, "{registered}: {error}");
        assert!(
            error.contains("the limit is 64") && error.contains("ulimit -n"),
            "{error}"
        );
        // All registered doorbells ring, the failed one does not, and a descriptor that becomes free can be used again.
        let mut player = Player::new(&vm);
        let ops: Vec<Op> = (0..=registered)
            .map(|index| Op::Store(4, HOLE + 4 * index, 1))
            .collect();
        assert_eq!(player.play(&ops).len(), 1);
        assert_eq!(count(&event), registered);
        drop(doorbells.swap_remove(3));
        doorbells.push(register(registered).unwrap());
        assert_eq!(player.play(&ops).len(), 1);
        assert_eq!(count(&event), registered);
    });
}

testbed::on_usermode! {
    the_descriptor_limit_is_an_error_that_names_it;
}
