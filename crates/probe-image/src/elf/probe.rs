//! What the image knows when the rows run.

use super::apic::LocalApic;
use super::boot::Kind;
use super::cpu::ticks;
use super::hypervisor::Cpu;
use super::pm_timer::PmTimer;
use super::port::out8;
use super::second_cpu::SecondCpu;
use super::virtio::Devices;
use crate::cmdline::Options;

/// Where a marked batch is announced: the port of a PC's power-on self-test, whose writes are harmless.
const MARK_PORT: u16 = 0x80;

/// The machine, as far as it is known.
pub struct Probe<'a> {
    pub options: Options<'a>,
    pub boot: Kind,
    pub cpu: Cpu,
    pub apic: LocalApic,
    pub pm_timer: Option<PmTimer>,
    pub devices: Devices,
    /// The second CPU, or why none runs.
    pub second_cpu: Result<SecondCpu, &'static str>,
    /// The time stamp counter's frequency, and its source.
    pub clock: Option<(u64, &'static str)>,
    /// The mark of the row that runs, if it is to be marked.
    pub mark: Option<u8>,
}

impl Probe<'_> {
    /// The ticks of a whole batch. The marks are as close to it as can be, so that a trace of the host between them
    /// has the batch and nothing else.
    pub fn timed(&self, batch: impl FnOnce()) -> u64 {
        self.set_mark(self.mark);
        let from = ticks();
        batch();
        let ticks = ticks() - from;
        self.set_mark(self.mark.map(|_| 0));
        ticks
    }

    /// As `timed`, for a batch that counts its own ticks.
    pub fn counted(
        &self,
        batch: impl FnOnce() -> Result<u64, &'static str>,
    ) -> Result<u64, &'static str> {
        self.set_mark(self.mark);
        let ticks = batch();
        self.set_mark(self.mark.map(|_| 0));
        ticks
    }

    fn set_mark(&self, mark: Option<u8>) {
        if let Some(mark) = mark {
            out8(MARK_PORT, mark);
        }
    }
}
