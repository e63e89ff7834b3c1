//! Everything except ports and memory: model-specific registers, halt, hypercalls, kicks.

use std::time::Duration;

use testbed::{Deadline, done};
use vm_memory::{Bytes, GuestAddress};
use vmbell::doorbell::{Datamatch, IoEventAddress, Sharing};
use vmbell_guest::{PARAMETERS, Parameters, Results};
use vmbell_hypervisor::{Capability, EntryPoint, Hypervisor, VmConfig, VmEntry, VmExit};

use testbed::script::{Op, Player};
use testbed::{AREA, configured, count, event, plain, programs, run_to_done, start, step};

#[cfg(target_arch = "x86_64")]
fn model_registers_halt_and_hypercalls<H: Hypervisor>(h: &H) {
    let vm = plain(h);
    let registers = h.support(Capability::RegisterExits).is_yes();
    let mut vcpu = start(
        &vm,
        programs::control(),
        Parameters {
            address: AREA,
            value: registers.into(),
            ..Parameters::default()
        },
        0,
    );
    let exits = run_to_done(&mut vcpu, |exit| match exit {
        VmExit::RegisterRead { .. } => VmEntry::Data(0x1122_3344_5566_7788),
        VmExit::Hypercall { argument, .. } => VmEntry::Data((argument * 3) | 1 << 63),
        _ => VmEntry::Resume,
    });
    let calls = (0..16).map(|argument| VmExit::Hypercall {
        number: 9,
        argument,
    });
    let first = [
        VmExit::RegisterRead { index: 0x10 },
        VmExit::RegisterWrite {
            index: 0x1b,
            data: 0x1122_3344_5566_7788,
        },
        VmExit::Halt,
    ];
    let first = first.into_iter().skip(if registers { 0 } else { 2 });
    assert_eq!(exits, first.chain(calls).collect::<Vec<_>>());
    let word = |index: u64| {
        vm.memory()
            .read_obj::<u64>(GuestAddress(AREA + 8 * index))
            .unwrap()
    };
    if registers {
        assert_eq!((word(0), word(1)), (0x5566_7788, 0x1122_3344));
    }
    assert_eq!(word(2), 77);
    for argument in 0..16 {
        assert_eq!(
            word(3 + argument),
            (argument * 3) | 1 << 63,
            "stack {argument} bytes off"
        );
    }
}

#[cfg(target_arch = "x86_64")]
fn a_hypercall_doorbell_rings_from_any_stack<H: Hypervisor>(h: &H) {
    let vm = plain(h);
    let event = event();
    let _doorbell = vm
        .register_ioevent(
            &event,
            IoEventAddress::Hypercall(9),
            Datamatch::U64(None),
            Sharing::Exclusive,
        )
        .unwrap();
    let mut vcpu = start(
        &vm,
        programs::control(),
        Parameters {
            address: AREA,
            value: 1,
            ..Parameters::default()
        },
        0,
    );
    let exits = run_to_done(&mut vcpu, |_| VmEntry::Data(1));
    assert_eq!((exits.len(), count(&event)), (3, 16));
    assert_eq!(
        vm.memory()
            .read_obj::<u64>(GuestAddress(AREA + 24))
            .unwrap(),
        0,
        "a doorbell answers 0"
    );
}

#[cfg(target_arch = "x86_64")]
fn a_halted_guest_goes_on_behind_it<H: Hypervisor>(h: &H) {
    let vm = plain(h);
    let mut player = Player::new(&vm);
    assert_eq!(
        player.play(&[Op::Halt, Op::Halt, Op::Out(1, 1, 1)])[..2],
        [VmExit::Halt, VmExit::Halt]
    );
}

