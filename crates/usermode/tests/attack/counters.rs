//! Guests that fill every eventfd that their sandbox has: doorbells (including a virtio queue's), resamplefds, and the
//! eventfds that halted vCPUs sleep on. All eventfds of devices block. Whatever the counts, calls of the monitor
//! return: acknowledgements, notifications, removals, kicks, and the end of a device.
//!
//! Other guests change the modes of their vCPUs, as if these halted all the time. An irqfd is then added to the vCPU
//! that it seems to have woken, which costs the monitor two descriptors for each vCPU, until the guest ends.

use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use stub::layout::{FD_BASE, RunPage, SHARED_BASE, SharedState, VcpuInterrupts};
use vm_memory::{Bytes, GuestAddress};
use vmbell::bus::{Backlog, BusDevice};
use vmbell::doorbell::Sharing;
use vmbell::irq::Gsi;
use vmbell_devices::virtio::mmio::{Interrupt, VirtioMmio, register};
use vmbell_devices::virtio::{Entropy, VirtioConfig, VirtioDevice};
use vmbell_hypervisor::{IrqTrigger, Irqchip, Vcpu, Vm, VmConfig};
use vmm_sys_util::eventfd::EventFd;

use crate::attack::bells::{NEARLY_FULL, PLACES, drain, remove, remove_irqfd};
use crate::attack::calls::{BACK, WRITE, call, gadgets};
use crate::attack::leaks::descriptors;
use crate::attack::random::Random;
use crate::attack::scatter;
use crate::attack::vcpus::{create, end, pause_until, run_until};
use crate::attack::watch::Watch;
use testbed::jumps::{base, landed, take};
use testbed::process::signal;
use testbed::taker::{self, Doing};
use testbed::{HOLE, event};

pub fn a_guest_may_fill_every_counter(watch: &'static Watch, random: &mut Random) {
    round(watch, random, false);
}

pub fn a_guest_may_change_how_it_is_notified(watch: &'static Watch, random: &mut Random) {
    round(watch, random, true);
}

/// More resamplefds on one pin than the stub signals (`vmbell_core::ioapic::PIN_RESAMPLEFDS`), so the monitor signals
/// them.
const RESAMPLERS: usize = 10;

/// The pin for a level-triggered interrupt ([`taker::PINS`]).
fn level() -> Gsi {
    Gsi::new(4).unwrap()
}

/// Makes an eventfd that blocks and is nearly full.
fn nearly_full() -> Arc<EventFd> {
    let event = Arc::new(EventFd::new(0).unwrap());
    event.write(NEARLY_FULL).unwrap();
    event
}

/// Starts a vCPU that adds all kinds of numbers to the eventfds of its sandbox, or fills the first of them again and
/// again. The device's thread reads the first one.
fn filler(vm: &Arc<dyn Vm>, random: &mut Random, gadget: u64) -> Box<dyn Vcpu> {
    let fills_one = random.once_in(2);
    let values = [1_u64, 7, 1 << 40, 1 << 63, u64::MAX - 1];
    let place = base(1) + 0x7000;
    let bytes = values.map(u64::to_le_bytes).concat();
    vm.memory()
        .write_slice(&bytes, GuestAddress(place))
        .unwrap();
    // A kick ends a call that a blocking eventfd holds up.
    let calls: Vec<_> = (0..40)
        .map(|_| {
            if fills_one {
                let full = place + 8 * (values.len() as u64 - 1);
                return call(gadget, 1, WRITE, [FD_BASE.into(), full, 8, 0]);
            }
            let descriptor = u64::from(FD_BASE) + random.below(24);
            let value = place + 8 * random.below(values.len() as u64);
            call(gadget, 1, WRITE, [descriptor, value, 8, 0])
        })
        .collect();
    take(vm, 1, &calls, BACK)
}

/// Starts a vCPU that writes over the modes of both vCPUs, which decide how they are notified.
fn flipper(vm: &Arc<dyn Vm>, random: &mut Random) -> Box<dyn Vcpu> {
    let run = std::mem::offset_of!(SharedState, runs);
    let interrupts = std::mem::offset_of!(RunPage, interrupts);
    let mode = std::mem::offset_of!(VcpuInterrupts, mode);
    let place = SHARED_BASE + (run + interrupts + mode) as u64;
    scatter::take(vm, 1, random, place, 8, &[])
}

