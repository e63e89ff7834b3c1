//! What the removal of a doorbell costs on the usermode backend: with the stop of the whole sandbox that a guest of
//! others needs (strict), and without it (cooperative); of a guest that does not run, and of one that spins.
//!
//! ```text
//! cargo bench --bench removal
//! ```

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use criterion::Criterion;
use vm_memory::Bytes;
use vmbell::doorbell::{Datamatch, IoEventAddress, Sharing};
use vmbell_guest::{CODE, STACK_TOP};
use vmbell_hypervisor::{Containment, EntryPoint, Hypervisor, Vm, VmConfig, VmEntry};
use vmbell_usermode::Usermode;
use vmm_sys_util::eventfd::EventFd;

/// `jmp` to itself.
const SPIN: [u8; 2] = [0xeb, 0xfe];

/// The time of `count` removals, each of a doorbell that was registered just before.
fn removals(vm: &Arc<dyn Vm>, count: u64) -> Duration {
    let event = Arc::new(EventFd::new(0).expect("an eventfd can be had"));
    let (place, any) = (IoEventAddress::Pio(0x900), Datamatch::U32(None));
    let mut total = Duration::ZERO;
    for _ in 0..count {
        let mut doorbell = vm
            .register_ioevent(&event, place, any, Sharing::Exclusive)
            .expect("a doorbell can be registered");
        let start = Instant::now();
        doorbell.remove().expect("it can be removed again");
        total += start.elapsed();
    }
    total
}

fn guest(containment: Containment) -> Arc<dyn Vm> {
    let config = VmConfig {
        containment,
        ..VmConfig::default()
    };
    Usermode.create_vm(&config).expect("a guest can be made")
}

fn idle(criterion: &mut Criterion, containment: Containment) {
    let vm = guest(containment);
    criterion.bench_function(&id("idle", containment), |bencher| {
        bencher.iter_custom(|count| removals(&vm, count));
    });
}

fn spinning(criterion: &mut Criterion, containment: Containment) {
    let vm = guest(containment);
    vm.memory()
        .write_slice(&SPIN, CODE)
        .expect("the code is in RAM");
    let mut vcpu = vm.create_vcpu(0).expect("it is not taken");
    let entry = EntryPoint::Program {
        pc: CODE.0,
        sp: STACK_TOP.0,
        arguments: [0; 2],
    };
    vcpu.set_entry_point(entry).expect("it has not run");
    let (kick, over) = (vcpu.kick_handle(), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                vcpu.run(VmEntry::Resume).expect("it leaves by a kick only");
            }
        });
        criterion.bench_function(&id("spinning", containment), |bencher| {
            bencher.iter_custom(|count| removals(&vm, count));
        });
        over.store(true, Ordering::Relaxed);
        kick.kick();
    });
}

fn id(guest: &str, containment: Containment) -> String {
    format!("removal/{guest}/{containment:?}").to_lowercase()
}

fn main() {
    let mut criterion = Criterion::default()
        .warm_up_time(Duration::from_millis(200))
        .measurement_time(Duration::from_millis(800))
        .sample_size(20)
        .without_plots()
        .configure_from_args();
    for bench in [idle, spinning] {
        for containment in [Containment::Strict, Containment::Cooperative] {
            bench(&mut criterion, containment);
        }
    }
    criterion.final_summary();
}
