//! Sends kicks as fast as possible to a guest that rings all the time: no ring is lost or counted twice, and no
//! register changes.

use std::fs::File;
use std::mem::offset_of;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::{Duration, Instant};

use stub::layout::{SHARED_BASE, SharedState};
use vm_memory::{Bytes, GuestAddress};
use vmbell::doorbell::{Datamatch, IoEventAddress, Sharing};
use vmbell::sync::Mutex;
use vmbell_guest::{CODE, DONE_PORT, Parameters, Results};
use vmbell_hypervisor::{
    Doorbell, Hypervisor, Irqchip, Kick, PatchMode, SpinPolicy, Vcpu, Vm, VmConfig, VmEntry, VmExit,
};

use testbed::process::with_sandbox;
use testbed::{AREA, HOLE, await_that, begin_at, count, event, programs};

/// What the guest does.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Way {
    Out = 0,
    Store = 1,
    Call = 2,
    Strings = 3,
}

impl Way {
    fn place(self) -> (IoEventAddress, Datamatch) {
        match self {
            Self::Out | Self::Strings => (IoEventAddress::Pio(0x500), Datamatch::U32(None)),
            Self::Store => (IoEventAddress::Mmio(HOLE), Datamatch::U32(None)),
            Self::Call => (IoEventAddress::Hypercall(7), Datamatch::U64(None)),
        }
    }
}

/// A simple generator: pauses need no good randomness.
fn random(state: &mut u64) -> u64 {
    *state = state
        .wrapping_mul(0x5851_f42d_4c95_7f2d)
        .wrapping_add(0x1405_7b7e_f767_814f);
    *state >> 33
}

/// Kicks until told to end: in bursts without a pause, and after pauses of all lengths.
fn storm(kick: &dyn Kick, seed: u64, end: &AtomicBool) -> u64 {
    let (mut state, mut kicks) = (seed, 0);
    while !end.load(Relaxed) {
        let burst = random(&mut state) % 64;
        for _ in 0..burst {
            kick.kick();
        }
        kicks += burst;
        let pause = random(&mut state) % 40;
        let start = Instant::now();
        while start.elapsed() < Duration::from_micros(pause) {
            std::hint::spin_loop();
        }
        // There may be two cores for all threads: the kicked vCPU must get its turn.
        std::thread::yield_now();
    }
    kicks
}

/// Sets a flag when it is dropped, even by a panic.
struct SetAtEnd<'f>(&'f AtomicBool);

impl Drop for SetAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

/// Returns how many lookups of the stub have begun and ended, from the sections that it shares with the monitor.
fn lookups(sandbox: i32) -> (u64, u64) {
    let memory = File::open(format!("/proc/{sandbox}/mem")).unwrap();
    let kinds = [
        offset_of!(SharedState, direct_sections),
        offset_of!(SharedState, trap_sections),
    ];
    let (mut begun, mut ended) = (0, 0);
    for sections in kinds {
        // The counts of entered and left sections, each by phase.
        let mut counts = [0; 32];
        let place = SHARED_BASE + sections as u64;
        memory.read_exact_at(&mut counts, place).unwrap();
        let sum = |counts: &[u8]| -> u64 {
            let words = counts.chunks_exact(8);
            words
                .map(|word| u64::from_le_bytes(word.try_into().unwrap()))
                .sum()
        };
        begun += sum(&counts[..16]);
        ended += sum(&counts[16..]);
    }
    (begun, ended)
}

