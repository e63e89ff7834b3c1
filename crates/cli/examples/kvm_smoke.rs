//! Shows that this machine's KVM is real: a real-mode guest writes to a port. At first each write exits to this
//! program, then KVM handles the writes with an ioeventfd.
//!
//! `vmbell lab --deterministic -- target/debug/examples/kvm_smoke` prints the same figures every time, because one
//! virtual nanosecond there is one instruction.
//!
//! With the argument `exit` or `ioeventfd`, it runs only that part, and then keeps the guest until standard input ends.
//! `slow-exit` sleeps for a millisecond in each exit but the last. With `every-port` the guest writes once to each port
//! but 0. `lent` is like `ioeventfd`, and a child also holds the eventfd. `two-vcpus` is like `exit`, and then a second
//! vCPU writes a quarter as often. `forever` prints a dot for each exit, until it is killed.
#![allow(unsafe_code)]

use std::io::Write;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use kvm_bindings::{CpuId, KVM_MAX_CPUID_ENTRIES, kvm_userspace_memory_region};
use kvm_ioctls::{Cap, IoEventAddress, Kvm, NoDatamatch, VcpuExit, VcpuFd, VmFd};
use vm_memory::{Bytes, GuestAddress, GuestMemoryBackend, GuestMemoryMmap};
use vmm_sys_util::eventfd::{EFD_NONBLOCK, EventFd};

type Failure = Box<dyn std::error::Error>;

const PORT: u16 = 0x0b07;
const CODE: u64 = 0x1000;
const WRITES: u16 = 2000;
const SLOW: Duration = Duration::from_millis(1);

/// `again: out dx, al; dec cx; jnz again; hlt`.
const GUEST: [u8; 5] = [0xee, 0x49, 0x75, 0xfc, 0xf4];
/// `again: out dx, al; dec dx; jnz again; hlt`.
const EVERY_PORT: [u8; 5] = [0xee, 0x4a, 0x75, 0xfc, 0xf4];

fn main() -> Result<(), Failure> {
    let kvm = Kvm::new()?;
    println!(
        "KVM API {}, ioeventfd {}, irqfd {}",
        kvm.get_api_version(),
        kvm.check_extension(Cap::Ioeventfd),
        kvm.check_extension(Cap::Irqfd)
    );
    let vm = kvm.create_vm()?;
    let memory = GuestMemoryMmap::<()>::from_ranges(&[(GuestAddress(0), 0x10000)])?;
    let region = kvm_userspace_memory_region {
        slot: 0,
        flags: 0,
        guest_phys_addr: 0,
        memory_size: 0x10000,
        userspace_addr: memory.get_host_address(GuestAddress(0))? as u64,
    };
    // SAFETY: `memory` owns the mapping and lives until after the last use of `vm`.
    unsafe { vm.set_user_memory_region(region) }?;
    memory.write_slice(&GUEST, GuestAddress(CODE))?;
    let mut vcpu = vm.create_vcpu(0)?;
    vcpu.set_cpuid2(&kvm.get_supported_cpuid(KVM_MAX_CPUID_ENTRIES)?)?;

    let event = EventFd::new(EFD_NONBLOCK)?;
    if let Some(way) = std::env::args().nth(1) {
        if way == "every-port" {
            memory.write_slice(&EVERY_PORT, GuestAddress(CODE))?;
        }
        return one_way(&vm, &mut vcpu, &event, &way);
    }
    let heavy = rounds(&mut vcpu, &event)?;
    vm.register_ioevent(&event, &IoEventAddress::Pio(PORT.into()), NoDatamatch)?;
    let light = rounds(&mut vcpu, &event)?;

    println!(
        "{:24} {:>8} {:>8} {:>8} {:>9}",
        "", "writes", "exits", "signals", "ns/write"
    );
    for (name, round) in [
        ("portio-no-eventfd", &heavy),
        ("portio-wildcard-eventfd", &light),
    ] {
        let each = round.time / u128::from(WRITES);
        println!(
            "{name:24} {WRITES:>8} {:>8} {:>8} {each:>9}",
            round.exits, round.signals
        );
    }
    let writes = u64::from(WRITES);
    let right = (heavy.exits, heavy.signals, light.exits, light.signals) == (writes, 0, 0, writes);
    if right {
        Ok(())
    } else {
        Err("an exit or a signal too many or too few".into())
    }
}

