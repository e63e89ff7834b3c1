//! The rows: what is measured, the order, and the results.
//!
//! Batches are interleaved: the first batch of every row, then the second, so that a temporary disturbance of the host
//! affects all rows alike; the option `order` shuffles the rows. Each row begins with one unmeasured operation, which
//! shows whether the machine has what the row needs.

mod apic;
mod instruction;
mod timer;
mod virtio;

use super::apic::{LocalApic, Mode};
use super::boot::Kind as BootKind;
use super::cpu::{out8, ticks};
use super::hypervisor::Cpu;
use super::second_cpu::SecondCpu;
use super::serial::say;
use super::time::PmTimer;
use super::virtio::{Devices, Kind};
use crate::cmdline::{self, MAX_BATCHES, Options};
use crate::names;
use virtio::Rows;

const RNG: usize = Kind::Rng as usize;
const BLK: usize = Kind::Blk as usize;
const CONSOLE: usize = Kind::Console as usize;
const NET: usize = Kind::Net as usize;

/// The port that marks a batch. It is the port of a PC's power-on self-test, so writes are harmless.
const MARK_PORT: u16 = 0x80;

/// Why a row has no samples.
pub type Reason = &'static str;

/// The awaited event did not come.
const HUNG: Reason = "hung";

/// What is known about the machine.
pub struct Probe<'a> {
    pub options: Options<'a>,
    pub boot: BootKind,
    pub cpu: Cpu,
    pub apic: LocalApic,
    pub pm_timer: Option<PmTimer>,
    pub devices: Devices,
    /// The second CPU, or why there is none.
    pub second_cpu: Result<SecondCpu, &'static str>,
    /// The time stamp counter's frequency, and its source.
    pub clock: Option<(u64, &'static str)>,
    /// The mark of the current row, if the option `mark` is set.
    pub mark: Option<u8>,
}

impl Probe<'_> {
    /// Returns the ticks of a whole batch. The marks are as close to the batch as possible, so that a trace of the host
    /// between them has only the batch.
    pub fn timed(&self, batch: impl FnOnce()) -> u64 {
        self.set_mark(self.mark);
        let from = ticks();
        batch();
        let ticks = ticks() - from;
        self.set_mark(self.mark.map(|_| 0));
        ticks
    }

    /// Like `timed`, for a batch that counts its own ticks.
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

/// When a row runs. The phases run one after another; the rows of a phase are interleaved.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    First,
    /// Rows after the switch to x2APIC mode. The switch is irreversible.
    X2apic,
    /// Rows that can end a fragile VMM: a write to an unassigned port ends gokvm.
    Deadly,
}

