//! A PC without firmware that boots one image, and has what kvm-unit-tests expects of QEMU and what Linux needs.
//!
//! It has RAM from 0, the kernel's interrupt controllers and timer, a serial port, PCI, a clock, ACPI tables and
//! registers, and firmware configuration; the micro model has only what Linux needs ([`PcModel`]). The guest can end
//! the run by a write to [`DONE_PORT`](vmbell_hypervisor::x86_64::DONE_PORT), where QEMU has `isa-debug-exit`, by
//! switching the machine off (by writing the letters of `Shutdown` to their port, or by ACPI's S5), or by resetting it.
//! Each vCPU runs on its own thread, until the guest goes to sleep (S3); then the caller's thread waits for the clock
//! to wake it.

mod assigned;
mod bios;
mod flush;
mod layout;
mod platform;
mod plug;
mod ports;
mod power;
mod saved;
mod state;
mod taken;

use std::sync::Arc;

use vm_memory::{Bytes, GuestAddress, GuestMemoryMmap};
use vmbell::bus::BusRange;
use vmbell::irq::{IrqArch, Routing};
use vmbell::sync::Mutex;
use vmbell_devices::pci::{PciRoot, Routes};
use vmbell_devices::{
    ACPI_BASE, AcpiHardware, IO_APIC, IO_APIC_LEN, IoApic, Output, Pm1, Serial, acpi_tables,
};
use vmbell_hypervisor::{
    Capability, CpuFeatures, CpuidRegister, EntryPoint, Hypervisor, IrqTrigger, Irqchip, Irqs,
    Vcpu, VmConfig,
};

use self::state::SaveRequest;
use self::taken::{Assigned, Taken};
use super::board_devices;
use super::error::MachineError;
use super::image::{Boot, Image};
use super::machine::Machine;
use super::off::{Off, Switch};
use super::ram::{self, MEMORY_MAX};
use super::stop::Stop;

use super::error::BoardError;
pub use assigned::{AssignedEvent, OnEvent};
pub use layout::{PcModel, VCPUS_MAX};
pub use platform::PlatformPlace;
pub use state::{AfterSave, PcState};

/// The bit of CPUID.1:ECX that says that a hypervisor is present.
const HYPERVISOR: u32 = 1 << 31;

/// The settings of a PC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PcConfig {
    /// Which hardware the PC has.
    pub model: PcModel,
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
    /// What a triple fault does.
    pub on_triple_fault: OnTripleFault,
}

/// What happens to a PC whose CPU shuts down, because it cannot deliver an exception.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnTripleFault {
    /// The run ends with an error, since most guests do not intend a triple fault.
    #[default]
    Exit,
    /// The PC is reset, as on hardware. Some guests reset themselves this way.
    Reset,
}

impl Default for PcConfig {
    fn default() -> Self {
        Self {
            model: PcModel::Full,
            memory: 128 << 20,
            vcpus: 1,
            hidden: CpuFeatures::NONE,
            pv_eoi: true,
            shared_memory: false,
            on_triple_fault: OnTripleFault::default(),
        }
    }
}

/// A PC: a machine with the devices of a board.
///
/// ```no_run
/// use std::path::Path;
/// use vmbell_devices::Output;
/// use vmbell_hypervisor::Capability;
/// use vmbell_vmm::{Boot, Image, Pc, PcConfig, choose_backend};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let hypervisor = choose_backend(&[Capability::Kernels])?.hypervisor;
/// let pc = Pc::new(&*hypervisor, PcConfig::default(), &Output::stdout()?)?;
/// let boot = Boot { arguments: "console=ttyS0".to_owned(), ..Boot::default() };
/// let stop = pc.run(&Image::open(Path::new("vmlinuz"))?, &boot, || false)?;
/// println!("the guest has stopped: {stop}");
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Pc {
    machine: Machine,
    pci: Arc<PciRoot>,
    /// The routes of all devices that send messages.
    routes: Arc<Routes>,
    assigned: Assigned,
    platform: Mutex<Taken>,
    switch: Arc<Switch>,
    save_request: Arc<SaveRequest>,
    /// The registers of power management; `None` in the micro model.
    pm1: Option<Pm1>,
    /// The I/O APIC of the micro model; the full model's is in the backend.
    io_apic: Option<Arc<IoApic>>,
    serial: Arc<Serial>,
    config: PcConfig,
}

