use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use vmbell::bus::{Backlog, Bus, BusDevice, BusRange, Work};

use super::*;

/// A vCPU that returns the exits of a script and records the answers.
#[derive(Debug, Default)]
struct Scripted {
    exits: VecDeque<VmExit>,
    entries: Vec<VmEntry>,
    kicked: Arc<AtomicBool>,
}

impl VcpuSnapshot for Scripted {
    fn save(&self) -> Result<VcpuState, Error> {
        unreachable!("no test saves it")
    }

    fn restore(&mut self, _: &VcpuState) -> Result<(), Error> {
        unreachable!("no test restores it")
    }
}

impl Vcpu for Scripted {
    fn set_entry_point(&mut self, _: EntryPoint) -> Result<(), Error> {
        Ok(())
    }

    fn set_interrupt_handler(&mut self, _: u64) -> Result<(), Error> {
        Ok(())
    }

    fn run(&mut self, entry: VmEntry) -> Result<VmExit, Error> {
        self.entries.push(entry);
        if self.kicked.swap(false, Ordering::Relaxed) {
            return Ok(VmExit::Kicked);
        }
        Ok(self.exits.pop_front().unwrap_or(VmExit::Halt))
    }

    fn is_kicked(&self) -> bool {
        self.kicked.load(Ordering::Relaxed)
    }

    fn kick_handle(&self) -> Arc<dyn Kick> {
        unreachable!("no test kicks by a handle")
    }
}

/// A register that holds the value of the last write.
#[derive(Debug, Default)]
struct Register(AtomicU64);

impl BusDevice for Register {
    fn read(&self, _: u64, data: &mut [u8]) {
        let value = self.0.load(Ordering::Relaxed).to_le_bytes();
        data.copy_from_slice(&value[..data.len()]);
    }

    fn write(&self, _: u64, data: &[u8]) {
        let mut value = [0; 8];
        value[..data.len()].copy_from_slice(data);
        self.0.store(u64::from_le_bytes(value), Ordering::Relaxed);
    }
}

/// Makes buses, each with an 8-byte register at address 0x10.
fn buses() -> Buses {
    let bus = || {
        let bus = Bus::default();
        let range = BusRange::new(0x10, 8).unwrap();
        bus.insert(range, Arc::new(Register::default())).unwrap();
        bus.reader()
    };
    Buses {
        pio: bus(),
        mmio: bus(),
        hypercall: bus(),
        backlog: Backlog::default(),
    }
}

fn serve(exits: impl IntoIterator<Item = VmExit>) -> (VmExit, Vec<VmEntry>) {
    let mut vcpu = Scripted {
        exits: exits.into_iter().collect(),
        ..Scripted::default()
    };
    let object: &mut dyn Vcpu = &mut vcpu;
    let exit = object.serve(VmEntry::Resume, &mut buses()).unwrap();
    (exit, vcpu.entries)
}

#[test]
fn each_access_is_answered_from_its_own_bus() {
    let (port, address, number) = (0x10, 0x10, 0x10);
    let (exit, entries) = serve([
        VmExit::PioOut {
            port,
            len: 2,
            data: 0x1234,
        },
        VmExit::MmioWrite {
            address,
            len: 8,
            data: 0x5678,
        },
        VmExit::Hypercall {
            number,
            argument: 9,
        },
        VmExit::PioIn { port, len: 2 },
        VmExit::MmioRead { address, len: 8 },
    ]);
    assert_eq!(exit, VmExit::Halt);
    let answers = [
        VmEntry::Resume,
        VmEntry::Resume,
        VmEntry::Resume,
        VmEntry::Data(0),
    ];
    assert_eq!(entries[..4], answers);
    // Bits above the width of a read are not part of the answer.
    assert!(
        matches!(entries[4], VmEntry::Data(data) if data & 0xffff == 0x1234),
        "{entries:x?}"
    );
    assert_eq!(entries[5], VmEntry::Data(0x5678));
}

#[test]
fn the_first_exit_that_no_device_answers_is_returned() {
    let unanswered = [
        VmExit::PioOut {
            port: 0x18,
            len: 1,
            data: 0,
        },
        VmExit::PioIn { port: 0xf, len: 2 },
        VmExit::MmioRead {
            address: 0x14,
            len: 8,
        },
        VmExit::MmioWrite {
            address: 0,
            len: 4,
            data: 1,
        },
        VmExit::Hypercall {
            number: 0,
            argument: 0,
        },
        VmExit::Kicked,
        VmExit::RegisterRead { index: 7 },
    ];
    for wanted in unanswered {
        let answered = VmExit::PioIn { port: 0x10, len: 1 };
        let (exit, entries) = serve([answered, wanted.clone(), VmExit::Shutdown]);
        assert_eq!(exit, wanted);
        assert_eq!(entries.len(), 2);
    }
}

/// Work that never ends. Its third piece kicks the vCPU.
struct Endless {
    pieces: AtomicU64,
    kicked: Arc<AtomicBool>,
}

impl Work for Endless {
    fn go_on(&self) -> bool {
        if self.pieces.fetch_add(1, Ordering::Relaxed) == 2 {
            self.kicked.store(true, Ordering::Relaxed);
        }
        true
    }
}

#[test]
fn a_kick_ends_work_that_never_ends() {
    let mut vcpu = Scripted::default();
    let work = Arc::new(Endless {
        pieces: AtomicU64::new(0),
        kicked: Arc::clone(&vcpu.kicked),
    });
    let mut buses = buses();
    buses.backlog.leave(Arc::clone(&work) as Arc<dyn Work>);
    let exit = vcpu.serve(VmEntry::Resume, &mut buses).unwrap();
    assert_eq!(exit, VmExit::Kicked);
    assert_eq!(work.pieces.load(Ordering::Relaxed), 3);
}
