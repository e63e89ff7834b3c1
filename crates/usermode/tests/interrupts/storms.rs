//! Sends interrupts as fast as possible, together with kicks and exits of all kinds: all raised interrupts arrive, no
//! register changes, no ring is lost.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use vmbell::doorbell::{Datamatch, IoEventAddress, Sharing};
use vmbell_hypervisor::{Hypervisor, PatchMode, Vm, VmConfig, VmExit};

use testbed::taker::{
    Doing, PV_EOI, msi, rounds, spared, take, taken, while_running_and_seeing, with_interrupts,
};
use testbed::{HANG, HOLE, await_that, configured, count, event};

const TIME: Duration = Duration::from_millis(300);
/// How many interrupts make a storm, even on the slowest hosts.
const ENOUGH: u64 = 300;
/// How many kicks the monitor has to see.
const KICKS: u64 = 20;
/// Vectors of all priorities. At most one of each is pending, so none is coalesced.
const VECTORS: [u8; 14] = [
    0x20, 0x2f, 0x31, 0x45, 0x46, 0x58, 0x69, 0x7a, 0x8b, 0x9c, 0xad, 0xbe, 0xcf, 0xf0,
];

fn random(state: &mut u64) -> u64 {
    *state = state
        .wrapping_mul(0x5851_f42d_4c95_7f2d)
        .wrapping_add(0x1405_7b7e_f767_814f);
    *state >> 33
}

/// How the guest rings in the meantime.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bell {
    None,
    Port,
    Memory,
    Call,
}

impl Bell {
    fn place(self) -> Option<(IoEventAddress, Datamatch)> {
        Some(match self {
            Self::None => return None,
            Self::Port => (IoEventAddress::Pio(0x77), Datamatch::U32(None)),
            Self::Memory => (IoEventAddress::Mmio(HOLE), Datamatch::U32(None)),
            Self::Call => (IoEventAddress::Hypercall(7), Datamatch::U64(None)),
        })
    }
}

struct Storm {
    doing: Doing,
    bell: Bell,
    flags: u64,
    patch: PatchMode,
    kicks: bool,
}

impl Storm {
    fn address(&self) -> u64 {
        match self.doing {
            Doing::Writes => 0x77,
            Doing::Stores => HOLE,
            _ => 7,
        }
    }

    /// Raises vectors as fast as they arrive, until there are enough and `is_enough` holds; returns the number of each
    /// vector.
    fn raise(
        vm: &Arc<dyn Vm>,
        index: u32,
        seed: u64,
        is_enough: &(impl Fn() -> bool + Sync),
    ) -> [u64; VECTORS.len()] {
        let mut raised = [0; VECTORS.len()];
        let mut state = seed;
        let target = u8::try_from(index).unwrap();
        let begun = Instant::now();
        while begun.elapsed() < TIME || raised.iter().sum::<u64>() < ENOUGH || !is_enough() {
            if begun.elapsed() > HANG {
                panic!("hangs: waits for the last of {raised:?}, or for kicks");
            }
            for _ in 0..random(&mut state) % 20 {
                let place = usize::try_from(random(&mut state)).unwrap() % VECTORS.len();
                if taken(vm, index, VECTORS[place]) == raised[place] {
                    assert!(vm.signal_msi(msi(target, VECTORS[place])).unwrap());
                    raised[place] += 1;
                }
            }
            // A thread that spins here takes CPU time from the guest, on a host with few cores.
            let micros = random(&mut state) % 60;
            if micros > 5 {
                std::thread::sleep(Duration::from_micros(micros));
            }
        }
        await_that("the last interrupts", || {
            VECTORS
                .iter()
                .zip(&raised)
                .all(|(vector, raised)| taken(vm, index, *vector) == *raised)
        });
        raised
    }

