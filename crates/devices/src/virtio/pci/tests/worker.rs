//! A device whose queues a worker serves.

use super::*;
#[cfg(not(miri))]
use crate::filled::{FULL, make_blocking};
use crate::virtio::worker_double::{Double, VERSION_1};
#[cfg(not(miri))]
use kit::wait::HANG;
use kit::wait::await_that;
use vmbell::eventfd::EventId;

const CONFIG: u64 = BASE + 0x2000;

fn layouts() -> impl Iterator<Item = (u16, SplitLayout)> {
    (0..3).map(|queue: u16| (queue, SplitLayout::contiguous(0x1000 * u64::from(queue), 8)))
}

/// A machine whose driver has set everything up except for DRIVER_OK. Each queue has its own vector.
fn pc(config: VirtioConfig) -> (Pc, Double) {
    let double = Double::default();
    let worker = double.clone();
    let mut pc =
        Pc::of(|guest| VirtioPci::new(VirtioDevice::with_worker(worker, config), guest).unwrap());
    pc.negotiate();
    pc.set_msix(true, false);
    for (queue, layout) in layouts() {
        assert!(pc.set_up(queue, &layout, queue));
    }
    (pc, double)
}

#[test]
fn worker_gets_what_the_driver_has_set_up_and_loses_it_at_a_reset() {
    let (mut pc, worker) = pc(VirtioConfig::default());
    assert_eq!(pc.load(CONFIG, 4), u64::from(u32::from_le_bytes(*b"conf")));
    pc.set_vector(0, false);
    assert!(worker.told().running.is_empty(), "before DRIVER_OK");
    pc.go_live();
    {
        let told = worker.told();
        assert_eq!(told.features, VERSION_1, "what it knows, and was accepted");
        assert_eq!(told.memory, RAM as u64);
        assert_eq!(
            (&told.sizes[..], &told.running[..]),
            (&[8, 8][..], &[0, 1][..])
        );
    }
    pc.set(STATUS, 1, 0);
    assert!(worker.told().running.is_empty());
}

#[test]
fn doorbell_of_a_queue_is_what_wakes_the_worker() {
    let (mut pc, worker) = pc(VirtioConfig::default());
    pc.go_live();
    for (queue, rings) in [(0, [1, 0]), (1, [0, 1])] {
        assert!(pc.store(NOTIFY + 4 * queue, 2, queue), "it is a doorbell");
        let told = worker.told();
        let counts = [0, 1].map(|queue| told.kicks[queue].read().unwrap_or(0));
        assert_eq!(counts, rings);
    }
}

#[test]
fn notification_by_exit_wakes_the_worker_too() {
    let (mut pc, worker) = pc(VirtioConfig {
        notify: Notify::Exit,
        ..VirtioConfig::default()
    });
    pc.go_live();
    assert!(!pc.store(NOTIFY + 4, 2, 1));
    assert_eq!(worker.told().kicks[1].read().unwrap(), 1);
}

#[test]
fn call_of_a_queue_is_the_irqfd_of_its_vector() {
    let (mut pc, worker) = pc(VirtioConfig::default());
    for vector in 0..2 {
        pc.set_vector(vector, false);
    }
    pc.go_live();
    let registered = pc.wires.registered();
    let told = worker.told();
    let calls: Vec<_> = told
        .calls
        .iter()
        .map(|call| EventId::of(call).unwrap())
        .collect();
    assert_eq!(registered, calls);
}

#[test]
fn call_of_a_masked_vector_waits_in_its_count() {
    let (mut pc, worker) = pc(VirtioConfig::default());
    pc.set_vector(0, false);
    pc.go_live();
    assert_eq!(pc.wires.counts().0, 1);
    pc.set_vector(0, true);
    assert_eq!(pc.wires.counts().0, 0, "the irqfd is taken out");
    for looks in [true, false] {
        worker.told().calls[0].write(1).unwrap();
        if looks {
            assert_eq!(pc.load(PENDING, 4), 1);
        }
        assert!(pc.wires.take().is_empty());
        pc.set_vector(0, false);
        assert_eq!(pc.wires.take(), [message(0)], "looks: {looks}");
        assert_eq!(pc.load(PENDING, 4), 0);
        pc.set_vector(0, true);
    }
}

