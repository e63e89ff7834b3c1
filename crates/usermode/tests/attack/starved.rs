//! Sandboxes whose threads get no CPU for longer than a normal host would leave them without one: registrations and
//! removals wait for them and succeed.
//!
//! A tracer that stops a thread simulates a scheduler that does not run it. The test cannot starve the thread
//! otherwise: how long a runnable thread waits for a CPU is up to the kernel's scheduler.
#![allow(unsafe_code)]

use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use vmbell::doorbell::{Datamatch, IoEventAddress, Sharing};
use vmbell::irq::Gsi;
use vmbell_guest::Parameters;
use vmbell_hypervisor::{Error, Hypervisor, Irqchip, Vm, VmConfig, VmEntry};
use vmm_sys_util::eventfd::EventFd;

use testbed::process::{tasks, with_sandbox};
use testbed::{event, programs, start};

/// Longer than a second: a removal that waits for at most a second would fail.
const HELD: Duration = Duration::from_millis(2500);

/// Stops a thread of the sandbox as its tracer, calls `held`, and releases it after [`HELD`].
fn hold(thread: libc::pid_t, held: impl FnOnce()) {
    let trace = |request: libc::c_uint| {
        let null = std::ptr::null_mut::<libc::c_void>();
        // SAFETY: these requests take no pointers; the thread belongs to a child of this process.
        let result = unsafe { libc::ptrace(request, thread, null, null) };
        assert!(result >= 0, "{}", std::io::Error::last_os_error());
    };
    trace(libc::PTRACE_SEIZE);
    trace(libc::PTRACE_INTERRUPT);
    // SAFETY: a null status pointer asks for no status.
    let stopped = unsafe { libc::waitpid(thread, std::ptr::null_mut(), libc::__WALL) };
    assert_eq!(stopped, thread, "{}", std::io::Error::last_os_error());
    held();
    std::thread::sleep(HELD);
    trace(libc::PTRACE_DETACH);
}

/// Runs `body` while the vCPU's thread of a spinning guest is held.
fn while_held<H: Hypervisor, R>(
    h: &H,
    before: impl FnOnce(&Arc<dyn Vm>) -> Result<R, Error>,
    body: impl FnOnce(&Arc<dyn Vm>, R) -> Result<(), Error>,
) {
    let config = VmConfig {
        irqchip: Irqchip::Full,
        ..VmConfig::default()
    };
    let (vm, sandbox) = with_sandbox(h, &config);
    let mut vcpu = start(&vm, programs::spin(), Parameters::default(), 0);
    let registered = before(&vm).unwrap();
    let threads = tasks(sandbox);
    let [thread] = threads[1..] else {
        panic!("more than one vcpu: {threads:?}");
    };
    let kick = vcpu.kick_handle();
    let result = std::thread::scope(|scope| {
        let guest = scope.spawn(move || vcpu.run(VmEntry::Resume));
        let (sender, held) = channel();
        scope.spawn(move || hold(thread, || sender.send(()).unwrap()));
        held.recv().unwrap();
        let result = body(&vm, registered);
        kick.kick();
        guest.join().unwrap().unwrap();
        result
    });
    result.unwrap();
}

const PLACE: IoEventAddress = IoEventAddress::Pio(0x500);

pub fn a_removed_doorbell_waits_for_a_vcpu_that_gets_no_cpu<H>(h: &H)
where
    H: Hypervisor,
{
    let (bell, any) = (event(), Datamatch::U8(None));
    let register = |vm: &Arc<dyn Vm>, event: &Arc<EventFd>| {
        vm.register_ioevent(event, PLACE, any, Sharing::Exclusive)
    };
    while_held(
        h,
        |vm| register(vm, &bell),
        |vm, mut doorbell| {
            doorbell.remove()?;
            register(vm, &event()).map(drop)
        },
    );
}

pub fn a_removed_irqfd_waits_for_a_vcpu_that_gets_no_cpu<H>(h: &H)
where
    H: Hypervisor,
{
    let (irqfd, resample, gsi) = (event(), event(), Gsi::new(4).unwrap());
    while_held(
        h,
        |vm| vm.register_irqfd(&irqfd, gsi, Some(&resample)),
        |_, mut irqfd| irqfd.remove(),
    );
}
