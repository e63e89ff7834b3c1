//! The end of a sandbox, of a monitor, and of the thread that made a guest.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::Signal;
use testbed::Usermode;
use vmbell::doorbell::{Datamatch, IoEventAddress, Sharing};
use vmbell::irq::Gsi;
use vmbell_guest::{PARAMETERS, Parameters, Results};
use vmbell_hypervisor::{Hypervisor, Irqchip, VmConfig, VmEntry};

use testbed::process::{children_of, exists, signal, stat, stop, with_sandbox};
use testbed::script::{Op, Player};
use testbed::{await_that, begin, chain, count, event, kick_if_hung, programs, start};

fn a_killed_sandbox_is_an_error_on_every_vcpu<H: Hypervisor>(h: &H) {
    let (vm, sandbox) = with_sandbox(
        h,
        &VmConfig {
            vcpus: 3,
            ..VmConfig::default()
        },
    );
    let mut vcpus = vec![start(&vm, programs::spin(), Parameters::default(), 0)];
    vcpus.push(begin(&vm, 1));
    let mut idle = begin(&vm, 2);
    let threads: Vec<_> = vcpus
        .into_iter()
        .map(|mut vcpu| {
            std::thread::spawn(move || vcpu.run(VmEntry::Resume).map_err(|error| chain(&error)))
        })
        .collect();
    let rings = || Results::read(vm.memory(), PARAMETERS).unwrap().rings;
    await_that("a guest to run", || rings() > 0);
    signal(sandbox, Signal::KILL).unwrap();
    for thread in threads {
        let end = thread.join().unwrap().expect_err("an end");
        assert!(
            end.contains("the sandbox ended: killed by SIGKILL"),
            "{end}"
        );
    }
    let end = chain(&idle.run(VmEntry::Resume).expect_err("an end"));
    assert!(end.contains("the sandbox ended"), "{end}");
    let place = IoEventAddress::Pio(1);
    let error = vm
        .register_ioevent(&event(), place, Datamatch::AnyLength, Sharing::Exclusive)
        .expect_err("an end");
    assert!(
        chain(&error).contains("the sandbox ended"),
        "{}",
        chain(&error)
    );
    drop(idle);
    drop(vm);
    assert!(!exists(sandbox), "a zombie");
}

fn a_sandbox_ends_with_its_guest<H: Hypervisor>(h: &H) {
    let (vm, sandbox) = with_sandbox(
        h,
        &VmConfig {
            vcpus: 2,
            ..VmConfig::default()
        },
    );
    let vcpu = vm.create_vcpu(0).unwrap();
    drop(vm);
    drop(vcpu);
    assert!(!exists(sandbox), "a zombie");
}

fn a_stopped_sandbox_goes_on<H: Hypervisor>(h: &H) {
    let (vm, sandbox) = with_sandbox(h, &VmConfig::default());
    let mut player = Player::new(&vm);
    player.play(&[]);
    for _ in 0..3 {
        stop(sandbox);
        signal(sandbox, Signal::CONT).unwrap();
        let event = event();
        let (place, datamatch) = (IoEventAddress::Pio(0x500), Datamatch::U8(None));
        let mut doorbell = vm
            .register_ioevent(&event, place, datamatch, Sharing::Exclusive)
            .unwrap();
        assert_eq!(player.play(&[Op::Out(1, 0x500, 1)]), []);
        assert_eq!(count(&event), 1);
        doorbell.remove().unwrap();
    }
}

fn a_removal_from_a_stopped_sandbox_is_finished_by_a_retry<H: Hypervisor>(h: &H) {
    let (vm, sandbox) = with_sandbox(h, &VmConfig::default());
    let mut player = Player::new(&vm);
    player.play(&[]);
    let (bell, other) = (event(), event());
    let (place, datamatch) = (IoEventAddress::Pio(0x500), Datamatch::U8(None));
    let register = |event| vm.register_ioevent(event, place, datamatch, Sharing::Exclusive);
    let mut doorbell = register(&bell).unwrap();
    stop(sandbox);
    for _ in 0..2 {
        let error = chain(&doorbell.remove().expect_err("the sandbox is stopped"));
        assert!(error.contains("not removed yet"), "{error}");
        assert!(error.contains("the sandbox is stopped"), "{error}");
    }
    // It keeps its place.
    let error = chain(&register(&other).expect_err("the place is taken"));
    assert!(error.contains("already there"), "{error}");
    signal(sandbox, Signal::CONT).unwrap();
    for _ in 0..2 {
        doorbell.remove().unwrap();
    }
    let _other = register(&other).unwrap();
    // This does not remove the doorbell that has its place now.
    drop(doorbell);
    assert_eq!(player.play(&[Op::Out(1, 0x500, 1)]), []);
    assert_eq!((count(&bell), count(&other)), (0, 1));
}

fn a_doorbell_that_a_stopped_sandbox_keeps_is_dropped_without_another_try<H: Hypervisor>(h: &H) {
    let (place, datamatch) = (IoEventAddress::Pio(0x500), Datamatch::U8(None));
    for removes in [true, false] {
        let (vm, sandbox) = with_sandbox(h, &VmConfig::default());
        let mut player = Player::new(&vm);
        player.play(&[]);
        let (bell, other) = (event(), event());
        let register = |event| vm.register_ioevent(event, place, datamatch, Sharing::Exclusive);
        let mut doorbell = register(&bell).unwrap();
        stop(sandbox);
        if removes {
            doorbell.remove().unwrap_err();
            signal(sandbox, Signal::CONT).unwrap();
        }
        // The sandbox runs again after a removal that failed, so another try would free the place.
        drop(doorbell);
        signal(sandbox, Signal::CONT).unwrap();
        let error = chain(&register(&other).expect_err("the place is taken"));
        assert!(error.contains("already there"), "{error}");
        let exits = player.play(&[Op::Out(1, 0x500, 1)]);
        assert_eq!((exits.len(), count(&bell), count(&other)), (1, 0, 0));
    }
}

