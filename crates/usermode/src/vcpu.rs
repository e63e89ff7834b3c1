//! A vCPU, on the monitor's thread that runs it: the thread hands the vCPU over to the sandbox, waits until the sandbox
//! hands it back, and checks the exit.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use stub::layout::{GUEST_END, RunPage, fault, reason};

use super::capability::unsupported;
use super::error::UsermodeError;
use super::guest::UsermodeGuest;
use super::one_cpu::{OneCpu, PATIENCE};
use super::wait::{RECHECK_INTERVAL, await_exit, hand_over};
use vmbell::irq::IrqError;
use vmbell_hypervisor::Stage;
use vmbell_hypervisor::x86_64::{PAGE_FAULT, exception};
use vmbell_hypervisor::{
    Capability, EntryPoint, Error, Fault, Kick, SpinPolicy, Vcpu, VcpuSnapshot, VcpuState, VmEntry,
    VmExit,
};

/// A virtual CPU of a [`super::UsermodeVm`].
#[derive(Debug)]
pub struct UsermodeVcpu {
    guest: Arc<UsermodeGuest>,
    index: usize,
    /// The sequence number of the last exit that was answered.
    exit_sequence: u32,
    /// The binding of the vCPU's threads, with [`SpinPolicy::OneCpu`].
    one_cpu: Option<OneCpu>,
    stage: Stage,
}

impl UsermodeVcpu {
    pub(super) fn new(guest: Arc<UsermodeGuest>, index: usize) -> Self {
        Self {
            one_cpu: (guest.spin == SpinPolicy::OneCpu).then(OneCpu::new),
            guest,
            index,
            exit_sequence: 0,
            stage: Stage::default(),
        }
    }

    fn run_page(&self) -> &RunPage {
        &self.guest.sandbox.shared.runs[self.index]
    }

    fn ended(&self) -> Option<Error> {
        self.guest
            .sandbox
            .process()
            .ending()
            .map(|ending| UsermodeError::Ended { ending }.into())
    }

    /// Continues the vCPU and waits for its next exit.
    fn run_once(&mut self) -> Result<(), Error> {
        if let Some(error) = self.ended() {
            return Err(error);
        }
        let sandbox = &self.guest.sandbox;
        let run = &sandbox.shared.runs[self.index];
        if let Some(one_cpu) = &mut self.one_cpu {
            one_cpu.count_exit(sandbox.thread(self.index).id());
        }
        hand_over(&run.entry_handover);
        let mut has_slept = false;
        let recheck = || {
            if let Some(one_cpu) = &mut self.one_cpu
                && has_slept
            {
                one_cpu.let_go();
            }
            has_slept = true;
            let patient = self.one_cpu.as_ref().is_some_and(OneCpu::is_together);
            let interval = if patient { PATIENCE } else { RECHECK_INTERVAL };
            (!sandbox.process().has_ended()).then_some(interval)
        };
        self.exit_sequence = await_exit(run, self.exit_sequence, self.guest.spin, recheck);
        // The end of the sandbox also hands the vCPU over. An exit that was handed over just before the end is lost.
        self.ended().map_or(Ok(()), Err)
    }

    fn run_to_exit(&mut self) -> Result<VmExit, Error> {
        loop {
            self.run_once()?;
            match self.read_exit() {
                Ok(Some(exit)) => return Ok(exit),
                Ok(None) => {}
                Err(error) => {
                    self.stage.fault();
                    self.guest
                        .sandbox
                        .process()
                        .kill_with_reason("it passed an invalid value");
                    return Err(error);
                }
            }
        }
    }

