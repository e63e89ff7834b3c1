//! Guests that write over the memory that they share with the monitor, while the monitor raises interrupts and
//! registers and removes doorbells: over a random part in each round, and over parts whose effect is known.

use std::mem::offset_of;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use stub::layout::{Counters, MAX_VCPUS, RunPage, SHARED_BASE, SharedState, VcpuInterrupts};
use vm_memory::{Bytes, GuestAddress};
use vmbell::doorbell::{Datamatch, IoEventAddress, Sharing};
use vmbell_guest::{DONE_PORT, Parameters};
use vmbell_hypervisor::{EntryPoint, Hypervisor, Irqchip, Vcpu, Vm, VmConfig, VmEntry, VmExit};

use crate::attack::bells::{self, come_and_go, raise};
use crate::attack::random::{Random, pause};
use crate::attack::vcpus::{config, create, end, run_until};
use crate::attack::watch::Watch;
use testbed::jumps::base;
use testbed::process::{await_gone, with_sandbox};
use testbed::script::{Op, Player};
use testbed::taker::{self, Doing};
use testbed::{
    AREA, Deadline, HANG, HOLE, await_that, begin_at, chain, configured, count, event, programs,
    start,
};

const CODE: u64 = 0x1000;
const WORDS: u64 = 0x2000;

/// Starts a vCPU that writes all over `size` bytes at `address`, with these words among others.
pub fn take(
    vm: &Arc<dyn Vm>,
    index: u32,
    random: &mut Random,
    address: u64,
    size: u64,
    words: &[u64],
) -> Box<dyn Vcpu> {
    let at = |offset| GuestAddress(base(index) + offset);
    let mut all = words.to_vec();
    all.extend([
        0,
        1,
        2,
        4,
        7,
        u64::MAX,
        1 << 32,
        0xffff_ffff,
        random.below(64),
        random.word(),
        SHARED_BASE + random.below(size_of::<SharedState>() as u64),
        base(index),
        // The seed of the choices: anything but 0.
        random.word() | 1,
    ]);
    let bytes: Vec<u8> = all.iter().copied().flat_map(u64::to_le_bytes).collect();
    vm.memory().write_slice(&bytes, at(WORDS)).unwrap();
    vm.memory()
        .write_slice(programs::scatter().code, at(CODE))
        .unwrap();
    let parameters = Parameters {
        count: size,
        address,
        value: all.len() as u64 - 1,
        pause: base(index) + WORDS,
    };
    parameters.write(vm.memory(), at(0)).unwrap();
    let mut vcpu = vm.create_vcpu(index).unwrap();
    let entry = EntryPoint::Program {
        pc: base(index) + CODE,
        sp: base(index) + CODE,
        arguments: [base(index), 0],
    };
    vcpu.set_entry_point(entry).unwrap();
    vcpu
}

/// Returns the address and the size of a part of the shared memory.
fn part(random: &mut Random) -> (u64, u64) {
    let run = offset_of!(SharedState, runs);
    let page = size_of::<RunPage>();
    let lapics = offset_of!(SharedState, lapics);
    let interrupts = run + offset_of!(RunPage, interrupts);
    let parts = [
        (0, size_of::<SharedState>()),
        (0, lapics),
        (lapics, (run - lapics) / MAX_VCPUS * 2),
        (run, 2 * page),
        (run, page),
        (run, offset_of!(RunPage, exit)),
        (run + offset_of!(RunPage, exit), 64),
        (interrupts, size_of::<VcpuInterrupts>()),
        (interrupts + offset_of!(VcpuInterrupts, mode), 8),
        (
            interrupts + offset_of!(VcpuInterrupts, pv_eoi),
            offset_of!(VcpuInterrupts, interrupt_handler),
        ),
        (run + offset_of!(RunPage, counters), size_of::<Counters>()),
        (run + offset_of!(RunPage, thread_id), 8),
    ];
    let (offset, size) = random.pick(&parts);
    (SHARED_BASE + offset as u64, size as u64)
}