impl Pc {
    /// Makes a PC whose serial port prints to `output`. Fails if the backend lacks [`Capability::Kernels`] or
    /// [`Capability::Interrupts`], or cannot make such a guest.
    pub fn new(
        hypervisor: &dyn Hypervisor,
        config: PcConfig,
        output: &Output,
    ) -> Result<Self, BoardError> {
        let memory = ram::make(&(0..MEMORY_MAX), config.memory, config.shared_memory)?;
        Self::make(hypervisor, config, memory, output)
    }

    /// Makes a PC whose RAM is `memory`, to restore a guest in it ([`restore`](Self::restore)). The size of the memory
    /// is [`PcConfig::memory`].
    pub fn with_memory(
        hypervisor: &dyn Hypervisor,
        config: PcConfig,
        memory: GuestMemoryMmap,
        output: &Output,
    ) -> Result<Self, BoardError> {
        Self::make(hypervisor, config, Some(memory), output)
    }

    fn make(
        hypervisor: &dyn Hypervisor,
        config: PcConfig,
        memory: Option<GuestMemoryMmap>,
        output: &Output,
    ) -> Result<Self, BoardError> {
        for capability in [Capability::Kernels, Capability::Interrupts] {
            hypervisor
                .require(capability)
                .map_err(BoardError::Lacking)?;
        }
        let (irqchip, lines) = match config.model {
            PcModel::Full => (Irqchip::Full, Routing::identity(IrqArch::X86_64)),
            PcModel::Micro => (Irqchip::Split, Routing::default()),
        };
        let vm = hypervisor
            .create_vm(&VmConfig {
                ram_base: 0,
                ram_size: config.memory,
                memory,
                irqchip,
                x2apic: config.model == PcModel::Micro,
                vcpus: config.vcpus.into(),
                hidden: config.hidden,
                pv_eoi: config.pv_eoi,
                ..VmConfig::default()
            })
            .map_err(BoardError::Create)?;
        let machine = Machine::new(vm);
        let switch = Arc::new(Switch::default());
        let board = layout::board(config.model, config.memory)?;
        let pci = PciRoot::new(&machine.pio, &machine.mmio, board)?;
        let irqs: Arc<dyn Irqs> = machine.vm().clone();
        let routes = Routes::new(irqs, lines.routes().collect());
        let (irq, pm1, io_apic) = match config.model {
            PcModel::Full => {
                let pm1 = power::registers(machine.vm(), &switch);
                (board_devices::serial_irqfd(machine.vm())?, Some(pm1), None)
            }
            PcModel::Micro => {
                let apic = io_apic(&machine, &switch)?;
                let pin: Box<dyn IrqTrigger> = Box::new(apic.serial_pin());
                (pin, None, Some(apic))
            }
        };
        let serial = Serial::new(output, Some(irq));
        let pc = Self {
            machine,
            pci,
            routes,
            assigned: Assigned::default(),
            platform: Mutex::default(),
            switch,
            save_request: Arc::default(),
            pm1,
            io_apic,
            serial,
            config,
        };
        pc.add_ports()?;
        Ok(pc)
    }

    /// Writes the ACPI tables, which describe the devices that have been plugged in. A kernel that finds KVM uses KVM's
    /// clock and does not need the power management timer.
    fn write_tables(&self, image: &Image) -> Result<(), BoardError> {
        let board = layout::board(self.config.model, self.config.memory)?;
        let finds_kvm = self.config.hidden.bits(1, 0, CpuidRegister::Ecx) & HYPERVISOR == 0;
        let hardware = match self.config.model {
            PcModel::Full => AcpiHardware::Full {
                timer: !(image.is_kernel() && finds_kvm),
            },
            PcModel::Micro => AcpiHardware::Reduced,
        };
        let vcpus = self.config.vcpus.into();
        let tables = acpi_tables(vcpus, hardware, &board, &self.virtio_mmio());
        let memory = self.machine.vm().memory();
        let written = memory.write_slice(&tables, GuestAddress(ACPI_BASE.into()));
        written.map_err(BoardError::Tables)
    }