    fn survive<H: Hypervisor>(&self, h: &H, vcpus: u32) {
        let what = format!(
            "{:?}, {:?}, {:?}, {vcpus} vcpus",
            self.doing, self.bell, self.patch
        );
        let config = VmConfig {
            patch: self.patch,
            ..with_interrupts(vcpus)
        };
        let vm = configured(h, config);
        let event = event();
        let _doorbell = self.bell.place().map(|(place, datamatch)| {
            vm.register_ioevent(&event, place, datamatch, Sharing::Exclusive)
                .unwrap()
        });
        let runners: Vec<_> = (0..vcpus)
            .map(|index| take(&vm, index, self.doing, self.address(), self.flags))
            .collect();
        let kicks: Vec<_> = runners.iter().map(|vcpu| vcpu.kick_handle()).collect();
        let (calm, kicked) = (
            AtomicBool::new(!self.kicks),
            std::sync::atomic::AtomicU64::new(0),
        );
        let is_enough = || !self.kicks || kicked.load(Relaxed) > KICKS;
        let see = |exit: &VmExit| {
            if matches!(exit, VmExit::Kicked) {
                kicked.fetch_add(1, Relaxed);
            }
        };
        let mut raised = vec![[0; VECTORS.len()]; vcpus as usize];
        while_running_and_seeing(&vm, runners, &see, || {
            std::thread::scope(|scope| {
                for kick in &kicks {
                    let calm = &calm;
                    scope.spawn(move || {
                        let mut state = 3;
                        while !calm.load(Relaxed) {
                            kick.kick();
                            // A kick before every entry would keep the guest from executing anything.
                            let micros = random(&mut state) % 400;
                            std::thread::sleep(Duration::from_micros(micros));
                        }
                    });
                }
                let (vm, is_enough) = (&vm, &is_enough);
                let raise = |index| Self::raise(vm, index, u64::from(index) + 7, is_enough);
                let threads: Vec<_> = (0..vcpus)
                    .map(|index| scope.spawn(move || raise(index)))
                    .collect();
                let results: Vec<_> = threads
                    .into_iter()
                    .map(std::thread::ScopedJoinHandle::join)
                    .collect();
                calm.store(true, Relaxed);
                for (raised, result) in raised.iter_mut().zip(results) {
                    *raised = result.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
                }
            });
        });
        for (index, raised) in (0..vcpus).zip(&raised) {
            let delivered = VECTORS.map(|vector| taken(&vm, index, vector));
            assert_eq!(delivered, *raised, "{what}, vcpu {index}");
            let sum: u64 = raised.iter().sum();
            println!(
                "{what}, vcpu {index}: {sum} interrupts, {} spared an eoi, {} rounds, {} kicked exits",
                spared(&vm, index),
                rounds(&vm, index),
                kicked.load(Relaxed)
            );
        }
        if self.bell != Bell::None {
            let rings: u64 = (0..vcpus).map(|index| rounds(&vm, index)).sum();
            assert_eq!(count(&event), rings, "{what}");
        }
    }
}

fn with<H: Hypervisor>(h: &H, doing: Doing, bell: Bell, patch: PatchMode) {
    for (flags, kicks) in [(0, false), (PV_EOI, true)] {
        let storm = Storm {
            doing,
            bell,
            flags,
            patch,
            kicks,
        };
        storm.survive(h, 1);
    }
}

fn a_spinning_guest_survives<H: Hypervisor>(h: &H) {
    with(h, Doing::Spins, Bell::None, PatchMode::Off);
}

fn a_halting_guest_survives<H: Hypervisor>(h: &H) {
    with(h, Doing::Halts, Bell::None, PatchMode::Off);
}

fn a_guest_that_masks_survives<H: Hypervisor>(h: &H) {
    with(h, Doing::Masks, Bell::None, PatchMode::Off);
    with(h, Doing::Masks, Bell::None, PatchMode::Int3);
}

fn light_exits_survive<H: Hypervisor>(h: &H) {
    with(h, Doing::Writes, Bell::Port, PatchMode::Off);
    with(h, Doing::Stores, Bell::Memory, PatchMode::Off);
    with(h, Doing::Writes, Bell::Port, PatchMode::Int3);
}

fn direct_rings_survive<H: Hypervisor>(h: &H) {
    with(h, Doing::Calls, Bell::Call, PatchMode::Off);
    with(h, Doing::Writes, Bell::Port, PatchMode::Jmp);
}

fn heavy_exits_survive<H: Hypervisor>(h: &H) {
    with(h, Doing::Writes, Bell::None, PatchMode::Off);
    with(h, Doing::Stores, Bell::None, PatchMode::Off);
    with(h, Doing::Calls, Bell::None, PatchMode::Off);
}

fn two_vcpus_survive<H: Hypervisor>(h: &H) {
    for (doing, bell) in [
        (Doing::Spins, Bell::None),
        (Doing::Halts, Bell::None),
        (Doing::Calls, Bell::Call),
        (Doing::Masks, Bell::None),
    ] {
        let storm = Storm {
            doing,
            bell,
            flags: PV_EOI,
            patch: PatchMode::Off,
            kicks: true,
        };
        storm.survive(h, 2);
    }
}

// This does not run on KVM in the lab: in one boot of three, the emulated CPUs had stopped such a guest before its end.
testbed::on_usermode! {
    a_spinning_guest_survives;
    a_halting_guest_survives;
    a_guest_that_masks_survives;
    light_exits_survive;
    direct_rings_survive;
    heavy_exits_survive;
    two_vcpus_survive;
}
