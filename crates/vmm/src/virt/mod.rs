//! An arm64 board without firmware that boots a kernel of Linux, or an image made for QEMU's machine `virt`.
//!
//! It has RAM from 1 GiB, the backend's GICv3 with an ITS or GICv2, the CPU's timers, a serial port, and virtio devices
//! on registers in memory. A device tree describes all of them to the image. Through PSCI, which the backend answers,
//! the guest starts its other vCPUs, switches the machine off and resets it. Each vCPU runs on its own thread.

mod plug;
mod tree;

use std::sync::Arc;

use vm_memory::{Bytes, GuestAddress};
use vmbell::bus::BusRange;
use vmbell::irq::{Gic, IrqArch, Routing};
use vmbell::sync::Mutex;
use vmbell_devices::{Output, SERIAL_LEN, Serial};
use vmbell_hypervisor::aarch64::IMAGE_RAM;
use vmbell_hypervisor::{Capability, EntryPoint, Hypervisor, Irqchip, VmConfig};

use self::tree::{Description, SERIAL};
use super::board_devices;
use super::image::TREE_LEN;
use super::image::{Arm64Image, Boot};
use super::machine::Machine;
use super::off::{Off, Switch};
use super::ram;
use super::stop::Stop;

use super::error::BoardError;

/// The settings of a board.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VirtConfig {
    /// Size of RAM in bytes, a multiple of 4096, from 2 MiB to 3008 MiB.
    pub memory: u64,
    /// The number of vCPUs. The first starts at once, the others wait until the guest starts them.
    pub vcpus: u16,
    /// Whether vCPUs start at EL2, so that a kernel of Linux has KVM; the backend must have [`Capability::Virtualization`].
    pub virtualization: bool,
    /// Whether RAM is memory of a file, which a worker in another process can map.
    pub shared_memory: bool,
}

/// A board: a machine with the devices of the tree.
#[derive(Debug)]
pub struct Virt {
    machine: Machine,
    gic: Gic,
    switch: Arc<Switch>,
    serial: Arc<Serial>,
    /// How many virtio devices there are.
    devices: Mutex<u32>,
    config: VirtConfig,
}

impl Virt {
    /// Makes a board whose serial port prints to `output`. Fails if the backend lacks [`Capability::Kernels`] or
    /// [`Capability::Interrupts`], or cannot make such a guest.
    pub fn new(
        hypervisor: &dyn Hypervisor,
        config: VirtConfig,
        output: &Output,
    ) -> Result<Self, BoardError> {
        let mut needed = vec![Capability::Kernels, Capability::Interrupts];
        needed.extend(config.virtualization.then_some(Capability::Virtualization));
        for capability in needed {
            hypervisor
                .require(capability)
                .map_err(BoardError::Lacking)?;
        }
        let memory = ram::make(&IMAGE_RAM, config.memory, config.shared_memory)?;
        let vm = hypervisor
            .create_vm(&VmConfig {
                ram_base: IMAGE_RAM.start,
                ram_size: config.memory,
                memory,
                irqchip: Irqchip::Full,
                virtualization: config.virtualization,
                vcpus: config.vcpus.into(),
                ..VmConfig::default()
            })
            .map_err(BoardError::Create)?;
        let gic = vm.gic().ok_or(BoardError::NoGic)?;
        let routes: Vec<_> = Routing::identity(IrqArch::Arm64).routes().collect();
        vm.set_routing(&routes).map_err(BoardError::Create)?;
        let machine = Machine::new(vm);
        let switch = Arc::new(Switch::default());
        let irqfd = board_devices::serial_irqfd(machine.vm())?;
        let serial = Serial::new(output, Some(irqfd));
        let range = BusRange::new(SERIAL, SERIAL_LEN)?;
        machine.mmio.insert(range, Arc::clone(&serial) as _)?;
        Ok(Self {
            machine,
            gic,
            switch,
            serial,
            devices: Mutex::default(),
            config,
        })
    }

    /// The machine: the guest and its buses.
    pub const fn machine(&self) -> &Machine {
        &self.machine
    }

    /// The serial port, to which any thread may bring input.
    pub const fn serial(&self) -> &Arc<Serial> {
        &self.serial
    }

    /// Boots `image` and runs it until it ends or `until` returns true; see [`Machine::run_together`]. A board can do
    /// this once, because each vCPU can be made only once.
    pub fn run(
        &self,
        image: &Arm64Image,
        boot: &Boot,
        until: impl Fn() -> bool + Send + Sync + 'static,
    ) -> Result<Stop, BoardError> {
        let (pc, tree) = self.load(image, boot)?;
        let mut vcpus = (0..u32::from(self.config.vcpus))
            .map(|index| self.machine.vm().create_vcpu(index))
            .collect::<Result<Vec<_>, _>>()
            .map_err(BoardError::Vcpu)?;
        for (index, vcpu) in vcpus.iter_mut().enumerate() {
            let entry = match index {
                0 => EntryPoint::MmuOff { pc, tree },
                _ => EntryPoint::Secondary,
            };
            vcpu.set_entry_point(entry).map_err(BoardError::Vcpu)?;
        }
        let kicks: Vec<_> = vcpus.iter().map(|vcpu| vcpu.kick_handle()).collect();
        self.switch
            .connect(move || kicks.iter().for_each(|kick| kick.kick()));
        let switch = Arc::clone(&self.switch);
        let is_over = move || switch.is_off() || until();
        let outcome = self.machine.run_together(&mut vcpus, is_over);
        // An error of a device comes first: it makes all later results worthless.
        match (self.switch.take(), outcome) {
            (Some(Off::Failed { device, source }), _) => Err(BoardError::Device { device, source }),
            (Some(Off::Done(code)), Ok(Stop::Kicked)) => Ok(Stop::Done(code)),
            (_, outcome) => Ok(outcome?),
        }
    }

    /// Copies the image, its initrd and the tree into RAM, and returns the addresses of the first instruction and the tree.
    fn load(&self, image: &Arm64Image, boot: &Boot) -> Result<(u64, u64), BoardError> {
        let memory = self.machine.vm().memory();
        let loaded = image.load(memory, boot)?;
        let virtio = *self.devices.lock();
        let blob = tree::blob(&Description {
            memory: self.config.memory,
            vcpus: self.config.vcpus,
            has_el2: self.config.virtualization,
            gic: self.gic,
            virtio,
            arguments: &boot.arguments,
            initrd: loaded.initrd,
        });
        let blob = blob.map_err(BoardError::Tree)?;
        let (len, room) = (blob.len(), TREE_LEN);
        if len as u64 > room {
            return Err(BoardError::TreeSize { len, room });
        }
        memory
            .write_slice(&blob, GuestAddress(loaded.tree))
            .map_err(BoardError::TreeMemory)?;
        Ok((loaded.entry, loaded.tree))
    }
}
