//! A disk whose back end in another process does not answer, answers late or answers nonsense: neither the vCPU that
//! writes the register nor the drop of the device waits without a limit.

use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use super::back_end::*;
use super::*;
use crate::filled::{FULL, make_blocking};
use crate::virtio::vhost::{Gone, VhostUserBlk, VhostUserError};
use kit::wait::{HANG, await_that, growing};
use vmbell_hypervisor::shared_memory;

const LAYOUT: SplitLayout = SplitLayout::contiguous(0, 8);

/// The requests when the device is plugged in.
const AT_CONNECTION: [Request; 6] = [
    (SET_OWNER, 1),
    (GET_FEATURES, 1),
    (GET_PROTOCOL_FEATURES, 1),
    (SET_PROTOCOL_FEATURES, 1),
    (SET_FEATURES, 1),
    (GET_CONFIG, 1),
];
/// The requests when the driver is ready.
const AT_START: [Request; 9] = [
    (SET_FEATURES, 2),
    (SET_MEM_TABLE, 1),
    (SET_VRING_NUM, 1),
    (SET_VRING_BASE, 1),
    (SET_VRING_ADDR, 1),
    (SET_VRING_KICK, 1),
    (SET_VRING_CALL, 1),
    (SET_VRING_ERR, 1),
    (SET_VRING_ENABLE, 1),
];
/// The requests when the driver resets the device.
const AT_STOP: [Request; 2] = [(SET_VRING_ENABLE, 2), (GET_VRING_BASE, 1)];

/// A request that never comes.
const NEVER: Request = (0, 1);

fn memory() -> GuestMemoryMmap {
    shared_memory(GuestAddress(0), RAM as u64).unwrap()
}

fn connect(
    memory: &GuestMemoryMmap,
    back_end: &BackEnd,
    patience: Duration,
    gone: Sender<Gone>,
) -> Result<VhostUserBlk, VhostUserError> {
    // The receiver may already be dropped.
    let on_gone = Box::new(move |why| {
        let _ = gone.send(why);
    });
    VhostUserBlk::connect_within(patience, memory, &back_end.path(), on_gone)
}

/// A device whose driver has set everything up except for DRIVER_OK.
fn plugged(memory: GuestMemoryMmap, disk: VhostUserBlk) -> Device {
    let device = VirtioDevice::with_worker(disk, VirtioConfig::default());
    let backlog = Backlog::default();
    let transport = VirtioMmio::new(device, &memory, Interrupt::none(), backlog.clone());
    let device = Device {
        memory,
        transport: transport.unwrap(),
        backlog,
    };
    device.negotiate(0);
    assert!(device.set_up(0, 8, &LAYOUT));
    device
}

/// Waits until the device needs a reset.
fn await_needs_reset(device: &Device) {
    await_that("the driver is notified", || {
        device.status() & NEEDS_RESET != 0
    });
}

/// The whole text of an error.
fn text(error: &dyn std::error::Error) -> String {
    let sources = std::iter::successors(Some(error), |error| error.source());
    let texts: Vec<_> = sources.map(ToString::to_string).collect();
    texts.join(": ")
}

/// How long a device first waits for a back end. On a busy host, everything before the misdeed may take longer.
const FIRST_PATIENCE: Duration = Duration::from_secs(2);

/// Runs `check` for every misdeed at each of these requests, all in parallel, and waits for all of them. A check that
/// fails is repeated with a device that waits longer.
fn at_each(requests: &[Request], check: fn(BackEnd, Misdeed, Duration)) {
    let (ended, wait) = channel();
    let mut running = Vec::new();
    for request in requests {
        for misdeed in Misdeed::ALL {
            let (ended, case) = (ended.clone(), (*request, misdeed));
            running.push(case);
            std::thread::spawn(move || {
                let is_good = growing(FIRST_PATIENCE).take(5).any(|patience| {
                    let run = || check(BackEnd::start(case.0, case.1), misdeed, patience);
                    std::panic::catch_unwind(run).is_ok()
                });
                ended.send((case, is_good)).unwrap();
            });
        }
    }
    let mut failed = Vec::new();
    while !running.is_empty() {
        let Ok((case, is_good)) = wait.recv_timeout(HANG) else {
            panic!("these hang: {running:?}")
        };
        running.retain(|other| *other != case);
        failed.extend((!is_good).then_some(case));
    }
    assert!(failed.is_empty(), "{failed:?}");
}

