//! Reports a fault that the guest cannot go on from to the monitor, with the bytes of the instruction. The vCPU's
//! thread runs this.

use crate::elf::context::Context;
use crate::elf::handover::hand_over;
use crate::elf::percpu::{PerCpu, control};
use crate::elf::syscall::exit_group;
use crate::layout::{PATCH_BASE, PATCH_SIZE, RAM_BASE, exit_code, reason};
use crate::sync::Ordering::Relaxed;

/// Whether guest RAM backs all of these bytes.
pub fn in_ram(address: u64, len: u64) -> bool {
    let size = control().ram_size.load(Relaxed);
    address >= RAM_BASE && len <= size && address - RAM_BASE <= size - len
}

/// Hands the fault over. The monitor does not enter this vCPU again.
pub fn report(frame: &Context, cpu: &PerCpu, kind: u64) -> ! {
    let run = cpu.run();
    let exit = &run.exit;
    exit.reason.store(reason::FAULT, Relaxed);
    exit.len.store((frame.vector & 0xff) as u32, Relaxed);
    exit.address.store(frame.fault_address, Relaxed);
    exit.data.store(kind, Relaxed);
    exit.rip.store(frame.rip, Relaxed);
    let mut bytes = [0u8; 16];
    let mut count = 0;
    for (place, byte) in (0u64..15).zip(bytes.iter_mut()) {
        let address = frame.rip.wrapping_add(place);
        let readable =
            in_ram(address, 1) || (PATCH_BASE..PATCH_BASE + PATCH_SIZE).contains(&address);
        if !readable {
            break;
        }
        // SAFETY: the check above found guest memory, which is mapped for good. Another vCPU may write
        // it meanwhile, hence volatile; a report may have the byte before or after that.
        *byte = unsafe { (address as *const u8).read_volatile() };
        count += 1;
    }
    bytes[15] = count;
    let (low, high) = bytes.split_at(8);
    for (word, half) in exit.instruction.iter().zip([low, high]) {
        let value = half
            .iter()
            .rev()
            .fold(0, |value, byte| value << 8 | u64::from(*byte));
        word.store(value, Relaxed);
    }
    run.counters.heavy.fetch_add(1, Relaxed);
    hand_over(run);
    exit_group(exit_code::STUB_FAULT)
}