fn a_removal_from_a_sandbox_that_is_being_killed_succeeds<H: Hypervisor>(h: &H) {
    let (place, datamatch) = (IoEventAddress::Pio(0x500), Datamatch::U8(None));
    for _ in 0..100 {
        let (vm, sandbox) = with_sandbox(h, &VmConfig::default());
        let bell = event();
        let mut doorbell = vm
            .register_ioevent(&bell, place, datamatch, Sharing::Exclusive)
            .unwrap();
        signal(sandbox, Signal::KILL).unwrap();
        doorbell.remove().unwrap();
    }
}

fn a_guest_outlives_the_thread_that_made_it<H: Hypervisor + Copy + Send + 'static>(h: &H) {
    let hypervisor = *h;
    let (vm, sandbox) = std::thread::spawn(move || with_sandbox(&hypervisor, &VmConfig::default()))
        .join()
        .unwrap();
    std::thread::sleep(Duration::from_millis(50));
    let mut player = Player::new(&vm);
    assert_eq!(player.play(&[Op::Out(1, 0x10, 1)]).len(), 1);
    assert!(exists(sandbox));
}

fn a_sandbox_has_no_files_but_its_doorbells<H: Hypervisor>(h: &H) {
    let (vm, sandbox) = with_sandbox(h, &VmConfig::default());
    let mut player = Player::new(&vm);
    player.play(&[]);
    let files = || {
        std::fs::read_dir(format!("/proc/{sandbox}/fd"))
            .unwrap()
            .count()
    };
    assert_eq!(files(), 0);
    let _doorbell = vm
        .register_ioevent(
            &event(),
            IoEventAddress::Pio(1),
            Datamatch::AnyLength,
            Sharing::Exclusive,
        )
        .unwrap();
    assert_eq!(files(), 1);
}

fn a_resamplefd_of_a_stopped_sandbox_is_taken_back_by_a_retry<H: Hypervisor>(h: &H) {
    let config = VmConfig {
        irqchip: Irqchip::Full,
        ..VmConfig::default()
    };
    let (vm, sandbox) = with_sandbox(h, &config);
    let (irqfd, resample, gsi) = (event(), event(), Gsi::new(4).unwrap());
    let register = || vm.register_irqfd(&irqfd, gsi, Some(&resample));
    let mut registered = register().unwrap();
    stop(sandbox);
    for _ in 0..2 {
        let error = chain(&registered.remove().expect_err("the sandbox is stopped"));
        assert!(error.contains("not removed yet"), "{error}");
    }
    let error = chain(&register().expect_err("it is not removed yet"));
    assert!(error.contains("is an irqfd already"), "{error}");
    signal(sandbox, Signal::CONT).unwrap();
    for _ in 0..2 {
        registered.remove().unwrap();
        registered = register().unwrap();
    }
}

testbed::on_usermode! {
    a_killed_sandbox_is_an_error_on_every_vcpu;
    a_sandbox_ends_with_its_guest;
    a_stopped_sandbox_goes_on;
    a_removal_from_a_stopped_sandbox_is_finished_by_a_retry;
    a_doorbell_that_a_stopped_sandbox_keeps_is_dropped_without_another_try;
    a_resamplefd_of_a_stopped_sandbox_is_taken_back_by_a_retry;
    a_removal_from_a_sandbox_that_is_being_killed_succeeds;
    a_guest_outlives_the_thread_that_made_it;
    a_sandbox_has_no_files_but_its_doorbells;
}

/// Set in the process that this test starts, itself, to be killed.
const VICTIM: &str = "VMBELL_TEST_MONITOR_TO_KILL";

#[test]
fn a_killed_monitor_leaves_no_sandbox() {
    if std::env::var_os(VICTIM).is_some() {
        let (vm, sandbox) = with_sandbox(&Usermode, &VmConfig::default());
        let mut vcpu = start(&vm, programs::spin(), Parameters::default(), 0);
        println!("sandbox {sandbox}");
        // Killed long before; the loop ends by itself in any case.
        let _end = kick_if_hung(vcpu.kick_handle());
        vcpu.run(VmEntry::Resume).unwrap();
        return;
    }
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([
        "--exact",
        "attack::expected::death::a_killed_monitor_leaves_no_sandbox",
        "--nocapture",
    ]);
    command.env(VICTIM, "1").stdout(Stdio::piped());
    let mut monitor = command.spawn().unwrap();
    let output = BufReader::new(monitor.stdout.take().unwrap());
    let sandbox = output
        .lines()
        .find_map(|line| line.unwrap().rsplit_once("sandbox ")?.1.trim().parse().ok());
    let sandbox = sandbox.expect("the victim says its sandbox's number");
    assert!(exists(sandbox) && children_of(monitor.id().cast_signed()).contains(&sandbox));
    monitor.kill().unwrap();
    monitor.wait().unwrap();
    // It is init's child now, and init may take its time to reap it.
    await_that("the sandbox to end with its monitor", || {
        stat(sandbox).is_none_or(|stat| ["Z", "X"].contains(&&*stat[0]))
    });
}