/// Runs a guest that is kicked until it is done. If it has only one vCPU, moves its doorbell at some of the stops: a
/// vCPU that is outside the guest is in no lookup. Counts its kicked exits in `seen`.
fn ring(
    vm: &Arc<dyn Vm>,
    vcpu: &mut Box<dyn Vcpu>,
    way: Way,
    doorbell: &Mutex<Doorbell>,
    only: Option<i32>,
    seen: &AtomicU64,
) {
    let (place, datamatch) = way.place();
    let mut kicked = 0;
    loop {
        match vcpu
            .run(VmEntry::Resume)
            .unwrap_or_else(|error| panic!("{}", testbed::chain(&error)))
        {
            VmExit::Kicked => {
                kicked += 1;
                seen.fetch_add(1, Relaxed);
                if let Some(sandbox) = only.filter(|_| kicked % 16 == 0) {
                    let (begun, ended) = lookups(sandbox);
                    assert_eq!(begun, ended, "a vcpu that is outside is in a lookup");
                    let mut doorbell = doorbell.lock();
                    doorbell.remove().unwrap();
                    let event = doorbell.event();
                    *doorbell = vm
                        .register_ioevent(event, place, datamatch, Sharing::Exclusive)
                        .unwrap();
                }
            }
            VmExit::PioOut {
                port: DONE_PORT,
                data,
                ..
            } => {
                assert_eq!(data, 0, "a register changed");
                return;
            }
            exit => panic!("{exit:x?}"),
        }
    }
}

/// Lets the vCPUs ring under a storm, for at least `time` and until enough kicks and rings were seen.
fn survive<H: Hypervisor>(h: &H, way: Way, config: VmConfig, kickers: u64, time: Duration) {
    let vcpus = config.vcpus;
    let what = format!(
        "{way:?}, {:?}, {vcpus} vcpus, {kickers} kickers",
        config.patch
    );
    let (vm, sandbox) = with_sandbox(h, &config);
    let only = (vcpus == 1).then_some(sandbox);
    let (place, datamatch) = way.place();
    let event = event();
    let doorbell = vm
        .register_ioevent(&event, place, datamatch, Sharing::Exclusive)
        .unwrap();
    let doorbell = Mutex::new(doorbell);
    vm.memory()
        .write_slice(programs::storm().code, CODE)
        .unwrap();
    let page = |index: u32| GuestAddress(AREA + 0x1000 * u64::from(index));
    let parameters = |pause| Parameters {
        count: u64::MAX,
        address: place.value(),
        value: way as u64,
        pause,
    };
    let mut runners = Vec::new();
    for index in 0..vcpus {
        parameters(0).write(vm.memory(), page(index)).unwrap();
        runners.push(begin_at(&vm, index, page(index)));
    }
    let calm = AtomicBool::new(false);
    let (seen, mut kicks, mut rung) = (AtomicU64::new(0), 0, 0);
    std::thread::scope(|scope| {
        let handles: Vec<_> = runners.iter().map(|vcpu| vcpu.kick_handle()).collect();
        let mut storms = Vec::new();
        for handle in handles {
            for seed in 0..kickers {
                let (handle, calm) = (handle.clone(), &calm);
                storms.push(scope.spawn(move || storm(&*handle, seed, calm)));
            }
        }
        let (vm, event, doorbell, calm, seen) = (&vm, &event, &doorbell, &calm, &seen);
        let one = |vcpu| {
            scope.spawn(move || {
                let end = SetAtEnd(calm);
                ring(vm, vcpu, way, doorbell, only, seen);
                std::mem::forget(end);
            })
        };
        let threads: Vec<_> = runners.iter_mut().map(one).collect();
        let begun = Instant::now();
        await_that("enough rings and kicks", || {
            rung += count(event);
            let enough = rung > RINGS && seen.load(Relaxed) > ENOUGH && begun.elapsed() > time;
            enough || calm.load(Relaxed)
        });
        for index in 0..vcpus {
            parameters(1).write(vm.memory(), page(index)).unwrap();
        }
        let results: Vec<_> = threads
            .into_iter()
            .map(std::thread::ScopedJoinHandle::join)
            .collect();
        calm.store(true, Relaxed);
        for result in results {
            result.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        }
        for storm in storms {
            kicks += storm.join().unwrap();
        }
    });
    let rings: u64 = (0..vcpus)
        .map(|index| Results::read(vm.memory(), page(index)).unwrap().rings)
        .sum();
    let kicked = seen.into_inner();
    assert!(lookups(sandbox).0 > 0, "{what}: no lookup is counted");
    println!("{what}: {rings} rings, {kicks} kicks, {kicked} of them seen");
    assert_eq!(rung + count(&event), rings, "{what}");
    // Each vCPU is outside the guest now; without an irqchip both counts are 0.
    let events = vm.measure().events().unwrap();
    assert_eq!(events["kvm:kvm_entry"], events["kvm:kvm_exit"], "{what}");
}