fn round(watch: &'static Watch, random: &mut Random, flips: bool) {
    let gadget = random.pick(gadgets(watch));
    let config = VmConfig {
        irqchip: Irqchip::Full,
        vcpus: 2,
        ..crate::attack::vcpus::config(random, &[Irqchip::Full])
    };
    let config = VmConfig {
        patch: vmbell_hypervisor::PatchMode::Off,
        ..config
    };
    let (vm, sandbox) = create(watch, &config);
    let device = VirtioMmio::new(
        VirtioDevice::new(Entropy, 1, VirtioConfig::default()),
        vm.memory(),
        Interrupt::none(),
        Backlog::default(),
    );
    let device = device.unwrap();
    let kick = Arc::clone(device.kick(0).unwrap());
    let bells = [kick, nearly_full(), nearly_full()];
    let mut doorbells = Vec::from([0, 1, 2].map(|index| {
        let (place, datamatch) = PLACES[index];
        vm.register_ioevent(&bells[index], place, datamatch, Sharing::Exclusive)
            .unwrap()
    }));
    let many = random.once_in(2);
    let count = if many { RESAMPLERS } else { 3 };
    let resamplers: Vec<_> = (0..count)
        .map(|_| {
            let resample = nearly_full();
            let irqfd = vm.register_irqfd(&event(), level(), Some(&resample));
            (irqfd.unwrap(), resample)
        })
        .collect();
    let (doing, address) = random.pick(&[
        (Doing::Halts, 0),
        (Doing::Halts, 0),
        (Doing::Spins, 0),
        (Doing::Stores, HOLE),
        (Doing::Writes, 0x500),
    ]);
    let mut vcpus = vec![
        taker::take(&vm, 0, doing, address, taker::PINS),
        if flips {
            flipper(&vm, random)
        } else {
            filler(&vm, random, gadget)
        },
    ];
    let registered = descriptors();
    let over = Instant::now() + Duration::from_millis(40) + random.time(Duration::from_millis(150));
    let pauses = random.pick(&[Duration::from_micros(20), Duration::from_millis(2)]);
    let kicks: Vec<_> = vcpus.iter().map(|vcpu| vcpu.kick_handle()).collect();
    let (mut first, mut second) = (random.fork(), random.fork());
    let removed = random.once_in(2).then(|| random.pick(&[0, 1, 2]));
    std::thread::scope(|scope| {
        for vcpu in &mut vcpus {
            scope.spawn(|| run_until(watch, vcpu, over));
        }
        // Devices in this process and in another one raise interrupts, and seldom read their eventfds.
        scope.spawn(|| {
            while Instant::now() < over {
                let (irqfd, resample) = first.pick(&resamplers.iter().collect::<Vec<_>>());
                if first.once_in(2) {
                    watch.call("signal", || irqfd.signal());
                } else {
                    irqfd.event().write(1).unwrap();
                }
                if first.once_in(8) {
                    drain(resample);
                }
                pause_until(first.time(pauses), over);
            }
        });
        while Instant::now() + Duration::from_millis(20) < over {
            watch.call("kick", || second.pick(&kicks).kick());
            watch.call("notify", || {
                device.write(register::QUEUE_NOTIFY, &0_u32.to_le_bytes());
            });
            pause_until(second.time(Duration::from_millis(5)), over);
        }
        // The device ends while its guest runs on.
        watch.call("the end of a device", || drop(device));
        // A guest that stays inside the stub delays each removal by a second, so the other doorbells are removed only
        // after its end.
        if let Some(index) = removed {
            remove(watch, doorbells.swap_remove(index));
        }
        // A vCPU that sleeps in its own write answers no kick; the end of the sandbox frees its thread.
        if !flips {
            let _ = signal(sandbox, Signal::KILL);
        }
    });
    drop(kicks);
    // There are fewer if the sandbox has ended, because its pidfd is then closed.
    let more = descriptors().saturating_sub(registered);
    watch.note(format!("{more} descriptors more than at the start"));
    assert!(
        more <= 2 * vcpus.len(),
        "{more} more for {} vcpus",
        vcpus.len()
    );
    for (irqfd, _) in resamplers {
        remove_irqfd(watch, irqfd);
    }
    if !flips {
        watch.note(if landed(&vm, 1) > 100 {
            "more than 100 writes"
        } else {
            "fewer writes"
        });
    }
    end(watch, vm, vcpus, sandbox);
}