    /// Reads each field of the exit once, because the sandbox can write the record at any time. Returns `None` if the
    /// monitor has answered the exit itself.
    fn read_exit(&mut self) -> Result<Option<VmExit>, Error> {
        let record = &self.run_page().exit;
        let reason = record.reason.load(Relaxed);
        let width = record.len.load(Relaxed);
        let address = record.address.load(Relaxed);
        let data = record.data.load(Relaxed);
        let rip = record.rip.load(Relaxed);
        let exit = match reason {
            reason::PIO_IN => VmExit::PioIn {
                port: port(address)?,
                len: port_width(width)?,
            },
            reason::PIO_OUT => VmExit::PioOut {
                port: port(address)?,
                len: port_width(width)?,
                data: (data & 0xffff_ffff) as u32,
            },
            reason::MMIO_READ => {
                let len = access_width(width)?;
                let ioapic = self.guest.interrupts.as_ref();
                if let Some(value) =
                    ioapic.and_then(|here| here.read_ioapic(&self.guest.sandbox, address, len))
                {
                    self.run_page().reply.store(value, Relaxed);
                    return Ok(None);
                }
                VmExit::MmioRead { address, len }
            }
            reason::MMIO_WRITE => {
                let len = access_width(width)?;
                if let Some(interrupts) = &self.guest.interrupts
                    && interrupts.write_ioapic(&self.guest.sandbox, address, len, data)
                {
                    return Ok(None);
                }
                VmExit::MmioWrite { address, len, data }
            }
            reason::HYPERCALL => VmExit::Hypercall {
                number: address,
                argument: data,
            },
            reason::MSR_READ => VmExit::RegisterRead {
                index: (address & 0xffff_ffff) as u32,
            },
            reason::MSR_WRITE => VmExit::RegisterWrite {
                index: (address & 0xffff_ffff) as u32,
                data,
            },
            reason::HLT => VmExit::Halt,
            reason::KICKED => {
                self.guest.sandbox.thread(self.index).clear_kick();
                VmExit::Kicked
            }
            reason::FAULT => {
                self.stage.fault();
                VmExit::Fault(Box::new(self.fault(width, address, data, rip)))
            }
            reason::PATCH => {
                self.guest
                    .patcher
                    .patch(&self.guest.sandbox, &self.guest.memory, rip);
                return Ok(None);
            }
            reason::UNPATCH => {
                self.guest
                    .patcher
                    .give_back(&self.guest.sandbox, &self.guest.memory, rip);
                return Ok(None);
            }
            reason::EOI => {
                let vector = u8::try_from(address).map_err(|_| nonsense("vector", address))?;
                if let Some(interrupts) = &self.guest.interrupts {
                    interrupts.eoi(&self.guest.sandbox, vector);
                }
                return Ok(None);
            }
            unknown => {
                return Err(nonsense("reason", unknown.into()));
            }
        };
        Ok(Some(exit))
    }

    fn fault(&self, vector: u32, address: u64, kind: u64, rip: u64) -> Fault {
        let [low, high] = &self.run_page().exit.instruction;
        let words = u128::from(low.load(Relaxed)) | u128::from(high.load(Relaxed)) << 64;
        let raw = words.to_le_bytes();
        let count = usize::from(raw[15]).min(15);
        let vector = (vector & 0xff) as u8;
        Fault {
            exception: exception(vector),
            pc: Some(rip),
            address: (vector == PAGE_FAULT).then_some(address),
            bytes: raw[..count].to_vec(),
            reason: fault_reason(kind, vector),
        }
    }
}

fn fault_reason(kind: u64, vector: u8) -> &'static str {
    match kind {
        fault::UNDECODED => "an instruction on a memory hole that is not a plain mov",
        fault::PRIVILEGED => "a privileged instruction that the usermode engine does not emulate",
        fault::SYSCALL => "a system call; guests of the usermode engine have none",
        fault::ABOVE_GUEST_END => "an access beyond the guest's 4 GiB",
        fault::FETCH => "no memory to fetch instructions from",
        fault::STRING => "a string instruction whose buffer is not in RAM",
        fault::STRADDLE => "an access that is partly in RAM and partly in a hole",
        fault::INTERRUPT_STACK => "an interrupt arrived while the stack pointer was not in RAM",
        fault::INTERRUPT_FRAME => {
            "a return from an interrupt whose frame is not in RAM, or leads out of the guest"
        }
        fault::MSR => {
            "a register of the local APIC or of paravirtual EOI that is not there or refuses the value"
        }
        fault::CODE_SEGMENT => {
            "code of another mode; guests of the usermode engine have 64-bit mode only"
        }
        _ => match vector {
            0 => "divide error",
            1 => "single step or debug exception",
            3 => "breakpoint",
            6 => "invalid opcode",
            12 => "the stack pointer is not an address",
            14 => "page fault",
            16 | 19 => "floating-point exception",
            17 => "alignment check",
            _ => "exception",
        },
    }
}

