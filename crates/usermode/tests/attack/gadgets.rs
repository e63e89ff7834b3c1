//! Guests that make the stub's system calls themselves, in a loop: writes to every doorbell, futex calls in shared
//! memory, and the interrupt signal to every thread of the sandbox, the one that holds its descriptors included.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use stub::layout::{FD_BASE, RunPage, SHARED_BASE, SLOT_BASE, SharedState};
use vm_memory::{Bytes, GuestAddress};
use vmbell::doorbell::{Datamatch, IoEventAddress, Sharing};
use vmbell_guest::Parameters;
use vmbell_hypervisor::{Irqchip, Vcpu, Vm, VmConfig};

use crate::attack::batch::Attack;
use crate::attack::bells::{self, come_and_go, raise};
use crate::attack::random::{Random, pause};
use crate::attack::scatter;
use crate::attack::vcpus::{config, create, end, pause_until, run_until};
use crate::attack::watch::Watch;
use testbed::HANG;
use testbed::jumps::{FREE, Jump, MOST, RBX, RSP, base, landed, landing, take};
use testbed::process::tasks;
use testbed::symbols::{symbol, syscalls};
use testbed::{event, programs, start};

#[test]
fn a_guest_may_make_the_stubs_system_calls() {
    Attack {
        name: "attack::gadgets::a_guest_may_make_the_stubs_system_calls",
        rounds: 3,
        full: 400,
        round,
    }
    .run();
}

pub const WRITE: u64 = 1;
const FUTEX: u64 = 202;
const TGKILL: u64 = 234;
const WAIT: u64 = 0;
const WAKE: u64 = 1;

const VALUES: u64 = FREE - 0x1000;

/// Of `boot_stack` in the stub's `elf/entry.rs`.
const BOOT_STACK_SIZE: u64 = 16384;

/// How many words of its stack lead back to the guest.
pub const BACK: u64 = 32;

/// A system call that comes back to the guest: after the instruction the stub's code continues to a `ret`, with
/// registers that let it. All that are not the call's lead to RAM that nothing else is in, or are 0.
pub fn call(gadget: u64, index: u32, number: u64, arguments: [u64; 4]) -> Jump {
    let mut jump = Jump::call(gadget, number, arguments);
    jump.registers[RBX] = base(index) + FREE;
    jump.registers[RSP] = base(index) + 2 * FREE;
    jump
}

/// Those of the stub's `syscall` instructions from which a guest comes back. Direct code is made to end with a
/// `ret` on the guest's stack; the others are tried only if no address in it comes back.
pub fn gadgets(watch: &Watch) -> &'static [u64] {
    static GADGETS: OnceLock<Vec<u64>> = OnceLock::new();
    GADGETS.get_or_init(|| {
        let comes_back = |gadget: &u64, time: Duration| {
            let (vm, sandbox) = create(watch, &VmConfig::default());
            let wake = call(*gadget, 0, FUTEX, [SHARED_BASE, WAKE, 0, 0]);
            let mut vcpu = take(&vm, 0, &[wake], BACK);
            run_until(watch, &mut vcpu, Instant::now() + time);
            let back = landed(&vm, 0) > 1;
            end(watch, vm, vec![vcpu], sandbox);
            back
        };
        let direct = symbol("stub_direct_section")..symbol("stub_direct_section_end");
        let (direct, others): (Vec<_>, Vec<_>) = syscalls()
            .into_iter()
            .partition(|gadget| direct.contains(gadget));
        let mut time = Duration::from_millis(3);
        // One that does not come back is seen by its silence: on a busy host that takes longer.
        while time < HANG {
            for some in [&direct, &others] {
                let mut gadgets = some.clone();
                gadgets.retain(|gadget| comes_back(gadget, time));
                if !gadgets.is_empty() {
                    return gadgets;
                }
            }
            time *= 4;
        }
        panic!("no system call of the stub comes back to a guest");
    })
}

/// Where the words are that a guest adds to the counts of eventfds: small ones, and such as fit in none.
fn value(random: &mut Random, index: u32) -> u64 {
    base(index) + VALUES + 8 * random.below(5)
}

fn write_values(vm: &Arc<dyn Vm>, random: &mut Random, index: u32) {
    let words = [1, 7, 1 << 40, u64::MAX - 1, random.word()];
    let bytes = words.map(u64::to_le_bytes).concat();
    let place = GuestAddress(base(index) + VALUES);
    vm.memory().write_slice(&bytes, place).unwrap();
}

