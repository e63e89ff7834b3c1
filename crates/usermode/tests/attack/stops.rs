//! Sandboxes that another process stops and continues at any moment: no ring is lost or comes twice, and none comes
//! after a removal that has returned.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use stub::layout::{SHARED_BASE, SharedState};
use vm_memory::{Bytes, GuestAddress};
use vmbell::doorbell::{Datamatch, IoEventAddress, Sharing};
use vmbell::irq::Gsi;
use vmbell_guest::{DONE_PORT, PARAMETERS, Parameters, Results, offset};
use vmbell_hypervisor::{
    Doorbell, Hypervisor, Irqchip, PatchMode, Vcpu, Vm, VmConfig, VmEntry, VmExit,
};
use vmm_sys_util::eventfd::EventFd;

use crate::attack::bells::PLACES;
use crate::attack::random::{Random, pause};
use crate::attack::scatter;
use crate::attack::vcpus::{config, create, end, note, run_until};
use crate::attack::watch::Watch;
use testbed::process::{signal, stop, with_sandbox};
use testbed::script::{Op, Player};
use testbed::{HOLE, chain, count, event, programs, start};

/// What another process does to a sandbox.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Somebody {
    /// Stops the sandbox and continues it, each for at most this time.
    Stops(Duration),
    /// Like `Stops`, but some of its stops are longer than the backend waits for a stopped sandbox.
    StopsLong,
    /// Continues the sandbox, even if another process stopped it.
    Continues,
}

impl Somebody {
    /// Acts again and again for a while; at the end the sandbox continues.
    fn act(self, sandbox: i32, random: &mut Random, over: &AtomicBool) {
        let signal = |number| {
            // The monitor may have killed the sandbox.
            let _ = signal(sandbox, number);
        };
        // Long after the round is over, or in the middle of it.
        let until =
            Instant::now() + random.pick(&[Duration::from_millis(100), Duration::from_secs(60)]);
        let mut more = true;
        // At least once.
        while more {
            more = !over.load(Relaxed) && (Instant::now() < until || self == Self::Continues);
            let most = match self {
                Self::Stops(most) => most,
                Self::StopsLong => Duration::from_millis(5),
                Self::Continues => Duration::from_micros(20),
            };
            if self != Self::Continues {
                signal(Signal::STOP);
                pause(if self == Self::StopsLong && random.once_in(4) {
                    Duration::from_millis(900 + random.below(1600))
                } else {
                    random.time(most)
                });
            }
            signal(Signal::CONT);
            // Each further stop is answered at once.
            for _ in 0..random.below(32) {
                pause(random.time(Duration::from_micros(20)));
                signal(Signal::CONT);
            }
            pause(random.time(most));
        }
    }
}

/// A guest that rings, and all doorbells that it rang.
struct Ringing<'r> {
    watch: &'r Watch,
    vm: &'r Arc<dyn Vm>,
    place: usize,
    /// All doorbells that were registered.
    bells: Vec<Bell>,
    rings: u64,
}

/// A doorbell whose registration succeeded or failed.
struct Bell {
    event: Arc<EventFd>,
    /// `None` if the registration failed.
    doorbell: Option<Doorbell>,
    /// Whether the doorbell's removal has returned `Ok`.
    is_removed: bool,
}

impl Ringing<'_> {
    fn look(&mut self) {
        for bell in &self.bells {
            let count = count(&bell.event);
            assert!(
                count == 0 || !bell.is_removed,
                "{count} rings after a removal that returned"
            );
            self.rings += count;
        }
    }

    /// Registers a new eventfd, and removes it after `time`.
    fn come_and_go(&mut self, time: Duration) -> Result<(), String> {
        let (place, datamatch) = PLACES[self.place];
        let event = event();
        let result = self.watch.call("register_ioevent", || {
            self.vm
                .register_ioevent(&event, place, datamatch, Sharing::Exclusive)
        });
        note(self.watch, "register_ioevent", &result);
        let (doorbell, result) = match result {
            Ok(doorbell) => (Some(doorbell), Ok(())),
            Err(error) => (None, Err(chain(&error))),
        };
        self.bells.push(Bell {
            event,
            doorbell,
            is_removed: false,
        });
        result?;
        pause(time);
        self.look();
        self.remove(self.bells.len() - 1)
    }

    /// Removes the doorbells whose removal has failed.
    fn remove_all(&mut self) {
        for index in 0..self.bells.len() {
            let _ = self.remove(index);
        }
    }

    fn remove(&mut self, index: usize) -> Result<(), String> {
        let bell = &mut self.bells[index];
        let (Some(doorbell), false) = (&mut bell.doorbell, bell.is_removed) else {
            return Ok(());
        };
        let result = self.watch.call("Doorbell::remove", || doorbell.remove());
        note(self.watch, "Doorbell::remove", &result);
        // Rings that have arrived by now came before the removal.
        self.rings += count(&bell.event);
        bell.is_removed = result.is_ok();
        result.map_err(|error| chain(&error))
    }
}

/// Runs a guest that rings until it is told to end; returns its exits at that address.
fn ring(watch: &Watch, vcpu: &mut Box<dyn Vcpu>) -> Result<u64, String> {
    let mut exits = 0;
    loop {
        match watch.call("run", || vcpu.run(VmEntry::Resume)) {
            Ok(VmExit::PioOut {
                port: DONE_PORT,
                data,
                ..
            }) => {
                assert_eq!(data, 0, "a register changed");
                return Ok(exits);
            }
            Ok(
                VmExit::PioOut { port: 0x500, .. }
                | VmExit::MmioWrite { .. }
                | VmExit::Hypercall { .. },
            ) => exits += 1,
            Ok(VmExit::Kicked) => {}
            Ok(exit) => panic!("{exit:x?}"),
            Err(error) => return Err(chain(&error)),
        }
    }
}

