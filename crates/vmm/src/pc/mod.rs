//! A PC without firmware that boots one image, and has what kvm-unit-tests expects of QEMU and what Linux needs.
//!
//! It has RAM from 0, the kernel's interrupt controllers and timer, a serial port, PCI, a clock, ACPI tables and
//! registers, and firmware configuration. The guest can end the run by a write to
//! [`DONE_PORT`](vmbell_hypervisor::x86_64::DONE_PORT), where QEMU has `isa-debug-exit`, by switching the machine off
//! (the letters of `Shutdown` to their port, or ACPI's S5), and by resetting it. Each vCPU runs on its own thread,
//! until the guest goes to sleep (S3); then the caller's thread waits for the clock to wake it.

mod assigned;
mod bios;
mod flush;
mod layout;
mod platform;
mod plug;
mod power;

use std::io::Write;
use std::sync::{Arc, Mutex};

use vm_memory::{Bytes, GuestAddress};
use vmbell::bus::{BusDevice, BusRange};
use vmbell::irq::Routing;
use vmbell_devices::pci::{PciRoot, Routes};
use vmbell_devices::{
    ACPI_BASE, FW_CFG_PORTS, FwCfg, I8042, I8042_LEN, I8042_PORTS, PM_TIMER_LEN, PM_TIMER_PORT,
    PM1_CONTROL_LEN, PM1_EVENT_LEN, PM1_EVENT_PORT, PORT_A, Pm1, PmTimer, PortA, RTC_LEN,
    RTC_PORTS, SERIAL_LEN, SERIAL_PORTS, SHUTDOWN_PORT, ShutdownPort, acpi_tables,
};
use vmbell_hypervisor::{
    Capability, CpuFeatures, CpuidRegister, EntryPoint, Hypervisor, Irqchip, Irqs, VmConfig,
};

use self::assigned::Assigned;
use self::platform::Taken;
use super::board_devices::{self, SerialPort};
use super::off::{Off, Switch};
use super::{Boot, Image, MEMORY_MAX, Machine, Stop, ram};

use super::error::BoardError;
pub use assigned::{AssignedEvent, OnEvent};
pub use layout::VCPUS_MAX;
pub use platform::PlatformPlace;

/// CPUID.1:ECX, a hypervisor is present.
const HYPERVISOR: u32 = 1 << 31;

/// The settings of a PC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PcConfig {
    /// Size of RAM in bytes, a multiple of 4096.
    pub memory: u64,
    /// The number of vCPUs. The first starts at once, the others wait until the guest starts them.
    pub vcpus: u16,
    /// Features of the CPU that the guest's CPUID does not show.
    pub hidden: CpuFeatures,
    /// Whether vCPUs offer paravirtual EOI.
    pub pv_eoi: bool,
    /// Whether RAM is memory of a file, which a worker in another process can map.
    pub shared_memory: bool,
}

impl Default for PcConfig {
    fn default() -> Self {
        Self {
            memory: 128 << 20,
            vcpus: 1,
            hidden: CpuFeatures::NONE,
            pv_eoi: true,
            shared_memory: false,
        }
    }
}

/// A PC: a machine with the devices of a board.
#[derive(Debug)]
pub struct Pc {
    machine: Machine,
    pci: Arc<PciRoot>,
    /// The routes of all devices that send messages.
    routes: Arc<Routes>,
    assigned: Assigned,
    platform: Mutex<Taken>,
    switch: Arc<Switch>,
    pm1: Pm1,
    serial: Arc<SerialPort>,
    config: PcConfig,
}

impl Pc {
    /// Makes a PC whose serial port prints to `output`. Fails if the backend lacks [`Capability::Kernels`] or
    /// [`Capability::Interrupts`], or cannot make such a guest.
    pub fn new(
        hypervisor: &dyn Hypervisor,
        config: PcConfig,
        output: impl Write + Send + 'static,
    ) -> Result<Self, BoardError> {
        for capability in [Capability::Kernels, Capability::Interrupts] {
            hypervisor
                .require(capability)
                .map_err(BoardError::Lacking)?;
        }
        let memory = ram::make(&(0..MEMORY_MAX), config.memory, config.shared_memory)?;
        let vm = hypervisor
            .create_vm(&VmConfig {
                ram_base: 0,
                ram_size: config.memory,
                memory,
                irqchip: Irqchip::Full,
                vcpus: config.vcpus.into(),
                hidden: config.hidden,
                pv_eoi: config.pv_eoi,
                ..VmConfig::default()
            })
            .map_err(BoardError::Create)?;
        bios::write(vm.memory()).map_err(BoardError::Bios)?;
        let machine = Machine::new(vm);
        let switch = Arc::new(Switch::default());
        let pm1 = power::registers(machine.vm(), &switch);
        let board = layout::board(config.memory)?;
        let pci = PciRoot::new(&machine.pio, &machine.mmio, board)?;
        let serial = board_devices::serial_port(machine.vm(), Box::new(output), &switch)?;
        let irqs: Arc<dyn Irqs> = machine.vm().clone();
        let pc = Self {
            machine,
            pci,
            routes: Routes::new(irqs, Routing::identity().routes().collect()),
            assigned: Assigned::default(),
            platform: Mutex::default(),
            switch,
            pm1,
            serial: Arc::new(serial),
            config,
        };
        pc.add_ports()?;
        Ok(pc)
    }

