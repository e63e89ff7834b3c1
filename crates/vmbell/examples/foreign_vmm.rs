//! Doorbells and devices in another VMM: it has a vCPU and exits of its own, and asks this library only which
//! eventfd or device a guest's access is for. No backend of vmbell runs.

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

use vmbell::bus::{Bus, BusDevice, BusRange};
use vmbell::doorbell::{Datamatch, DoorbellSet, IoEventAddress, Sharing};
use vmbell::eventfd::{EFD_NONBLOCK, EventFd};

/// The exits of the other VMM.
enum Exit {
    Write { address: u64, data: Vec<u8> },
    Read { address: u64, len: usize },
}

/// The vCPU of the other VMM: here a list of exits, and the answers to its reads.
struct OtherVcpu {
    exits: std::vec::IntoIter<Exit>,
    answers: Vec<Vec<u8>>,
}

impl OtherVcpu {
    fn run(&mut self) -> Option<Exit> {
        self.exits.next()
    }
}

/// A device of one register.
struct Register(AtomicU8);

impl BusDevice for Register {
    fn read(&self, _offset: u64, data: &mut [u8]) {
        data.fill(self.0.load(Relaxed));
    }

    fn write(&self, _offset: u64, data: &[u8]) {
        self.0.store(data[0], Relaxed);
    }
}

const NOTIFY: u64 = 0xd000_0050;
const REGISTER: u64 = 0xd000_1000;

/// What became of the exits.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// How often each of two queues was rung.
    pub rings: [u64; 2],
    /// The answers to the guest's reads.
    pub answers: Vec<Vec<u8>>,
    /// Accesses that were for nobody.
    pub unclaimed: u32,
}

/// The thread of a vCPU, with a reader of the doorbells and one of the bus for itself. Neither takes a lock.
fn run_vcpu(vcpu: &mut OtherVcpu, doorbells: &DoorbellSet, bus: &Bus) -> u32 {
    let (mut bell, mut devices) = (doorbells.bell(), bus.reader());
    let mut unclaimed = 0;
    // While the guest runs, this thread holds no device: another thread may remove one.
    while let Some(exit) = devices.idle(|| vcpu.run()) {
        let claimed = match exit {
            // First the doorbells, as the kernel does: a write that rings reaches no device.
            Exit::Write { address, data } => {
                bell.ring(IoEventAddress::Mmio(address), &data) || devices.write(address, &data)
            }
            Exit::Read { address, len } => {
                let mut data = vec![0xff; len];
                let claimed = devices.read(address, &mut data);
                vcpu.answers.push(data);
                claimed
            }
        };
        unclaimed += u32::from(!claimed);
    }
    unclaimed
}

/// Sets two queues and a device up, and runs a guest.
pub fn run() -> Result<Outcome, Box<dyn Error>> {
    // One address for both queues; the value says which.
    let doorbells = DoorbellSet::new();
    let queues = [EventFd::new(EFD_NONBLOCK)?, EventFd::new(EFD_NONBLOCK)?];
    for (queue, index) in queues.iter().zip(0..) {
        let (place, value) = (IoEventAddress::Mmio(NOTIFY), Datamatch::U32(Some(index)));
        doorbells.register(queue, place, value, Sharing::Exclusive)?;
    }
    let bus = Bus::new();
    let register = Arc::new(Register(AtomicU8::new(0)));
    bus.insert(BusRange::new(REGISTER, 4)?, register)?;

    let write = |address, data: &[u8]| Exit::Write {
        address,
        data: data.to_vec(),
    };
    let exits = vec![
        write(NOTIFY, &1_u32.to_le_bytes()),
        write(NOTIFY, &1_u32.to_le_bytes()),
        write(NOTIFY, &2_u32.to_le_bytes()), // There is no queue 2.
        write(REGISTER, &[7]),
        Exit::Read {
            address: REGISTER,
            len: 2,
        },
    ];
    let mut vcpu = OtherVcpu {
        exits: exits.into_iter(),
        answers: Vec::new(),
    };
    let unclaimed = run_vcpu(&mut vcpu, &doorbells, &bus);
    // An eventfd whose count is 0 has nothing to read.
    let rings = queues.map(|queue| queue.read().unwrap_or(0));
    Ok(Outcome {
        rings,
        answers: vcpu.answers,
        unclaimed,
    })
}

/// Says what happened.
pub fn main() -> Result<(), Box<dyn Error>> {
    println!("{:?}", run()?);
    Ok(())
}
