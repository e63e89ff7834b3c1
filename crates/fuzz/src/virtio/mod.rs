//! A virtio device on PCI with a driver that does anything: any access to its configuration space and its BAR, anything
//! in its rings, any features. The device does not panic or report an error of the host. Its host side stays intact
//! (`host.rs`), and after a reset it serves a correct driver.

mod backend;
mod host;
mod machine;

use std::time::{Duration, Instant};

use vm_memory::{Bytes, GuestAddress};
use vmbell_virtqueue::{
    Brand, Buffer, Driver, PackedDriver, PackedLayout, Side, SplitDriver, SplitLayout, brand,
};

use self::host::{Host, Kind};
use self::machine::{Choice, Machine, QUEUES_END};
use super::input::{Input, TABLES};

/// A request that takes longer than this has hung, even on a busy host.
const HANG: Duration = Duration::from_secs(120);

/// Does one run, as `data` decides.
pub fn fuzz(data: &[u8]) {
    let mut input = Input(data);
    let choice = input.byte();
    let kind = Kind::from(choice);
    let (mut machine, mut host) = Machine::new(kind, choice >> 3);
    while input.more() {
        session(&mut machine, &mut host, &mut input);
    }
    machine.root.reset();
    host.check();
    let sound = Choice::sound(host.sound_queue());
    drive(&mut machine, &sound, |machine, driver| {
        recover(machine, &mut host, driver);
    });
}

/// Runs a driver that begins as it must, and then does anything.
fn session(machine: &mut Machine, host: &mut Host, input: &mut Input<'_>) {
    let choice = Choice::any(input);
    if input.byte() & 1 == 0 {
        machine.root.reset();
    }
    drive(machine, &choice, |machine, driver| {
        while input.more() && act(machine, host, driver, &choice, input) {
            host.check();
        }
    });
}

/// Sets the device up as chosen, and calls `with` with the driver's side of the queue.
fn drive(machine: &mut Machine, choice: &Choice, with: impl FnOnce(&mut Machine, &mut dyn Rings)) {
    let memory = machine.memory.clone();
    let features = choice.features;
    brand::scoped(|brand| {
        if choice.packed {
            let layout = PackedLayout::contiguous(choice.base(), choice.size);
            let mut driver = PackedDriver::new(&memory, &layout, features, brand).unwrap();
            if features.indirect {
                driver = driver.with_indirect_tables(TABLES, 4).unwrap();
            }
            let places = [layout.descriptors, layout.driver_event, layout.device_event];
            machine.set_up(choice, places);
            with(machine, &mut driver);
        } else {
            let layout = SplitLayout::contiguous(choice.base(), choice.size);
            let mut driver = SplitDriver::new(&memory, &layout, features, brand).unwrap();
            if features.indirect {
                driver = driver.with_indirect_tables(TABLES, 4).unwrap();
            }
            machine.set_up(choice, [layout.descriptors, layout.avail, layout.used]);
            with(machine, &mut driver);
        }
    });
}

/// The driver's side of a queue of either format.
trait Rings {
    fn add(&mut self, readable: &[Buffer], writable: &[Buffer]) -> bool;

    /// Takes back a buffer, and returns how many bytes were written to it.
    fn take(&mut self) -> Option<u32>;
}

impl<S: Side, B: Brand> Rings for Driver<(), S, B> {
    fn add(&mut self, readable: &[Buffer], writable: &[Buffer]) -> bool {
        Self::add(self, readable, writable, ()).is_ok()
    }

    fn take(&mut self) -> Option<u32> {
        self.get_used().ok().flatten().map(|used| used.len)
    }
}

/// Does one action. Returns false at the end of the session.
fn act(
    machine: &mut Machine,
    host: &mut Host,
    driver: &mut dyn Rings,
    choice: &Choice,
    input: &mut Input<'_>,
) -> bool {
    let queue = choice.queue;
    match input.byte() % 15 {
        0..=3 => {
            let (readable, writable) = host.request(&machine.memory, input);
            driver.add(&readable, &writable);
            machine.notify(queue);
        }
        4 => {
            driver.add(&input.buffers(), &input.buffers());
            machine.notify(queue);
        }
        5 => machine.notify(input.byte().into()),
        6 | 7 => input.scribble(&machine.memory, QUEUES_END),
        8 => {
            let (at, width, value) = (input.byte() % 64, input.byte(), input.word());
            machine.access(at.into(), width, value.into());
        }
        9 => {
            let value = [(); 4].map(|()| u64::from(input.word()));
            let value = value.iter().fold(0, |all, word| all << 16 | word);
            machine.access(u64::from(input.word()) % 0x8100, input.byte(), value);
        }
        10 => machine.configure(input.byte(), input.byte(), input.word()),
        11 => machine.program_vector(input.byte(), input.byte()),
        12 => machine.open_window(input.byte(), input.byte()),
        13 => {
            host.event(input);
            machine.backlog.serve();
        }
        _ => {
            driver.take();
            return !input.byte().is_multiple_of(8);
        }
    }
    true
}

/// Makes a request as a correct driver does; the device has to answer it.
fn recover(machine: &mut Machine, host: &mut Host, driver: &mut dyn Rings) {
    const AT: u64 = 0x1000;
    const ROOM: u64 = 0x2000;
    let (request, room) = host.sound_request();
    machine
        .memory
        .write_slice(&request, GuestAddress(AT))
        .unwrap();
    let readable = [Buffer::new(AT, u32::try_from(request.len()).unwrap())];
    let writable = [Buffer::new(ROOM, room)];
    let pieces = |pieces: &[Buffer]| -> Vec<Buffer> {
        let filled = pieces.iter().filter(|piece| piece.len > 0);
        filled.copied().collect()
    };
    assert!(driver.add(&pieces(&readable), &pieces(&writable)));
    machine.notify(host.sound_queue());
    let begun = Instant::now();
    let used = loop {
        if let Some(used) = driver.take() {
            break used;
        }
        if begun.elapsed() > HANG {
            panic!("hangs: no answer after a reset");
        }
        std::thread::yield_now();
    };
    assert_eq!(used, room);
    host.check_sound(&request);
}
