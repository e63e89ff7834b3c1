//! A PC with an image that plays a test's script, one access at a time.

#![allow(unsafe_code)]

use std::sync::Arc;
use std::time::{Duration, Instant};

use vm_memory::{Bytes, GuestAddress};
use vmbell_devices::pci_testdev::PciTestdevConfig;
use vmbell_devices::virtio::{Entropy, VirtioConfig, VirtioDevice};
use vmbell_guest::{DONE_PORT, Program};
use vmbell_hypervisor::Hypervisor;
use vmbell_hypervisor::measure::ExitCounts;
use vmbell_vfio::host::{Bus, Host};
use vmbell_vmm::{Boot, Image, OnEvent, Pc, PcConfig, Stop};

use kit::image::{Segment, elf, kernel};
use testbed::paper::Paper;
use testbed::{HANG, chain};

vmbell_guest::guest_programs! {
    /// Plays a list of accesses.
    player = "player.S";
}

/// Where the list is.
const SCRIPT: u32 = 0x20_0000;

/// What the guest does.
#[derive(Clone, Copy, Debug)]
pub enum Op {
    /// Width, port, value.
    Out(u32, u32, u32),
    /// Width, port.
    In(u32, u32),
    /// Width, address, value.
    Store(u32, u32, u32),
    /// Width, address.
    Load(u32, u32),
    /// Waits until four bytes at the address have the value.
    Await(u32, u32),
    /// Waits until one of these bits of a port's byte is set: port, bits.
    AwaitSet(u32, u8),
    /// Waits until these bits of a port's byte are clear: port, bits.
    AwaitClear(u32, u8),
    /// ECX of this leaf of CPUID.
    Cpuid(u32),
    /// The low half of this model-specific register.
    Msr(u32),
    /// Reads EBX as it was at the start.
    Information,
    /// Halts forever.
    Sleep,
    /// Executes an invalid instruction.
    Crash,
}

impl Op {
    fn record(self) -> [u32; 4] {
        let (kind, address, value) = match self {
            Self::Out(width, port, value) => (width, port, value),
            Self::In(width, port) => (0x10 + width, port, 0),
            Self::Store(width, address, value) => (0x20 + width, address, value),
            Self::Load(width, address) => (0x30 + width, address, 0),
            Self::Await(address, value) => (0x40, address, value),
            Self::AwaitSet(port, bits) => (0x71, port, bits.into()),
            Self::AwaitClear(port, bits) => (0x70, port, bits.into()),
            Self::Cpuid(leaf) => (0x80, leaf, 0),
            Self::Msr(index) => (0x90, index, 0),
            Self::Information => (0x50, 0, 0),
            Self::Sleep => (0x60, 0, 0),
            Self::Crash => (0, 0, 0),
        };
        [kind, address, value, 0]
    }

    /// Says that the guest is done.
    pub fn done(code: u32) -> Self {
        Self::Out(4, DONE_PORT.into(), code)
    }
}

/// What a test plays, and the image that plays it.
#[derive(Clone, Debug)]
pub struct Play {
    /// The program that plays.
    pub program: fn() -> Program,
    /// Whether the image is a kernel, and not an image for a Multiboot loader.
    pub is_kernel: bool,
    /// The accesses. The guest is done after them, with code 0.
    pub ops: Vec<Op>,
    /// pci-testdevs, from slot 1 on.
    pub devices: Vec<PciTestdevConfig>,
    /// A virtio device of random bytes, in the slot after the pci-testdevs.
    pub rng: Option<VirtioConfig>,
    /// A PCI device of the host, in the slot after these devices.
    pub assigned: Option<&'static str>,
    /// Whether there is a pc-testdev.
    pub pc_testdev: bool,
    /// The board.
    pub config: PcConfig,
    /// Segments of the image in addition to the player.
    pub segments: Vec<Segment>,
    /// What the loader hands over.
    pub boot: Boot,
    /// When to stop a guest that does not end.
    pub limit: Option<Duration>,
}

impl Default for Play {
    fn default() -> Self {
        Self {
            program: player,
            is_kernel: false,
            ops: Vec::new(),
            devices: Vec::new(),
            rng: None,
            assigned: None,
            pc_testdev: false,
            config: PcConfig::default(),
            segments: Vec::new(),
            boot: Boot::default(),
            limit: None,
        }
    }
}

/// The outcome of a run.
#[derive(Debug)]
pub struct Played {
    /// How the guest ended, or the error with its causes.
    pub end: Result<Stop, String>,
    /// What each access read.
    pub results: Vec<u32>,
    /// The serial port's output.
    pub output: String,
    /// Bytes of guest memory from 0 on.
    pub low: Vec<u8>,
    /// The number of all vCPUs' exits.
    pub exits: ExitCounts,
}

impl Play {
    /// A list for a plain PC.
    pub fn new(ops: impl Into<Vec<Op>>) -> Self {
        Self {
            ops: ops.into(),
            ..Self::default()
        }
    }

    /// A list for a PC with a pci-testdev.
    pub fn with_testdev(ops: impl Into<Vec<Op>>) -> Self {
        Self {
            devices: vec![PciTestdevConfig::default()],
            ..Self::new(ops)
        }
    }

    /// Boots the PC and plays the list.
    pub fn run<H: Hypervisor>(&self, hypervisor: &H) -> Played {
        let mut ops = self.ops.clone();
        ops.push(Op::done(0));
        let script: Vec<u8> = ops
            .iter()
            .flat_map(|op| op.record())
            .flat_map(u32::to_le_bytes)
            .collect();
        let mut segments = vec![Segment::new(SCRIPT, script)];
        segments.extend(self.segments.iter().cloned());
        let make = if self.is_kernel { kernel } else { elf };
        let file = make((self.program)().code, &segments);
        let image = Image::parse("player".to_owned(), &file).unwrap();

        let paper = Paper::default();
        let pc = Pc::new(hypervisor, self.config, &paper.output).unwrap();
        for device in &self.devices {
            pc.add_testdev(*device).unwrap();
        }
        if let Some(config) = self.rng {
            pc.add_virtio_pci(VirtioDevice::new(Entropy, 1, config))
                .unwrap();
        }
        if let Some(name) = self.assigned {
            let device = Host::system().find(&[Bus::Pci], name).unwrap();
            let on_event: OnEvent = Arc::new(|event| panic!("{event}"));
            pc.assign(&device, true, &on_event).unwrap();
        }
        if self.pc_testdev {
            pc.add_pc_testdev().unwrap();
        }
        let (begun, limit) = (Instant::now(), self.limit.unwrap_or(HANG));
        let end = pc.run(&image, &self.boot, move || begun.elapsed() > limit);
        let vm = pc.machine().vm();
        let results = (0..u32::try_from(self.ops.len()).unwrap())
            .map(|index| GuestAddress(u64::from(SCRIPT + 16 * index + 12)))
            .map(|at| vm.memory().read_obj(at).unwrap())
            .collect();
        let mut low = vec![0; 0x30_0000];
        vm.memory().read_slice(&mut low, GuestAddress(0)).unwrap();
        let output = paper.text();
        Played {
            end: end.map_err(|error| chain(&error)),
            results,
            output,
            low,
            exits: vm.measure().exit_counts(),
        }
    }

    /// Plays the list, and returns what each access read. Fails unless the guest is done with code 0.
    pub fn results<H: Hypervisor>(&self, hypervisor: &H) -> Vec<u32> {
        let played = self.run(hypervisor);
        assert_eq!(played.end, Ok(Stop::Done(0)));
        played.results
    }
}