#[test]
#[cfg(not(miri))]
fn eventfd_of_a_masked_vector_that_the_worker_makes_blocking_and_fills_holds_nobody() {
    let (mut pc, worker) = pc(VirtioConfig::default());
    // The configuration's interrupts have the same vector.
    pc.set(CONFIG_VECTOR, 2, 0);
    pc.set_vector(0, false);
    pc.go_live();
    pc.set_vector(0, true);
    let call = worker.told().calls[0].try_clone().unwrap();
    make_blocking(&call);
    let (ended, wait) = std::sync::mpsc::channel();
    let errors = worker.told().errors.as_ref().unwrap().try_clone().unwrap();
    std::thread::spawn(move || {
        assert_eq!(pc.load(PENDING, 4), 0);
        call.write(FULL).unwrap();
        pc.set_vector(0, false);
        assert_eq!(pc.wires.take(), [message(0)]);
        call.write(FULL).unwrap();
        errors.write(1).unwrap();
        await_that("the message", || pc.wires.take() == [message(0)]);
        assert_eq!(pc.wires.lock().calls, 1, "not through the eventfd");
        ended.send(()).unwrap();
    });
    let result = wait.recv_timeout(HANG);
    result.expect("a look at the pending bits, or an interrupt, waits");
}

#[test]
fn call_without_an_irqfd_is_handed_on() {
    let (mut pc, worker) = pc(VirtioConfig {
        raise: Raise::Call,
        ..VirtioConfig::default()
    });
    pc.set_vector(1, false);
    pc.go_live();
    let call = worker.told().calls[1].try_clone().unwrap();
    for sent in 1..=3 {
        call.write(1).unwrap();
        await_that("the message", || pc.wires.lock().calls >= sent);
        assert_eq!(pc.wires.take(), [message(1)]);
    }
}

#[test]
fn driver_is_told_of_a_worker_that_refuses_and_of_one_that_finds_a_queue_broken() {
    for refuses in [true, false] {
        let (mut pc, worker) = pc(VirtioConfig::default());
        worker.told().refuses = refuses;
        pc.set(CONFIG_VECTOR, 2, 3);
        pc.set_vector(3, false);
        pc.set(STATUS, 1, DRIVER_OK);
        if !refuses {
            assert_eq!(pc.get(STATUS, 1), DRIVER_OK);
            worker.told().errors.as_ref().unwrap().write(1).unwrap();
        }
        await_that("the interrupt", || pc.wires.take() == [message(3)]);
        assert_eq!(pc.get(STATUS, 1), DRIVER_OK | NEEDS_RESET);
        pc.set(STATUS, 1, 0);
        assert_eq!(pc.get(STATUS, 1), 0);
        assert!(worker.told().running.is_empty());
    }
}

#[test]
fn worker_is_not_given_what_it_cannot_do() {
    let can = VirtioConfig::default();
    for (config, text) in [
        (
            VirtioConfig {
                packed: true,
                ..can
            },
            "a worker has no packed rings",
        ),
        (
            VirtioConfig {
                notification_data: true,
                ..can
            },
            "a worker takes no notification data",
        ),
        (
            VirtioConfig {
                notify: Notify::Poll,
                ..can
            },
            "a worker does not poll",
        ),
    ] {
        Pc::of(|guest| {
            let refused = VirtioPci::new(
                VirtioDevice::with_worker(Double::default(), config),
                guest.clone(),
            );
            assert_eq!(refused.unwrap_err().to_string(), text);
            VirtioPci::new(VirtioDevice::with_worker(Double::default(), can), guest).unwrap()
        });
    }
}