/// One row.
pub struct Row {
    pub name: &'static str,
    phase: Phase,
    /// Runs a batch of this many operations, and returns its ticks.
    run: fn(&mut Probe<'_>, u32) -> Result<u64, Reason>,
}

const fn row(
    name: &'static str,
    phase: Phase,
    run: fn(&mut Probe<'_>, u32) -> Result<u64, Reason>,
) -> Row {
    Row { name, phase, run }
}

/// All rows. A row's mark is its position, counted from 1.
pub const ROWS: &[Row] = &[
    row("cpuid", Phase::First, instruction::cpuid),
    row("hypercall", Phase::First, instruction::hypercall),
    row("msr-read", Phase::First, instruction::msr_read),
    row("serial-lsr", Phase::First, instruction::serial_lsr),
    row("pit-read", Phase::First, instruction::pit_read),
    row("pm-timer-read", Phase::First, instruction::pm_timer_read),
    row("xapic-tpr-write", Phase::First, apic::xapic_tpr_write),
    row("xapic-eoi", Phase::First, apic::xapic_eoi),
    row("xapic-self-ipi", Phase::First, apic::xapic_self_ipi),
    row(
        "xapic-self-ipi-pv-eoi",
        Phase::First,
        apic::xapic_self_ipi_pv_eoi,
    ),
    row("timer", Phase::First, timer::timer),
    row("hlt-wake", Phase::First, timer::hlt_wake),
    row("ipi-to-vcpu", Phase::First, apic::ipi_to_vcpu),
    row("virtio-rng-notify", Phase::First, Rows::<RNG>::NOTIFY),
    row(
        "virtio-rng-notify-idle",
        Phase::First,
        Rows::<RNG>::NOTIFY_IDLE,
    ),
    row(
        "virtio-rng-round-trip-polled",
        Phase::First,
        Rows::<RNG>::ROUND_TRIP_POLLED,
    ),
    row(
        "virtio-rng-round-trip-interrupt",
        Phase::First,
        Rows::<RNG>::ROUND_TRIP_INTERRUPT,
    ),
    row("virtio-rng-eoi", Phase::First, Rows::<RNG>::EOI),
    row("virtio-blk-notify", Phase::First, Rows::<BLK>::NOTIFY),
    row(
        "virtio-blk-notify-idle",
        Phase::First,
        Rows::<BLK>::NOTIFY_IDLE,
    ),
    row(
        "virtio-blk-round-trip-polled",
        Phase::First,
        Rows::<BLK>::ROUND_TRIP_POLLED,
    ),
    row(
        "virtio-blk-round-trip-interrupt",
        Phase::First,
        Rows::<BLK>::ROUND_TRIP_INTERRUPT,
    ),
    row("virtio-blk-eoi", Phase::First, Rows::<BLK>::EOI),
    row(
        "virtio-console-notify",
        Phase::First,
        Rows::<CONSOLE>::NOTIFY,
    ),
    row(
        "virtio-console-notify-idle",
        Phase::First,
        Rows::<CONSOLE>::NOTIFY_IDLE,
    ),
    row(
        "virtio-console-round-trip-polled",
        Phase::First,
        Rows::<CONSOLE>::ROUND_TRIP_POLLED,
    ),
    row(
        "virtio-console-round-trip-interrupt",
        Phase::First,
        Rows::<CONSOLE>::ROUND_TRIP_INTERRUPT,
    ),
    row("virtio-console-eoi", Phase::First, Rows::<CONSOLE>::EOI),
    row("virtio-net-notify", Phase::First, Rows::<NET>::NOTIFY),
    row(
        "virtio-net-notify-idle",
        Phase::First,
        Rows::<NET>::NOTIFY_IDLE,
    ),
    row(
        "virtio-net-round-trip-polled",
        Phase::First,
        Rows::<NET>::ROUND_TRIP_POLLED,
    ),
    row(
        "virtio-net-round-trip-interrupt",
        Phase::First,
        Rows::<NET>::ROUND_TRIP_INTERRUPT,
    ),
    row("virtio-net-eoi", Phase::First, Rows::<NET>::EOI),
    row("x2apic-tpr-write", Phase::X2apic, apic::x2apic_tpr_write),
    row("x2apic-eoi", Phase::X2apic, apic::x2apic_eoi),
    row("x2apic-self-ipi", Phase::X2apic, apic::x2apic_self_ipi),
    row(
        "x2apic-self-ipi-pv-eoi",
        Phase::X2apic,
        apic::x2apic_self_ipi_pv_eoi,
    ),
    row("rtc-read", Phase::Deadly, instruction::rtc_read),
    row(
        "pio-unassigned",
        Phase::Deadly,
        instruction::port_unassigned,
    ),
    row(
        "mmio-write-unassigned",
        Phase::Deadly,
        instruction::write_unassigned,
    ),
    row(
        "mmio-read-unassigned",
        Phase::Deadly,
        instruction::read_unassigned,
    ),
];

const _: () = assert!(ROWS.len() < 256, "a mark is a byte");
const _: () = assert!(has_names(&names::ROWS), "the rows have other names");

/// Returns whether the rows have these names, in this order.
const fn has_names(names: &[&str]) -> bool {
    let mut place = 0;
    while place < ROWS.len() && place < names.len() {
        let (one, other) = (ROWS[place].name.as_bytes(), names[place].as_bytes());
        let mut byte = 0;
        while byte < one.len() && byte < other.len() && one[byte] == other[byte] {
            byte += 1;
        }
        if byte < one.len() || byte < other.len() {
            return false;
        }
        place += 1;
    }
    ROWS.len() == names.len()
}

/// The mark of the row at a place.
#[allow(clippy::cast_possible_truncation, reason = "checked above")]
pub fn mark(place: usize) -> u8 {
    place as u8 + 1
}

/// The results of the rows.
pub struct Results {
    samples: [[u64; MAX_BATCHES as usize]; ROWS.len()],
    reasons: [Option<Reason>; ROWS.len()],
}

impl Results {
    /// Results in which no row has run.
    pub const fn new() -> Self {
        Self {
            samples: [[0; MAX_BATCHES as usize]; ROWS.len()],
            reasons: [None; ROWS.len()],
        }
    }

    /// The ticks of each batch of a row, or why it was not measured.
    pub fn row(&self, place: usize, batches: u32) -> Result<&[u64], Reason> {
        match self.reasons[place] {
            Some(reason) => Err(reason),
            None => Ok(&self.samples[place][..batches as usize]),
        }
    }

    /// Runs all rows.
    pub fn run(&mut self, probe: &mut Probe<'_>) {
        for (row, reason) in ROWS.iter().zip(&mut self.reasons) {
            if !probe.options.wants(row.name) {
                *reason = Some("not asked for");
            } else if row.phase == Phase::Deadly && probe.options.safe {
                *reason = Some("left out by the word safe");
            }
        }
        for phase in [Phase::First, Phase::X2apic, Phase::Deadly] {
            if phase == Phase::X2apic && !self.prepare_x2apic(probe) {
                continue;
            }
            self.batch(probe, phase, None);
            for batch in 0..probe.options.batches as usize {
                self.batch(probe, phase, Some(batch));
            }
        }
    }

    /// Switches to x2APIC mode, if a row needs it.
    fn prepare_x2apic(&mut self, probe: &mut Probe<'_>) -> bool {
        let rows = || (0..ROWS.len()).filter(|place| ROWS[*place].phase == Phase::X2apic);
        if rows().all(|place| self.reasons[place].is_some()) {
            return false;
        }
        let switched = probe.apic.switch_to_x2apic(&probe.cpu);
        if let Err(reason) = switched {
            for place in rows() {
                self.reasons[place].get_or_insert(reason);
            }
        }
        switched.is_ok()
    }

    /// Runs one batch of each row of a phase. Without a batch number, runs the unmeasured operation.
    fn batch(&mut self, probe: &mut Probe<'_>, phase: Phase, batch: Option<usize>) {
        for place in cmdline::order::<{ ROWS.len() }>(probe.options.order) {
            let row = &ROWS[place];
            if row.phase != phase || self.reasons[place].is_some() {
                continue;
            }
            if probe.options.verbose {
                say!("row ", row.name);
            }
            probe.mark = (probe.options.mark && batch.is_some()).then(|| mark(place));
            let operations = batch.map_or(1, |_| probe.options.operations);
            if probe.apic.mode != Mode::None {
                probe.apic.start_watchdog();
            }
            let result = (row.run)(probe, operations);
            probe.apic.stop_timer();
            match (result, batch) {
                (Ok(ticks), Some(batch)) => self.samples[place][batch] = ticks,
                (Ok(_), None) => {}
                (Err(reason), _) => self.reasons[place] = Some(reason),
            }
        }
    }
}