/// Makes the error for a field with a value that the stub never writes.
fn nonsense(what: &'static str, value: u64) -> Error {
    UsermodeError::Nonsense { what, value }.into()
}

fn port(address: u64) -> Result<u16, Error> {
    u16::try_from(address).map_err(|_| nonsense("port", address))
}

fn port_width(width: u32) -> Result<u8, Error> {
    match width {
        1 | 2 | 4 => Ok((width & 7) as u8),
        _ => Err(nonsense("width of a port access", width.into())),
    }
}

/// Checks the width of a memory access. An access that crosses a page comes in two pieces of any width up to 8 bytes.
fn access_width(width: u32) -> Result<u8, Error> {
    match width {
        1..=8 => Ok((width & 15) as u8),
        _ => Err(nonsense("width of a memory access", width.into())),
    }
}

impl VcpuSnapshot for UsermodeVcpu {
    fn save(&self) -> Result<VcpuState, Error> {
        Err(unsupported(Capability::Snapshots))
    }

    fn restore(&mut self, _: &VcpuState) -> Result<(), Error> {
        Err(unsupported(Capability::Snapshots))
    }
}

impl Vcpu for UsermodeVcpu {
    fn set_entry_point(&mut self, entry: EntryPoint) -> Result<(), Error> {
        self.stage.check_fresh()?;
        let EntryPoint::Program { pc, sp, arguments } = entry else {
            return Err(unsupported(Capability::Kernels));
        };
        let registers = &self.run_page().entry;
        registers.rip.store(pc, Relaxed);
        registers.rsp.store(sp, Relaxed);
        registers.rdi.store(arguments[0], Relaxed);
        registers.rsi.store(arguments[1], Relaxed);
        Ok(())
    }

    fn set_interrupt_handler(&mut self, pc: u64) -> Result<(), Error> {
        self.stage.check_fresh()?;
        if self.guest.interrupts.is_none() {
            return Err(IrqError::NoIrqchip.into());
        }
        if pc == 0 || pc >= GUEST_END {
            return Err(UsermodeError::Handler { address: pc }.into());
        }
        self.run_page()
            .interrupts
            .interrupt_handler
            .store(pc, Relaxed);
        Ok(())
    }

    fn run(&mut self, entry: VmEntry) -> Result<VmExit, Error> {
        self.stage.enter()?;
        self.run_page().reply.store(entry.data(), Relaxed);
        self.guest.sandbox.thread(self.index).enter();
        let exit = self.run_to_exit();
        self.guest.sandbox.thread(self.index).leave();
        // After these exits the caller may have other work for its thread.
        if let Some(one_cpu) = &mut self.one_cpu
            && matches!(
                exit,
                Ok(VmExit::Halt | VmExit::Kicked | VmExit::Fault(_)) | Err(_)
            )
        {
            one_cpu.let_go();
        }
        exit
    }

    fn is_kicked(&self) -> bool {
        self.guest.sandbox.thread(self.index).is_kicked()
    }

    fn kick_handle(&self) -> Arc<dyn Kick> {
        Arc::new(VcpuKick {
            guest: Arc::clone(&self.guest),
            index: self.index,
        })
    }
}

/// Kicks one vCPU of a sandbox.
#[derive(Debug)]
struct VcpuKick {
    guest: Arc<UsermodeGuest>,
    index: usize,
}

impl Kick for VcpuKick {
    fn kick(&self) {
        self.guest.sandbox.kick(self.index);
    }
}