    /// Lets the guest read configuration space as memory, as long as its functions have nothing but memory there.
    fn publish_config(&self) -> Result<(), BoardError> {
        let (vm, switch) = (Arc::clone(self.machine.vm()), Arc::clone(&self.switch));
        let withdraw = move || {
            if let Err(error) = vm.unmap_device_memory(layout::CONFIG_MEMORY) {
                switch.turn(Off::failed("the PCI bus", error));
            }
        };
        let published = self.pci.publish(withdraw);
        let published = published.map_err(|source| BoardError::ConfigMemory { source })?;
        if let Some(memory) = published {
            let vm = self.machine.vm();
            let mapped = vm.map_device_memory(layout::CONFIG_MEMORY, &memory);
            mapped.map_err(BoardError::Create)?;
        }
        Ok(())
    }

    /// The machine: the guest and its buses.
    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    /// The serial port, to which any thread may give input.
    pub fn serial(&self) -> &Arc<Serial> {
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
        let _run = self.save_request.during_run();
        let memory = self.machine.vm().memory();
        bios::write_reset(memory).map_err(BoardError::Bios)?;
        if self.config.model == PcModel::Full {
            bios::write(memory).map_err(BoardError::Bios)?;
        }
        self.write_tables(image)?;
        let entry = image.load(memory, boot)?;
        let entry = match self.config.model {
            PcModel::Full => bios::before(entry, memory).map_err(BoardError::Bios)?,
            PcModel::Micro => {
                self.publish_config()?;
                entry
            }
        };
        self.run_from(Some(entry), self.create_vcpus()?, until)
    }

    fn create_vcpus(&self) -> Result<Vec<Box<dyn Vcpu>>, BoardError> {
        (0..u32::from(self.config.vcpus))
            .map(|index| self.machine.vm().create_vcpu(index))
            .collect::<Result<_, _>>()
            .map_err(BoardError::Vcpu)
    }

    /// Runs the vCPUs from this entry point of the first, or from where they are.
    fn run_from(
        &self,
        mut entry: Option<EntryPoint>,
        mut vcpus: Vec<Box<dyn Vcpu>>,
        until: impl Fn() -> bool + Send + Sync + 'static,
    ) -> Result<Stop, BoardError> {
        let until = Arc::new(until);
        let kicks: Vec<_> = vcpus.iter().map(|vcpu| vcpu.kick_handle()).collect();
        self.switch
            .connect(move || kicks.iter().for_each(|kick| kick.kick()));
        loop {
            if let Some(first) = entry.take() {
                let others = std::iter::repeat(EntryPoint::Secondary);
                for (vcpu, entry) in vcpus.iter_mut().zip(std::iter::once(first).chain(others)) {
                    vcpu.set_entry_point(entry).map_err(BoardError::Vcpu)?;
                }
            }
            let (switch, asked) = (Arc::clone(&self.switch), Arc::clone(&until));
            let request = Arc::clone(&self.save_request);
            let is_over = move || switch.is_off() || request.is_made() || asked();
            let mut outcome = self.machine.run_together(&mut vcpus, is_over);
            if let Err(MachineError::Fault(fault)) = &outcome
                && fault.is_triple()
                && self.config.on_triple_fault == OnTripleFault::Reset
            {
                outcome = Ok(Stop::Reset);
            }
            match self.switch.take() {
                Some(off) => {
                    if let Some(stop) = off.end(outcome)? {
                        return Ok(stop);
                    }
                }
                None => match (outcome?, self.save_request.take()) {
                    (Stop::Kicked, Some(take)) => match self.save_now(&vcpus, take) {
                        AfterSave::GoOn => continue,
                        AfterSave::End => return Ok(Stop::Kicked),
                    },
                    (stop, _) => return Ok(stop),
                },
            }
            let wakes = |pm1: &Pm1| pm1.wait_for_wake(&*until);
            if !self.pm1.as_ref().is_some_and(wakes) {
                return Ok(Stop::Kicked);
            }
            entry = Some(power::waking_vector(self.machine.vm().memory())?);
        }
    }
}

/// Adds the I/O APIC of the micro model.
fn io_apic(machine: &Machine, switch: &Arc<Switch>) -> Result<Arc<IoApic>, BoardError> {
    let switch = Arc::clone(switch);
    let on_error = move |error| switch.turn(Off::failed("the I/O APIC", error));
    let apic = IoApic::new(machine.vm().clone(), on_error);
    machine
        .mmio
        .insert(BusRange::new(IO_APIC, IO_APIC_LEN)?, Arc::clone(&apic) as _)?;
    Ok(apic)
}