pub fn a_sandbox_may_be_stopped_at_any_moment(watch: &'static Watch, random: &mut Random) {
    let hostile = random.once_in(12);
    let config = VmConfig {
        vcpus: 1 + u32::from(hostile),
        patch: if hostile {
            PatchMode::Off
        } else {
            random.pick(&[PatchMode::Off, PatchMode::Int3, PatchMode::Jmp])
        },
        ..config(random, &[Irqchip::None, Irqchip::Full])
    };
    let (vm, sandbox) = create(watch, &config);
    let place = usize::try_from(random.below(3)).unwrap();
    let parameters = Parameters {
        count: u64::MAX,
        address: [0x500, HOLE, 7][place],
        value: place as u64,
        pause: 0,
    };
    let mut vcpu = start(&vm, programs::storm(), parameters, 0);
    // Makes lookups look as if they never ended.
    let counters = std::mem::offset_of!(SharedState, lapics) as u64;
    let mut scribbler = hostile.then(|| scatter::take(&vm, 1, random, SHARED_BASE, counters, &[]));
    let mut ringing = Ringing {
        watch,
        vm: &vm,
        place,
        bells: Vec::new(),
        rings: 0,
    };
    let over = AtomicBool::new(false);
    let somebody = match random.below(12) {
        // A removal from such a guest also stops the sandbox.
        _ if hostile && random.once_in(2) => Somebody::Continues,
        0..3 => Somebody::Stops(Duration::from_micros(50)),
        3..6 => Somebody::Stops(Duration::from_millis(2)),
        6..9 => Somebody::Stops(Duration::from_millis(30)),
        9 => Somebody::StopsLong,
        _ => Somebody::Continues,
    };
    let (mut stops, mut bells) = (random.fork(), random.fork());
    let (exits, last) = std::thread::scope(|scope| {
        let guest = scope.spawn(|| ring(watch, &mut vcpu));
        if let Some(vcpu) = &mut scribbler {
            let until = Instant::now() + Duration::from_millis(1500);
            scope.spawn(move || run_until(watch, vcpu, until));
        }
        let stopper = scope.spawn(|| somebody.act(sandbox, &mut stops, &over));
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let until = Instant::now() + Duration::from_millis(150);
            let mut failed = false;
            for _ in 0..if hostile { 1 } else { 12 } {
                if Instant::now() > until && !hostile {
                    break;
                }
                let time = bells.time(Duration::from_millis(4));
                failed |= ringing.come_and_go(time).is_err();
                ringing.look();
            }
            failed
        }));
        over.store(true, Relaxed);
        stopper.join().unwrap();
        let failed = result.unwrap_or_else(|panic| {
            let _ = signal(sandbox, Signal::KILL);
            std::panic::resume_unwind(panic)
        });
        // The sandbox continues for good, so everything must work as if it had never stopped.
        let last = if failed {
            ringing.remove_all();
            ringing.come_and_go(Duration::from_millis(1))
        } else {
            Ok(())
        };
        let place = GuestAddress(PARAMETERS.0 + offset::PAUSE as u64);
        vm.memory().write_obj(1_u64, place).unwrap();
        (
            guest
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
            last,
        )
    });
    pause(Duration::from_micros(500));
    ringing.look();
    let rings = ringing.rings;
    if !hostile {
        match exits {
            Ok(exits) => {
                let all = Results::read(vm.memory(), PARAMETERS).unwrap().rings;
                assert_eq!(rings + exits, all, "{rings} signals and {exits} exits");
                assert_eq!(last, Ok(()), "an honest guest that continues");
                watch.note("honest: all counted");
            }
            Err(end) => {
                assert!(end.contains("the sandbox ended"), "{end}");
                watch.note(format!("honest: {end}"));
            }
        }
    }
    let vcpus = [vcpu].into_iter().chain(scribbler).collect();
    end(watch, vm, vcpus, sandbox);
}

pub fn a_stopped_sandbox_goes_on<H: Hypervisor>(h: &H) {
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

pub fn a_removal_from_a_stopped_sandbox_is_finished_by_a_retry<H: Hypervisor>(h: &H) {
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
    // The doorbell keeps its address.
    let error = chain(&register(&other).expect_err("the place is taken"));
    assert!(error.contains("already there"), "{error}");
    signal(sandbox, Signal::CONT).unwrap();
    for _ in 0..2 {
        doorbell.remove().unwrap();
    }
    let _other = register(&other).unwrap();
    // Dropping the old doorbell does not remove the doorbell that now has its address.
    drop(doorbell);
    assert_eq!(player.play(&[Op::Out(1, 0x500, 1)]), []);
    assert_eq!((count(&bell), count(&other)), (0, 1));
}

pub fn a_doorbell_that_a_stopped_sandbox_keeps_is_dropped_without_another_try<H: Hypervisor>(
    h: &H,
) {
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
        // The sandbox runs again after a failed removal, so another attempt would free the address.
        drop(doorbell);
        signal(sandbox, Signal::CONT).unwrap();
        let error = chain(&register(&other).expect_err("the place is taken"));
        assert!(error.contains("already there"), "{error}");
        let exits = player.play(&[Op::Out(1, 0x500, 1)]);
        assert_eq!((exits.len(), count(&bell), count(&other)), (1, 0, 0));
    }
}

pub fn a_resamplefd_of_a_stopped_sandbox_is_taken_back_by_a_retry<H: Hypervisor>(h: &H) {
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