/// How many kicks the monitor must have seen for it to count as a storm, and how many rings must have arrived.
const ENOUGH: u64 = 20;
const RINGS: u64 = 100;

const TIME: Duration = Duration::from_millis(250);

fn with<H: Hypervisor>(h: &H, way: Way, patch: PatchMode) {
    let config = VmConfig {
        patch,
        ..VmConfig::default()
    };
    survive(h, way, config.clone(), 1, TIME);
    survive(h, way, config, 2, TIME);
}

fn raw_output_survives_a_storm<H: Hypervisor>(h: &H) {
    with(h, Way::Out, PatchMode::Off);
}

fn int3_output_survives_a_storm<H: Hypervisor>(h: &H) {
    with(h, Way::Out, PatchMode::Int3);
}

fn jmp_output_survives_a_storm<H: Hypervisor>(h: &H) {
    with(h, Way::Out, PatchMode::Jmp);
}

fn hypercalls_survive_a_storm<H: Hypervisor>(h: &H) {
    with(h, Way::Call, PatchMode::Off);
}

fn stores_survive_a_storm<H: Hypervisor>(h: &H) {
    with(h, Way::Store, PatchMode::Off);
}

fn jmp_stores_survive_a_storm<H: Hypervisor>(h: &H) {
    with(h, Way::Store, PatchMode::Jmp);
}

fn string_output_survives_a_storm<H: Hypervisor>(h: &H) {
    with(h, Way::Strings, PatchMode::Off);
}

fn two_vcpus_survive_a_storm<H: Hypervisor>(h: &H) {
    let config = VmConfig {
        vcpus: 2,
        ..VmConfig::default()
    };
    for way in [Way::Out, Way::Store, Way::Call, Way::Strings] {
        survive(h, way, config.clone(), 1, TIME);
    }
    survive(
        h,
        Way::Out,
        VmConfig {
            patch: PatchMode::Int3,
            ..config.clone()
        },
        1,
        TIME,
    );
    for spin in [SpinPolicy::Adaptive, SpinPolicy::OneCpu] {
        survive(
            h,
            Way::Call,
            VmConfig {
                spin,
                ..config.clone()
            },
            1,
            TIME,
        );
    }
}

/// A kick that cancels an entry leaves neither an entry nor an exit: the counts stay equal.
fn entries_and_exits_are_equal_after_a_storm<H: Hypervisor>(h: &H) {
    let config = VmConfig {
        irqchip: Irqchip::Full,
        ..VmConfig::default()
    };
    for way in [Way::Out, Way::Store, Way::Call] {
        survive(h, way, config.clone(), 2, TIME);
    }
}

/// The kicking thread has the lowest priority, so that its kicks come in clumps.
fn a_nice_storm_is_survived<H: Hypervisor>(h: &H) {
    nice(19);
    survive(h, Way::Call, VmConfig::default(), 2, TIME);
    survive(
        h,
        Way::Out,
        VmConfig {
            patch: PatchMode::Jmp,
            ..VmConfig::default()
        },
        2,
        TIME,
    );
}

/// Lowers the priority of the calling thread and of the threads that it starts.
#[allow(unsafe_code)]
fn nice(by: i32) {
    // SAFETY: takes no pointers.
    let result = unsafe { libc::nice(by) };
    assert!(result != -1, "{}", std::io::Error::last_os_error());
}

testbed::on_usermode! {
    raw_output_survives_a_storm;
    int3_output_survives_a_storm;
    jmp_output_survives_a_storm;
    jmp_stores_survive_a_storm;
    hypercalls_survive_a_storm;
    stores_survive_a_storm;
    string_output_survives_a_storm;
    two_vcpus_survive_a_storm;
    entries_and_exits_are_equal_after_a_storm;
    a_nice_storm_is_survived;
}