    fn add_ports(&self) -> Result<(), BoardError> {
        let turn = |off: fn() -> Off| {
            let switch = Arc::clone(&self.switch);
            move || switch.turn(off())
        };
        let shutdown = ShutdownPort::new(turn(|| Off::Guest));
        let keyboard = I8042::new(turn(|| Off::Reset));
        let port_a = PortA::new(turn(|| Off::Reset));
        let rtc = power::clock(self.machine.vm(), &self.switch, &self.pm1)?;
        let fw_cfg = FwCfg::new(self.config.vcpus, self.config.memory);
        let pm1_len = PM1_EVENT_LEN + PM1_CONTROL_LEN;
        let devices: [(u64, u64, Arc<dyn BusDevice>); 8] = [
            (SERIAL_PORTS, SERIAL_LEN, Arc::clone(&self.serial) as _),
            (FW_CFG_PORTS, 2, Arc::new(fw_cfg)),
            (
                PM1_EVENT_PORT.into(),
                pm1_len.into(),
                Arc::new(self.pm1.clone()),
            ),
            (
                PM_TIMER_PORT.into(),
                PM_TIMER_LEN.into(),
                Arc::new(PmTimer::new()),
            ),
            (SHUTDOWN_PORT, 1, Arc::new(shutdown)),
            (I8042_PORTS, I8042_LEN, Arc::new(keyboard)),
            (PORT_A, 1, Arc::new(port_a)),
            (RTC_PORTS, RTC_LEN, Arc::new(rtc)),
        ];
        for (base, len, device) in devices {
            self.machine.pio.insert(BusRange::new(base, len)?, device)?;
        }
        Ok(())
    }

    /// Writes the ACPI tables, which describe the devices that have been plugged in. A kernel that finds KVM has its clock, and no
    /// use for the power management timer.
    fn write_tables(&self, image: &Image) -> Result<(), BoardError> {
        let board = layout::board(self.config.memory)?;
        let finds_kvm = self.config.hidden.bits(1, 0, CpuidRegister::Ecx) & HYPERVISOR == 0;
        let pm_timer = !(image.is_kernel() && finds_kvm);
        let vcpus = self.config.vcpus.into();
        let tables = acpi_tables(vcpus, pm_timer, &board, &self.virtio_mmio());
        let memory = self.machine.vm().memory();
        let written = memory.write_slice(&tables, GuestAddress(ACPI_BASE.into()));
        written.map_err(BoardError::Tables)
    }

    /// The machine: the guest and its buses.
    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    /// The serial port, to which any thread may bring input.
    pub fn serial(&self) -> &Arc<SerialPort> {
        &self.serial
    }

    /// Boots `image` and runs it until it ends or `until` returns true; see [`Machine::run_together`]. A PC can
    /// do this once, because each vCPU can be made only once.
    pub fn run(
        &self,
        image: &Image,
        boot: &Boot,
        until: impl Fn() -> bool + Send + Sync + 'static,
    ) -> Result<Stop, BoardError> {
        let until = Arc::new(until);
        let memory = self.machine.vm().memory();
        self.write_tables(image)?;
        let entry = image.load(memory, boot)?;
        let mut first = bios::before(entry, memory).map_err(BoardError::Bios)?;
        let mut vcpus = (0..u32::from(self.config.vcpus))
            .map(|index| self.machine.vm().create_vcpu(index))
            .collect::<Result<Vec<_>, _>>()
            .map_err(BoardError::Vcpu)?;
        let kicks: Vec<_> = vcpus.iter().map(|vcpu| vcpu.kick_handle()).collect();
        self.switch
            .connect(move || kicks.iter().for_each(|kick| kick.kick()));
        loop {
            for (index, vcpu) in vcpus.iter_mut().enumerate() {
                let entry = if index == 0 {
                    first
                } else {
                    EntryPoint::Secondary
                };
                vcpu.set_entry_point(entry).map_err(BoardError::Vcpu)?;
            }
            let (switch, asked) = (Arc::clone(&self.switch), Arc::clone(&until));
            let is_over = move || switch.is_off() || asked();
            let outcome = self.machine.run_together(&mut vcpus, is_over);
            // An error of a device comes first: it makes all later results worthless.
            match (self.switch.take(), outcome?) {
                (Some(Off::Failed { device, source }), _) => {
                    return Err(BoardError::Device { device, source });
                }
                (Some(Off::Guest), Stop::Kicked) => return Ok(Stop::Shutdown),
                (Some(Off::Reset), Stop::Kicked) => return Ok(Stop::Reset),
                (Some(Off::Done(code)), Stop::Kicked) => return Ok(Stop::Done(code)),
                (Some(Off::Asleep), Stop::Kicked) => {}
                (_, stop) => return Ok(stop),
            }
            if !self.pm1.wait_for_wake(&*until) {
                return Ok(Stop::Kicked);
            }
            first = power::waking_vector(self.machine.vm().memory())?;
        }
    }
}
