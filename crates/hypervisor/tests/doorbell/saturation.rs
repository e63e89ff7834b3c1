//! Eventfds whose counter is at its limit.

use std::os::fd::AsRawFd;
use std::sync::Arc;

use testbed::{Deadline, done};
use vmbell::doorbell::{Datamatch, IoEventAddress, Sharing};
use vmbell_hypervisor::{Capability, Hypervisor, PatchMode, VmConfig, VmEntry, VmExit};
use vmm_sys_util::epoll::{ControlOperation, Epoll, EpollEvent, EventSet};
use vmm_sys_util::eventfd::EventFd;

use testbed::process::{sleeps_in_write, with_sandbox};
use testbed::script::{Op, Player};
use testbed::{HOLE, await_that, bells, count, event, has_doorbells_at, plain, step};

const FULL: u64 = u64::MAX - 1;

fn places() -> [(IoEventAddress, Datamatch, Op); 3] {
    [
        (
            bells::place(0x500),
            Datamatch::U32(None),
            Op::Out(4, 0x500, 1),
        ),
        (
            IoEventAddress::Mmio(HOLE),
            Datamatch::U32(None),
            Op::Store(4, HOLE, 1),
        ),
        (
            IoEventAddress::Hypercall(4),
            Datamatch::U64(None),
            Op::Call(4, 1),
        ),
    ]
}

fn reports_an_error(event: &EventFd) -> bool {
    let epoll = Epoll::new().unwrap();
    let interest = EpollEvent::new(EventSet::IN, 0);
    epoll
        .ctl(ControlOperation::Add, event.as_raw_fd(), interest)
        .unwrap();
    let mut ready = [EpollEvent::default()];
    assert_eq!(epoll.wait(0, &mut ready).unwrap(), 1);
    ready[0].event_set().contains(EventSet::ERROR)
}

fn a_full_counter_that_does_not_block_lets_the_guest_go_on<H: Hypervisor>(h: &H) {
    let vm = plain(h);
    let event = event();
    let mut player = Player::new(&vm);
    let possible = |(place, ..): &(IoEventAddress, _, _)| has_doorbells_at(h, *place);
    for (place, datamatch, ring) in places().into_iter().filter(possible) {
        let _doorbell = vm
            .register_ioevent(&event, place, datamatch, Sharing::Exclusive)
            .unwrap();
        event.write(FULL).unwrap();
        assert_eq!(player.play(&[ring; 2]), []);
        // KVM adds one more and reports EPOLLERR.
        let silent = h.support(Capability::SilentSaturation).is_yes();
        assert_eq!(reports_an_error(&event), silent);
        let expected = if silent { u64::MAX } else { FULL };
        assert_eq!(count(&event), expected);
        assert_eq!(player.play(&[ring; 2]), []);
        assert_eq!(count(&event), 2);
    }
}

fn a_kick_frees_a_guest_that_a_full_counter_holds<H: Hypervisor>(h: &H) {
    for patch in [PatchMode::Off, PatchMode::Int3, PatchMode::Jmp] {
        let config = VmConfig {
            patch,
            ..VmConfig::default()
        };
        let (vm, sandbox) = with_sandbox(h, &config);
        let mut player = Player::new(&vm);
        for (place, datamatch, ring) in places() {
            let event = Arc::new(EventFd::new(0).unwrap());
            let _doorbell = vm
                .register_ioevent(&event, place, datamatch, Sharing::Exclusive)
                .unwrap();
            assert_eq!(
                player.play(&[ring; 40]),
                [],
                "{patch:?}: until the site is patched"
            );
            assert_eq!(event.read().unwrap(), 40);
            event.write(FULL).unwrap();
            player.write(&[ring]);
            let is_held = move || sleeps_in_write(sandbox);
            let kick = Deadline::when(is_held, player.vcpu.kick_handle()).unwrap();
            assert_eq!(
                player.vcpu.run(VmEntry::Resume).unwrap(),
                VmExit::Kicked,
                "{patch:?}, {place}"
            );
            drop(kick);
            while let Ok(VmExit::Kicked) = step(&mut player.vcpu, VmEntry::Resume) {}
            assert_eq!(event.read().unwrap(), FULL);
            assert_eq!(player.play(&[ring; 3]), []);
            assert_eq!(event.read().unwrap(), 3);
        }
    }
}

fn removal_does_not_wait_for_a_guest_that_a_full_counter_holds<H: Hypervisor>(h: &H) {
    let (vm, sandbox) = with_sandbox(h, &VmConfig::default());
    for (place, datamatch, ring) in places().into_iter().take(1) {
        let (held, other) = (Arc::new(EventFd::new(0).unwrap()), event());
        let mut holding = vm
            .register_ioevent(&held, place, datamatch, Sharing::Exclusive)
            .unwrap();
        let second = vm
            .register_ioevent(&other, bells::place(0x900), datamatch, Sharing::Exclusive)
            .unwrap();
        held.write(FULL).unwrap();
        let mut player = Player::new(&vm);
        player.write(&[ring, Op::Out(4, 0x900, 1), Op::Out(4, 0x900, 1)]);
        let kick = player.vcpu.kick_handle();
        std::thread::scope(|scope| {
            let guest = scope.spawn(|| {
                let mut exits = Vec::new();
                loop {
                    match step(&mut player.vcpu, VmEntry::Resume).unwrap() {
                        exit if done(&exit).is_some() => return exits,
                        VmExit::Kicked => {}
                        exit => exits.push(exit),
                    }
                }
            });
            await_that("the guest to be held", || sleeps_in_write(sandbox));
            drop(second);
            await_that("the guest to be held still", || sleeps_in_write(sandbox));
            holding.remove().unwrap();
            kick.kick();
            assert_eq!(
                guest.join().unwrap().len(),
                2,
                "both rings of what was removed leave the guest"
            );
        });
        // The removal may have freed the guest before the kick came. The kick then waits for the next run.
        kick.kick();
        assert_eq!(
            step(&mut player.vcpu, VmEntry::Resume).unwrap(),
            VmExit::Kicked
        );
        assert_eq!((held.read().unwrap(), count(&other)), (FULL, 0));
        // Doorbells can still be registered and removed.
        let _again = vm
            .register_ioevent(&other, place, datamatch, Sharing::Exclusive)
            .unwrap();
        assert_eq!(player.play(&[ring]), []);
        assert_eq!(count(&other), 1);
    }
}

testbed::on_both! {
    a_full_counter_that_does_not_block_lets_the_guest_go_on;
}

/// A ring can block a guest only if it is a write to the eventfd.
mod engine {
    use super::{
        a_kick_frees_a_guest_that_a_full_counter_holds,
        removal_does_not_wait_for_a_guest_that_a_full_counter_holds,
    };

    testbed::on_usermode! {
        a_kick_frees_a_guest_that_a_full_counter_holds;
        removal_does_not_wait_for_a_guest_that_a_full_counter_holds;
    }
}