/// A guest writes over a random part of the shared memory.
pub fn a_guest_may_write_over_all_that_it_shares(watch: &'static Watch, random: &mut Random) {
    let config = VmConfig {
        vcpus: 2,
        patch: vmbell_hypervisor::PatchMode::Off,
        ..config(random, &[Irqchip::Full, Irqchip::Split])
    };
    let (vm, sandbox) = create(watch, &config);
    let port = IoEventAddress::Pio(0x501);
    let staying = vm
        .register_ioevent(&event(), port, Datamatch::AnyLength, Sharing::Exclusive)
        .unwrap();
    let (doing, address) = random.pick(&[
        (Doing::Halts, 0),
        (Doing::Spins, 0),
        (Doing::Masks, 0),
        (Doing::Writes, 0x500),
        (Doing::Writes, 0x77),
        (Doing::Stores, HOLE),
        (Doing::Calls, 7),
    ]);
    let pins = if config.irqchip == Irqchip::Full {
        taker::PINS
    } else {
        0
    };
    let (address_of_part, size) = part(random);
    let mut vcpus = vec![
        taker::take(&vm, 0, doing, address, taker::PV_EOI | pins),
        take(&vm, 1, random, address_of_part, size, &[]),
    ];
    let over = Instant::now() + Duration::from_millis(50) + random.time(Duration::from_millis(300));
    let pauses = random.pick(&[Duration::from_micros(20), Duration::from_millis(2)]);
    let (mut first, mut second) = (random.fork(), random.fork());
    let removed = std::thread::scope(|scope| {
        for vcpu in &mut vcpus {
            scope.spawn(|| run_until(watch, vcpu, over));
        }
        scope.spawn(|| raise(watch, &vm, &mut first, pauses, over));
        come_and_go(watch, &vm, &mut second, pauses, over)
    });
    watch.call("exit_counts", || vm.measure().exit_counts());
    bells::remove(watch, staying);
    pause(Duration::from_micros(200));
    removed.check();
    end(watch, vm, vcpus, sandbox);
}

const RUNS: u64 =
    SHARED_BASE + (size_of::<SharedState>() - MAX_VCPUS * size_of::<RunPage>()) as u64;

/// Enters a vCPU for some time, or until its sandbox ends. There must be no panic and no hang.
fn enter_for(vcpu: &mut Box<dyn Vcpu>, time: Duration) -> Result<u64, String> {
    let begun = Instant::now();
    enter_until(vcpu, move || begun.elapsed() >= time)
}

/// Like [`enter_for`], until a condition holds.
fn enter_until(
    vcpu: &mut Box<dyn Vcpu>,
    is_over: impl Fn() -> bool + Clone + Send + 'static,
) -> Result<u64, String> {
    let _kick = Deadline::when(is_over.clone(), vcpu.kick_handle()).unwrap();
    let mut exits = 0;
    while !is_over() {
        match vcpu.run(VmEntry::Data(exits)) {
            Ok(VmExit::Fault(fault)) => return Err(fault.to_string()),
            Ok(_) => exits += 1,
            Err(error) => return Err(chain(&error)),
        }
    }
    Ok(exits)
}

fn scribble(address: u64, len: u64, value: u64, port: u16) -> Parameters {
    Parameters {
        count: len,
        address,
        value,
        pause: port.into(),
    }
}

pub fn removal_ends_though_the_counters_are_nonsense<H: Hypervisor>(h: &H) {
    let (vm, sandbox) = with_sandbox(
        h,
        &VmConfig {
            vcpus: 2,
            ..VmConfig::default()
        },
    );
    let (bell, other) = (event(), event());
    let (place, datamatch) = (IoEventAddress::Pio(0x77), Datamatch::U32(None));
    let mut doorbell = vm
        .register_ioevent(&bell, place, datamatch, Sharing::Exclusive)
        .unwrap();
    let mut second = vm
        .register_ioevent(
            &other,
            IoEventAddress::Pio(0x78),
            datamatch,
            Sharing::Exclusive,
        )
        .unwrap();
    let before_runs = RUNS - SHARED_BASE;
    let mut vcpu = start(
        &vm,
        programs::scribble(),
        scribble(SHARED_BASE, before_runs, 7, 0x77),
        0,
    );
    let over = Arc::new(AtomicBool::new(false));
    let asked = Arc::clone(&over);
    std::thread::scope(|scope| {
        let begun = Instant::now();
        let is_over = move || asked.load(Relaxed) || begun.elapsed() > HANG;
        let guest = scope.spawn(move || enter_until(&mut vcpu, is_over));
        await_that("the guest to ring", || count(&bell) > 0);
        doorbell.remove().unwrap();
        count(&bell);
        std::thread::sleep(Duration::from_millis(50));
        assert_eq!(count(&bell), 0, "rung after the removal had returned");
        // Doorbells can still be registered and removed.
        let _again = vm
            .register_ioevent(&bell, place, datamatch, Sharing::Exclusive)
            .unwrap();
        await_that("the guest to ring again", || {
            count(&bell) > 0 || guest.is_finished()
        });
        second.remove().unwrap();
        over.store(true, Relaxed);
        guest.join().unwrap().unwrap();
    });
    drop(vm);
    await_gone(sandbox);
}