fn a_kick_ends_a_loop_and_the_loop_goes_on<H: Hypervisor>(h: &H) {
    let vm = plain(h);
    let mut vcpu = start(&vm, programs::spin(), Parameters::default(), 0);
    let (mut before, mut advances) = (0, 0);
    // A kick of the previous round can arrive before the guest has run.
    while advances < 10 {
        let memory = vm.memory().clone();
        let advances_now = move || Results::read(&memory, PARAMETERS).unwrap().rings > before;
        let kick = Deadline::when(advances_now, vcpu.kick_handle()).unwrap();
        assert_eq!(vcpu.run(VmEntry::Resume).unwrap(), VmExit::Kicked);
        drop(kick);
        let rings = Results::read(vm.memory(), PARAMETERS).unwrap().rings;
        assert!(rings >= before, "{rings} after {before}");
        advances += u32::from(rings > before);
        before = rings;
    }
}

fn a_kick_before_the_entry_is_answered_at_once<H: Hypervisor>(h: &H) {
    let vm = plain(h);
    let mut vcpu = start(&vm, programs::spin(), Parameters::default(), 0);
    vcpu.kick_handle().kick();
    assert_eq!(vcpu.run(VmEntry::Resume).unwrap(), VmExit::Kicked);
    assert_eq!(
        Results::read(vm.memory(), PARAMETERS).unwrap().rings,
        0,
        "not an instruction"
    );
    vcpu.kick_handle().kick();
    std::thread::sleep(Duration::from_millis(20));
    assert_eq!(vcpu.run(VmEntry::Resume).unwrap(), VmExit::Kicked);
}

fn a_kick_does_not_lose_the_exit_it_meets<H: Hypervisor>(h: &H) {
    let vm = plain(h);
    let mut player = Player::new(&vm);
    let ops = [
        Op::Out(1, 0x10, 1),
        Op::In(4, 0x10),
        Op::Call(2, 3),
        Op::Load(8, testbed::HOLE),
    ];
    player.write(&ops);
    let kick = player.vcpu.kick_handle();
    let (mut exits, mut kicked) = (Vec::new(), 0);
    for round in 0.. {
        // A kick before every entry would keep the guest from executing anything.
        if round % 2 == 0 {
            kick.kick();
        }
        match step(&mut player.vcpu, VmEntry::Data(0x55)).unwrap() {
            VmExit::Kicked => kicked += 1,
            exit if done(&exit).is_some() => break,
            exit => exits.push(exit),
        }
    }
    assert_eq!(exits.len(), ops.len(), "{exits:x?}");
    assert!(kicked > 0);
    assert_eq!([1, 2, 3].map(|index| player.result(index)), [0x55; 3]);
}

fn a_vcpu_is_taken_once<H: Hypervisor>(h: &H) {
    let vm = configured(
        h,
        VmConfig {
            vcpus: 2,
            ..VmConfig::default()
        },
    );
    let first = vm.create_vcpu(0).unwrap();
    assert!(vm.create_vcpu(0).is_err());
    vm.create_vcpu(1).unwrap();
    let text = vm.create_vcpu(2).err().unwrap().to_string();
    assert!(text.contains('2'), "{text}");
    drop(first);
}

fn the_entry_point_is_set_before_the_first_run<H: Hypervisor>(h: &H) {
    let vm = plain(h);
    let mut player = Player::new(&vm);
    player.play(&[]);
    let error = player
        .vcpu
        .set_entry_point(EntryPoint::Secondary)
        .unwrap_err()
        .to_string();
    assert!(error.contains("entry point"), "{error}");
    player.play(&[]);
}

testbed::on_both! {
    #[cfg(target_arch = "x86_64")] model_registers_halt_and_hypercalls;
    #[cfg(target_arch = "x86_64")] a_halted_guest_goes_on_behind_it;
    a_kick_ends_a_loop_and_the_loop_goes_on;
    a_kick_before_the_entry_is_answered_at_once;
    a_kick_does_not_lose_the_exit_it_meets;
    a_vcpu_is_taken_once;
    the_entry_point_is_set_before_the_first_run;
}

#[cfg(target_arch = "x86_64")]
mod engine {
    use super::a_hypercall_doorbell_rings_from_any_stack;

    testbed::on_usermode! { a_hypercall_doorbell_rings_from_any_stack; }
}