#[test]
fn back_end_that_misbehaves_at_the_connection_is_an_error() {
    at_each(&AT_CONNECTION, |back_end, misdeed, patience| {
        let (gone, _) = channel();
        let error = connect(&memory(), &back_end, patience, gone).unwrap_err();
        let text = text(&error);
        let is_slow = matches!(error, VhostUserError::Unanswered { .. });
        match misdeed {
            Misdeed::HangsUp => assert!(!is_slow, "{text}"),
            // The answer may be shorter than expected; then the rest is waited for.
            Misdeed::Lies | Misdeed::Fails => {}
            _ => assert!(is_slow, "{misdeed:?}: {text}"),
        }
        assert!(text.contains(back_end.path().to_str().unwrap()), "{text}");
        back_end.join();
    });
}

#[test]
fn back_end_that_misbehaves_at_the_start_costs_the_driver_a_reset() {
    at_each(&AT_START, |back_end, misdeed, patience| {
        let (gone, why) = channel();
        let memory = memory();
        let disk = connect(&memory, &back_end, patience, gone).unwrap();
        let device = plugged(memory, disk);
        device.go_live();
        await_needs_reset(&device);
        match misdeed {
            Misdeed::Lies | Misdeed::Fails => {}
            Misdeed::HangsUp => assert_eq!(why.recv_timeout(HANG).unwrap(), Gone::HungUp),
            _ => assert_eq!(why.recv_timeout(HANG).unwrap(), Gone::Unanswered),
        }
        // A second start fails at once, or is refused again.
        device.negotiate(0);
        assert!(device.set_up(0, 8, &LAYOUT));
        device.go_live();
        await_needs_reset(&device);
        let refusal = device.refusal();
        let is_of_worker = matches!(refusal, Refusal::Worker { .. } | Refusal::WorkerGone);
        assert!(is_of_worker, "{misdeed:?}: {}", text(&refusal));
        drop(device);
        back_end.join();
    });
}

#[test]
fn reset_of_a_device_whose_back_end_misbehaves_returns() {
    at_each(&AT_STOP, |back_end, misdeed, patience| {
        let (gone, _) = channel();
        let memory = memory();
        let disk = connect(&memory, &back_end, patience, gone).unwrap();
        let device = plugged(memory, disk);
        device.go_live();
        assert_eq!(device.status() & NEEDS_RESET, 0, "{misdeed:?}");
        assert!(device.transport.take_refusal().is_none());
        device.write(register::STATUS, 0);
        let refusal = device.transport.take_refusal();
        match refusal {
            Some(Refusal::Worker { .. } | Refusal::WorkerGone) => {}
            // The returned position of the ring is not used, so any value will do.
            None if misdeed == Misdeed::Fails => {}
            refusal => panic!("{misdeed:?}: {refusal:?}"),
        }
        drop(device);
        back_end.join();
    });
}

#[test]
fn device_with_an_honest_back_end_starts_and_stops_again_and_again() {
    let (back_end, patience) = (BackEnd::start(NEVER, Misdeed::Mute), HANG);
    let (gone, why) = channel();
    let memory = memory();
    let disk = connect(&memory, &back_end, patience, gone).unwrap();
    let device = plugged(memory, disk);
    for _ in 0..20 {
        device.negotiate(0);
        assert!(device.set_up(0, 8, &LAYOUT));
        device.go_live();
        assert_eq!(device.status() & NEEDS_RESET, 0);
    }
    assert!(device.transport.take_refusal().is_none());
    drop(device);
    back_end.join();
    assert!(why.recv().is_err(), "the back end was not reported as gone");
}

#[test]
fn notification_of_a_queue_whose_kick_the_back_end_has_filled_returns() {
    let (back_end, patience) = (BackEnd::start(NEVER, Misdeed::Mute), HANG);
    let (gone, _) = channel();
    let memory = memory();
    let disk = connect(&memory, &back_end, patience, gone).unwrap();
    let device = plugged(memory, disk);
    device.go_live();
    // The back end has the same eventfd, with the same flags and the same count.
    let kick = device.transport.kick(0).unwrap().try_clone().unwrap();
    make_blocking(&kick);
    kick.write(FULL).unwrap();
    let (ended, wait) = channel();
    std::thread::spawn(move || {
        device.write(register::QUEUE_NOTIFY, 0);
        ended.send(device).unwrap();
    });
    let device = wait.recv_timeout(HANG).expect("the vCPU waits");
    assert_eq!(kick.read().unwrap(), u64::MAX);
    drop(device);
    back_end.join();
}

#[test]
fn listener_that_accepts_nothing_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    let listener = UnixListener::bind(&path).unwrap();
    // Without a backlog, one connection waits to be accepted, and then the caller of the next connection waits.
    rustix::net::listen(&listener, 0).unwrap();
    let _first = UnixStream::connect(&path).unwrap();
    let patience = Duration::from_secs(1);
    let error =
        VhostUserBlk::connect_within(patience, &memory(), &path, Box::new(|_| {})).unwrap_err();
    assert!(text(&error).contains("accepts no connection"), "{error}");
}