/// One call; with `sleeps`, some wait until they are interrupted.
fn spray(random: &mut Random, gadget: u64, index: u32, threads: &[u64], sleeps: bool) -> Jump {
    let (number, arguments) = match random.below(3) {
        0 => {
            let fd = u64::from(FD_BASE) + random.below(8);
            (WRITE, [fd, value(random, index), 8, 0])
        }
        1 => {
            let run_pages = std::mem::offset_of!(SharedState, runs) as u64;
            let run = SHARED_BASE + run_pages + random.below(2) * size_of::<RunPage>() as u64;
            let word = random.pick(&[run, run + 64, SHARED_BASE]);
            let wait = sleeps && random.once_in(4);
            (FUTEX, [word, if wait { WAIT } else { WAKE }, 0, 0])
        }
        _ => (TGKILL, [threads[0], random.pick(threads), 12, 0]),
    };
    call(gadget, index, number, arguments)
}

/// A second vCPU: it does nothing, or writes over the stack of the thread that holds the descriptors, which that
/// uses if a signal reaches it.
fn other(vm: &Arc<dyn Vm>, random: &mut Random, gadgets: &[u64]) -> Box<dyn Vcpu> {
    if random.once_in(3) {
        return start(vm, programs::spin(), Parameters::default(), 1);
    }
    // The kernel puts a signal's frame in the uppermost part.
    let top = symbol("boot_stack") + BOOT_STACK_SIZE;
    let len = random.pick(&[0x200, 0x800, 0x1400]);
    let from = top - len - (random.below(0x1400 - len + 1) & !7);
    let mut words = gadgets.to_vec();
    words.extend([landing(0), base(0), top, SLOT_BASE]);
    scatter::take(vm, 1, random, from, len, &words)
}

fn round(watch: &'static Watch, random: &mut Random) {
    let gadgets = gadgets(watch);
    let config = config(
        random,
        &[Irqchip::None, Irqchip::Full, Irqchip::Split, Irqchip::Full],
    );
    let (vm, sandbox) = create(watch, &config);
    let threads: Vec<_> = tasks(sandbox)
        .iter()
        .map(|id| u64::from(id.cast_unsigned()))
        .collect();
    // The first is the process, whose number the filter asks for. Without local APICs it allows no signal.
    let kinds = if config.irqchip == Irqchip::None {
        2
    } else {
        3
    };
    // Every kick finds such a guest in a call, so it answers none and is given up after 5 seconds.
    let sleeps = random.once_in(10);
    let port = IoEventAddress::Pio(0x501);
    let staying = vm
        .register_ioevent(&event(), port, Datamatch::AnyLength, Sharing::Exclusive)
        .unwrap();
    let mut vcpus = Vec::new();
    let gadget = random.pick(gadgets);
    for index in 0..config.vcpus {
        if index == 1 && random.once_in(2) {
            vcpus.push(other(&vm, random, gadgets));
            continue;
        }
        write_values(&vm, random, index);
        let mut calls: Vec<_> = (0..1 + random.below(MOST as u64 - 1))
            .map(|_| spray(random, gadget, index, &threads, sleeps))
            .collect();
        calls.retain(|call| kinds == 3 || call.registers[0] != TGKILL);
        if calls.is_empty() {
            calls.push(call(
                gadget,
                index,
                WRITE,
                [FD_BASE.into(), value(random, index), 8, 0],
            ));
        }
        vcpus.push(take(&vm, index, &calls, BACK));
    }
    let over = Instant::now() + Duration::from_millis(30) + random.time(Duration::from_millis(150));
    let pauses = random.pick(&[Duration::from_micros(20), Duration::from_millis(5)]);
    let (mut first, mut second, mut third) = (random.fork(), random.fork(), random.fork());
    let kicks: Vec<_> = vcpus.iter().map(|vcpu| vcpu.kick_handle()).collect();
    let removed = std::thread::scope(|scope| {
        // The first may end the guest with its first call, so the second begins.
        for vcpu in vcpus.iter_mut().rev() {
            scope.spawn(|| run_until(watch, vcpu, over));
            pause(Duration::from_micros(500));
        }
        if config.irqchip != Irqchip::None {
            scope.spawn(|| raise(watch, &vm, &mut first, pauses, over));
        }
        let bells = scope.spawn(|| come_and_go(watch, &vm, &mut second, pauses, over));
        while Instant::now() < over {
            watch.call("kick", || third.pick(&kicks).kick());
            pause_until(third.time(Duration::from_millis(10)), over);
        }
        bells
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    });
    drop(kicks);
    bells::remove(watch, staying);
    pause(Duration::from_micros(200));
    removed.check();
    watch.note(if landed(&vm, 0) > 100 {
        "more than 100 calls"
    } else {
        "fewer calls"
    });
    end(watch, vm, vcpus, sandbox);
}