/// Runs the part that the argument names, then waits.
fn one_way(vm: &VmFd, vcpu: &mut VcpuFd, event: &EventFd, way: &str) -> Result<(), Failure> {
    match way {
        "forever" => return forever(vcpu),
        "exit" | "slow-exit" | "every-port" | "two-vcpus" => {}
        "ioeventfd" | "lent" => {
            vm.register_ioevent(event, &IoEventAddress::Pio(PORT.into()), NoDatamatch)?;
        }
        other => {
            return Err(format!(
                "{other} is not `exit`, `slow-exit`, `ioeventfd`, `lent`, `every-port`, `two-vcpus` or `forever`"
            )
            .into());
        }
    }
    // A child inherits the eventfd.
    let lend = || Command::new("/bin/sleep").arg("600").spawn();
    let child = (way == "lent").then(lend).transpose()?;
    let first = if way == "every-port" { u16::MAX } else { PORT };
    let pause = if way == "slow-exit" {
        SLOW
    } else {
        Duration::ZERO
    };
    let round = round(vcpu, event, first, pause)?;
    if way == "two-vcpus" {
        return second(vm, &vcpu.get_cpuid2(KVM_MAX_CPUID_ENTRIES)?);
    }
    println!("{} {}", round.exits, round.signals);
    std::io::copy(&mut std::io::stdin(), &mut std::io::sink())?;
    if let Some(mut child) = child {
        child.kill()?;
        child.wait()?;
    }
    Ok(())
}

/// Runs a second vCPU in another thread, prints its exits, and waits.
fn second(vm: &VmFd, cpuid: &CpuId) -> Result<(), Failure> {
    let mut vcpu = vm.create_vcpu(1)?;
    vcpu.set_cpuid2(cpuid)?;
    start(&vcpu, PORT, WRITES / 4)?;
    let run = || {
        let mut exits = 0;
        while let Ok(VcpuExit::IoOut(..)) = vcpu.run() {
            exits += 1;
        }
        println!("{exits} 0");
        std::io::copy(&mut std::io::stdin(), &mut std::io::sink()).map(drop)
    };
    thread::scope(|scope| scope.spawn(run).join())
        .map_err(|_| "the second vCPU's thread panicked")??;
    Ok(())
}

/// Prints a dot for each exit with a port write.
fn forever(vcpu: &mut VcpuFd) -> Result<(), Failure> {
    let mut stdout = std::io::stdout();
    loop {
        start(vcpu, PORT, WRITES)?;
        while let VcpuExit::IoOut(..) = vcpu.run()? {
            stdout.write_all(b".")?;
            stdout.flush()?;
        }
    }
}

struct Round {
    /// The number of exits for port writes that this program handled.
    exits: u64,
    /// The signals that the eventfd counted.
    signals: u64,
    /// The time of the round in nanoseconds.
    time: u128,
}

/// Runs two rounds and returns the second one: the first one fills caches and page tables.
fn rounds(vcpu: &mut VcpuFd, event: &EventFd) -> Result<Round, Failure> {
    round(vcpu, event, PORT, Duration::ZERO)?;
    round(vcpu, event, PORT, Duration::ZERO)
}

/// Makes the guest write this number of times, first to this port.
fn start(vcpu: &VcpuFd, first: u16, writes: u16) -> Result<(), Failure> {
    let mut sregs = vcpu.get_sregs()?;
    sregs.cs.base = 0;
    sregs.cs.selector = 0;
    vcpu.set_sregs(&sregs)?;
    let mut regs = vcpu.get_regs()?;
    regs.rip = CODE;
    regs.rcx = u64::from(writes);
    regs.rdx = u64::from(first);
    regs.rflags = 2;
    vcpu.set_regs(&regs)?;
    Ok(())
}

/// Runs the guest from this port on; handling each exit takes this long.
fn round(
    vcpu: &mut VcpuFd,
    event: &EventFd,
    first: u16,
    pause: Duration,
) -> Result<Round, Failure> {
    start(vcpu, first, WRITES)?;
    let mut exits = 0;
    let start = Instant::now();
    loop {
        match vcpu.run()? {
            VcpuExit::IoOut(port, _) if port <= first => {
                exits += 1;
                if !pause.is_zero() {
                    thread::sleep(pause);
                }
            }
            VcpuExit::Hlt => break,
            other => return Err(format!("unexpected exit {other:?}").into()),
        }
    }
    let time = start.elapsed().as_nanos();
    Ok(Round {
        exits,
        signals: event.read().unwrap_or(0),
        time,
    })
}
