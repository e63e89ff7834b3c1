//! Removal while guests ring: each ring arrives once, as a count or as an exit.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::{Duration, Instant};

use testbed::done as is_done;
use vm_memory::GuestAddress;
use vmbell::doorbell::{Datamatch, IoEventAddress, Sharing};
use vmbell_guest::{CODE, PARAMETERS, Parameters, Program, programs};
use vmbell_hypervisor::{Hypervisor, IoEvents, PatchMode, Vcpu, VmConfig, VmEntry, VmExit};

use testbed::{AREA, HANG, HOLE, begin_at, bells, configured, count, event, has_doorbells_at};
use vm_memory::Bytes;

struct Way {
    program: Program,
    place: IoEventAddress,
    datamatch: Datamatch,
}

fn ways() -> [Way; 3] {
    let four = Datamatch::U32(None);
    [
        Way {
            program: bells::program(),
            place: bells::place(0x500),
            datamatch: four,
        },
        Way {
            program: programs::mmio(),
            place: IoEventAddress::Mmio(HOLE),
            datamatch: four,
        },
        Way {
            program: programs::hypercall(),
            place: IoEventAddress::Hypercall(7),
            datamatch: Datamatch::U64(None),
        },
    ]
}

/// The number of removals that race with rings.
const REMOVALS: u64 = 100;

/// Rings round after round until `done`; returns the rounds, and adds the number of writes that exited to `exits`.
fn ring(vcpu: &mut Box<dyn Vcpu>, done: &AtomicBool, exits: &AtomicU64) -> u64 {
    let mut rounds = 0;
    loop {
        match vcpu.run(VmEntry::Resume).unwrap() {
            exit if is_done(&exit).is_some() => {
                rounds += 1;
                if done.load(Relaxed) {
                    return rounds;
                }
            }
            VmExit::PioOut { .. } | VmExit::MmioWrite { .. } | VmExit::Hypercall { .. } => {
                exits.fetch_add(1, Relaxed);
            }
            other => panic!("{other:x?}"),
        }
    }
}

/// Registers and removes or drops over and over, until some rings have hit the doorbell and some have missed it;
/// returns the number of hits.
fn change(vm: &dyn IoEvents, way: &Way, done: &AtomicBool, exits: &AtomicU64) -> u64 {
    let event = event();
    let mut counted = 0;
    let begun = Instant::now();
    for round in 0_u64.. {
        let met_and_missed = counted > 0 && exits.load(Relaxed) > 0;
        if (round >= REMOVALS && met_and_missed) || begun.elapsed() > HANG {
            break;
        }
        let mut doorbell = vm
            .register_ioevent(&event, way.place, way.datamatch, Sharing::Exclusive)
            .unwrap();
        if round % 2 == 0 {
            std::thread::sleep(Duration::from_micros(50));
        }
        if round % 3 == 0 {
            drop(doorbell);
        } else {
            doorbell.remove().unwrap();
        }
        counted += count(&event);
        if round % 8 == 0 {
            std::thread::sleep(Duration::from_micros(500));
            assert_eq!(count(&event), 0, "rung after the removal had returned");
        }
        if done.load(Relaxed) {
            break;
        }
    }
    counted
}

/// Sets a flag when it is dropped, even by a panic.
struct SetAtEnd<'f>(&'f AtomicBool);

impl Drop for SetAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

fn race<H: Hypervisor>(h: &H, way: &Way, patch: PatchMode, vcpus: u32) {
    const RINGS: u64 = 1_000;
    let vm = configured(
        h,
        VmConfig {
            patch,
            vcpus,
            ..VmConfig::default()
        },
    );
    vm.memory().write_slice(way.program.code, CODE).unwrap();
    let address = way.place.value();
    let mut runners = Vec::new();
    for index in 0..vcpus {
        let page = if index == 0 {
            PARAMETERS
        } else {
            GuestAddress(AREA + 0x1000 * u64::from(index))
        };
        Parameters {
            count: RINGS,
            address,
            value: 1,
            pause: 0,
        }
        .write(vm.memory(), page)
        .unwrap();
        runners.push(begin_at(&vm, index, page));
    }
    let (done, exits) = (AtomicBool::new(false), AtomicU64::new(0));
    let what = format!("{}, {patch:?}, {vcpus} vcpus", way.program.name);
    std::thread::scope(|scope| {
        let changer = scope.spawn(|| {
            let _end = SetAtEnd(&done);
            change(&*vm, way, &done, &exits)
        });
        let threads: Vec<_> = runners
            .iter_mut()
            .map(|vcpu| {
                scope.spawn(|| {
                    let _end = SetAtEnd(&done);
                    ring(vcpu, &done, &exits)
                })
            })
            .collect();
        let mut rung = 0;
        for thread in threads {
            rung += RINGS * thread.join().unwrap();
        }
        let counted = changer.join().unwrap();
        let exited = exits.load(Relaxed);
        assert_eq!(
            counted + exited,
            rung,
            "{what}: {counted} counted, {exited} exited"
        );
        assert!(counted > 0, "{what}: no ring met the doorbell");
        assert!(exited > 0, "{what}: no ring missed the doorbell");
    });
}

fn no_trapped_ring_is_lost_in_a_removal<H: Hypervisor>(h: &H) {
    let [port, memory, _] = ways();
    race(h, &port, PatchMode::Off, 1);
    race(h, &memory, PatchMode::Off, 1);
}

fn no_patched_ring_is_lost_in_a_removal<H: Hypervisor>(h: &H) {
    let [port, memory, _] = ways();
    race(h, &port, PatchMode::Int3, 1);
    race(h, &port, PatchMode::Jmp, 1);
    race(h, &memory, PatchMode::Jmp, 1);
}

fn no_direct_ring_is_lost_in_a_removal<H: Hypervisor>(h: &H) {
    let [.., call] = ways();
    race(h, &call, PatchMode::Off, 1);
}

fn no_ring_of_two_vcpus_is_lost_in_a_removal<H: Hypervisor>(h: &H) {
    let [port, memory, call] = ways();
    race(h, &port, PatchMode::Off, 2);
    race(h, &port, PatchMode::Int3, 2);
    race(h, &memory, PatchMode::Off, 2);
    race(h, &memory, PatchMode::Jmp, 2);
    if has_doorbells_at(h, call.place) {
        race(h, &call, PatchMode::Off, 2);
    }
}

testbed::on_both! {
    no_trapped_ring_is_lost_in_a_removal;
    no_ring_of_two_vcpus_is_lost_in_a_removal;
}

/// Paths that only the usermode backend has.
mod engine {
    use super::{no_direct_ring_is_lost_in_a_removal, no_patched_ring_is_lost_in_a_removal};

    testbed::on_usermode! {
        no_patched_ring_is_lost_in_a_removal;
        no_direct_ring_is_lost_in_a_removal;
    }
}