pub fn a_forged_exit_is_an_exit_or_an_error<H: Hypervisor>(h: &H) {
    for seed in 1..6 {
        let (vm, sandbox) = with_sandbox(
            h,
            &VmConfig {
                vcpus: 2,
                ..VmConfig::default()
            },
        );
        // vCPU 1 writes over the run page of vCPU 0, which exits all the time.
        let forger = scribble(RUNS, size_of::<RunPage>() as u64, seed * 0x1234_5679, 0);
        let page = GuestAddress(AREA + 0x2_0000);
        let honest = start(&vm, programs::scribble(), scribble(AREA, 64, 1, 0x55), 0);
        forger.write(vm.memory(), page).unwrap();
        let forger = begin_at(&vm, 1, page);
        let time = Duration::from_millis(300);
        let threads =
            [honest, forger].map(|mut vcpu| std::thread::spawn(move || enter_for(&mut vcpu, time)));
        for thread in threads {
            if let Err(end) = thread.join().unwrap() {
                let clear = ["invalid value", "the sandbox ended", "at 0x"]
                    .iter()
                    .any(|text| end.contains(text));
                assert!(clear, "{end}");
            }
        }
        drop(vm);
        await_gone(sandbox);
    }
}

pub fn every_reason_can_be_forged<H: Hypervisor>(h: &H) {
    // A guest that jumps into the stub's hand-over can set the exit's first word, the reason, in an exit that has a
    // meaning. Here vCPU 1 stores one reason forever.
    for reason in 0..16_u64 {
        let vm = configured(
            h,
            VmConfig {
                vcpus: 2,
                ..VmConfig::default()
            },
        );
        let record = RUNS + 128;
        let honest = start(&vm, programs::scribble(), scribble(AREA, 64, 1, 0x55), 0);
        let page = GuestAddress(AREA + 0x2_0000);
        scribble(record, 8, reason | 4 << 32, 0)
            .write(vm.memory(), page)
            .unwrap();
        let forger = begin_at(&vm, 1, page);
        let time = Duration::from_millis(60);
        for thread in
            [honest, forger].map(|mut vcpu| std::thread::spawn(move || enter_for(&mut vcpu, time)))
        {
            let _ = thread.join().unwrap();
        }
    }
}

pub fn what_the_guest_cannot_write_it_cannot_write<H: Hypervisor>(h: &H) {
    let read_only = [
        stub::layout::CONTROL_BASE,
        stub::layout::STUB_BASE,
        vmbell_core::addresses::HYPERCALL_PAGE,
        stub::layout::PATCH_BASE,
    ];
    for address in read_only {
        let vm = configured(h, VmConfig::default());
        let mut player = Player::new(&vm);
        player.write(&[Op::Store(8, address, 1)]);
        match player.vcpu.run(VmEntry::Resume).unwrap() {
            VmExit::MmioWrite {
                address: at,
                len: 8,
                data: 1,
            } => assert!(at < 1 << 32, "{at:#x}"),
            VmExit::Fault(fault) => assert!(fault.to_string().contains("beyond"), "{fault}"),
            exit => panic!("{address:#x}: {exit:x?}"),
        }
        let expected = VmExit::PioOut {
            port: DONE_PORT,
            len: 4,
            data: 0,
        };
        if address < 1 << 32 {
            let exit = player.vcpu.run(VmEntry::Resume).unwrap();
            assert!(
                matches!(
                    exit,
                    VmExit::PioOut {
                        port: DONE_PORT,
                        ..
                    }
                ),
                "{exit:?}, not {expected:?}"
            );
        }
    }
}
