//! Guests and their vCPUs as a round uses them: each call to the backend is watched.

use std::sync::Arc;
use std::time::{Duration, Instant};

use testbed::Deadline;
use testbed::Usermode;
use vmbell::doorbell::{Datamatch, IoEventAddress, Sharing};
use vmbell_hypervisor::{Irqchip, PatchMode, SpinPolicy, Vcpu, Vm, VmConfig, VmEntry, VmExit};

use crate::attack::random::Random;
use crate::attack::watch::Watch;
use testbed::process::{await_gone, with_sandbox};
use testbed::script::{Op, Player};
use testbed::{chain, count, event};

/// Returns random settings of a guest.
pub fn config(random: &mut Random, irqchips: &[Irqchip]) -> VmConfig {
    let vcpus = 1 + u32::from(random.once_in(2));
    let patches = [PatchMode::Off, PatchMode::Int3, PatchMode::Jmp];
    VmConfig {
        ram_size: 4 << 20,
        irqchip: random.pick(irqchips),
        pv_eoi: !random.once_in(4),
        vcpus,
        patch: random.pick(&patches),
        spin: random.pick(&[SpinPolicy::Sleep, SpinPolicy::OneCpu, SpinPolicy::Adaptive]),
        ..VmConfig::default()
    }
}

/// Makes a guest.
pub fn create(watch: &Watch, config: &VmConfig) -> (Arc<dyn Vm>, i32) {
    watch.call("create_vm", || with_sandbox(&Usermode, config))
}

/// Runs a vCPU until its guest ends or `end` is reached.
pub fn run_until(watch: &Watch, vcpu: &mut Box<dyn Vcpu>, end: Instant) {
    let _deadline = Deadline::new(end, vcpu.kick_handle()).unwrap();
    let mut exits = 0;
    while Instant::now() < end {
        match watch.call("run", || vcpu.run(VmEntry::Data(exits))) {
            Ok(VmExit::Fault(_)) => return watch.note("run: a fault"),
            Ok(_) => exits += 1,
            Err(error) => return watch.note(format!("run: {}", kind(&error))),
        }
    }
    watch.note("run: the time is over");
}

/// Returns the text of an error without its numbers.
pub fn kind(error: &dyn std::error::Error) -> String {
    let text = chain(error);
    let words = text.split_whitespace().map(|word| {
        let number = word.contains(|letter: char| letter.is_ascii_digit());
        if number { "#" } else { word }
    });
    words.collect::<Vec<_>>().join(" ").replace(';', ",")
}

/// Counts the result of a call.
pub fn note<T, E: std::error::Error>(watch: &Watch, name: &str, result: &Result<T, E>) {
    match result {
        Ok(_) => watch.note(format!("{name}: ok")),
        Err(error) => watch.note(format!("{name}: {}", kind(error))),
    }
}

/// Ends a guest, and waits for the end of its sandbox.
pub fn end(watch: &Watch, vm: Arc<dyn Vm>, vcpus: Vec<Box<dyn Vcpu>>, sandbox: i32) {
    watch.call("drop", || {
        drop(vcpus);
        drop(vm);
    });
    await_gone(sandbox);
}

/// Checks that an honest guest is served normally.
pub fn a_good_guest_rings(watch: &Watch) {
    let config = VmConfig {
        irqchip: Irqchip::Full,
        ..VmConfig::default()
    };
    let (vm, sandbox) = create(watch, &config);
    let (place, datamatch) = (IoEventAddress::Pio(0x500), Datamatch::U32(None));
    let event = event();
    let mut doorbell = vm
        .register_ioevent(&event, place, datamatch, Sharing::Exclusive)
        .unwrap();
    let mut player = Player::new(&vm);
    let exits = watch.call("run", || {
        player.play(&[Op::Out(4, 0x500, 7), Op::Out(4, 0x501, 7)])
    });
    assert_eq!((exits.len(), count(&event)), (1, 1));
    doorbell.remove().unwrap();
    drop(player);
    end(watch, vm, Vec::new(), sandbox);
}

/// Pauses for `time`, but not after `end`.
pub fn pause_until(time: Duration, end: Instant) {
    crate::attack::random::pause(time.min(end.saturating_duration_since(Instant::now())));
}
