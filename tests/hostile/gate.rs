//! Guests that make the stub's own system calls, again and again.
#![allow(unsafe_code)]

use std::time::{Duration, Instant};

use iced_x86::{Decoder, FlowControl};
use vm_memory::{Bytes, GuestAddress};
use vmbell::doorbell::{Datamatch, IoEventAddress, Sharing};
use vmbell::guest::Parameters;
use vmbell::hypervisor::{Hypervisor, Irqchip, Vcpu, Vm, VmConfig, VmEntry, VmExit};
use vmbell::machine::Deadline;

use crate::harness::process::{await_gone, with_sandbox};
use crate::harness::symbols::{code, syscalls};
use crate::harness::{AREA, LIMIT, chain, event, programs, start};

/// Enough for the memory that the guest program leaves to the stub's code.
const RAM: u64 = 64 << 20;
/// How long an operation may take, whatever the guest does.
const SECONDS: Duration = Duration::from_secs(10);
const PLACE: IoEventAddress = IoEventAddress::Pio(0x500);
const ANY: Datamatch = Datamatch::AnyLength;

/// A `syscall` of the stub that is followed by a return and no branch.
fn returning_gate() -> u64 {
    let (base, bytes) = code();
    let returns = |gate: &u64| {
        let skip = usize::try_from(gate - base).unwrap();
        let behind = Decoder::with_ip(64, &bytes[skip + 2..], gate + 2, 0).into_iter();
        let mut flow = behind.map(|instruction| instruction.flow_control());
        flow.find(|flow| *flow != FlowControl::Next) == Some(FlowControl::Return)
    };
    syscalls().into_iter().find(returns).expect("such a gate")
}

/// A vCPU that is about to make this call from the stub.
fn caller<V: Vm>(vm: &V, call: [u64; 4]) -> V::Vcpu {
    for (word, address) in call.into_iter().zip((AREA..).step_by(8)) {
        vm.memory().write_obj(word, GuestAddress(address)).unwrap();
    }
    let parameters = Parameters {
        address: AREA,
        value: returning_gate(),
        ..Parameters::default()
    };
    start(vm, programs::gate(), parameters, 0)
}

/// Runs a vCPU until the guest leaves or `time` is over.
fn run_for<C: Vcpu>(vcpu: &mut C, time: Duration) -> Result<VmExit, String> {
    let _deadline = Deadline::new(Instant::now() + time, vcpu.kick_handle()).unwrap();
    vcpu.run(VmEntry::Resume).map_err(|error| chain(&error))
}

fn the_descriptor_thread_cannot_be_signalled_by_its_guest<H: Hypervisor>(h: &H) {
    let config = VmConfig {
        irqchip: Irqchip::Full,
        ram_size: RAM,
        ..VmConfig::default()
    };
    let (vm, sandbox) = with_sandbox(h, &config);
    let own = u64::from(sandbox.cast_unsigned());
    let signal = u64::from(libc::SIGUSR2.cast_unsigned());
    let mut vcpu = caller(&vm, [234, own, own, signal]);
    std::thread::scope(|scope| {
        let vcpu = scope.spawn(|| run_for(&mut vcpu, LIMIT / 2));
        let bell = event();
        for _ in 0..20 {
            let begin = Instant::now();
            // The sandbox is likely to end meanwhile.
            let registered = vm.register_ioevent(&bell, PLACE, ANY, Sharing::Exclusive);
            if registered.is_ok() {
                let _ = vm.unregister_ioevent(&bell, PLACE, ANY);
            }
            assert!(begin.elapsed() < SECONDS, "{:?}", begin.elapsed());
        }
        let end = vcpu.join().unwrap().expect_err("an end");
        assert!(end.contains("SIGSYS"), "{end}");
    });
    drop(vcpu);
    drop(vm);
    await_gone(sandbox);
}

fn the_descriptor_thread_handles_no_signal<H: Hypervisor>(h: &H) {
    let (vm, sandbox) = with_sandbox(h, &VmConfig::default());
    for thread in std::fs::read_dir(format!("/proc/{sandbox}/task")).unwrap() {
        let thread = thread.unwrap();
        let status = std::fs::read_to_string(thread.path().join("status")).unwrap();
        let mask = status.lines().find_map(|line| line.strip_prefix("SigBlk:"));
        let mask = u64::from_str_radix(mask.unwrap().trim(), 16).unwrap();
        // SIGKILL and SIGSTOP cannot be blocked.
        let expected = if thread.file_name() == *sandbox.to_string() {
            !(1 << (libc::SIGKILL - 1) | 1 << (libc::SIGSTOP - 1))
        } else {
            0
        };
        assert_eq!(mask, expected, "{status}");
    }
    let bell = event();
    for _ in 0..100 {
        // SAFETY: no pointers.
        unsafe { libc::syscall(libc::SYS_tgkill, sandbox, sandbox, libc::SIGUSR2) };
        vm.register_ioevent(&bell, PLACE, ANY, Sharing::Exclusive)
            .unwrap();
        vm.unregister_ioevent(&bell, PLACE, ANY).unwrap();
    }
}

crate::on_usermode! {
    the_descriptor_thread_cannot_be_signalled_by_its_guest;
    the_descriptor_thread_handles_no_signal;
}
