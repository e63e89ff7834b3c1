//! The state of the clock, as a function of a time that only goes forward: registers, update cycles and flags (MC146818
//! data sheet). It has no thread and reads no other clock, so that tests choose the time.

use std::time::Duration;

use super::time::{CLOCK, DAY, Format, Moment};

/// Registers of the alarm: seconds, minutes, hours.
const ALARM: [u8; 3] = [1, 3, 5];
const REGISTER_A: u8 = 0x0a;
const REGISTER_B: u8 = 0x0b;
const REGISTER_C: u8 = 0x0c;
const REGISTER_D: u8 = 0x0d;

/// Register A: an update is in progress.
const UIP: u8 = 1 << 7;
/// Register A: the divider chain; the 32.768 kHz oscillator counts with this value only.
const DIVIDER: u8 = 0x70;
const RUNNING: u8 = 0x20;
/// Register B: no updates, so that the time can be set.
const SET: u8 = 1 << 7;
const UPDATE_INTERRUPT: u8 = 1 << 4;
const BINARY: u8 = 1 << 2;
const HOURS_24: u8 = 1 << 1;
/// Register C: the interrupt bit, then the alarm and update bits, which register B enables with the same bits.
const INTERRUPT: u8 = 1 << 7;
const ALARM_FLAG: u8 = 1 << 5;
const UPDATE_FLAG: u8 = 1 << 4;
/// Register D: time and memory are valid.
const VALID: u8 = 1 << 7;
/// An alarm register with both bits matches everything.
const ANY: u8 = 0xc0;

const SECOND: Duration = Duration::from_secs(1);
/// How long before the end of an update UIP is set: 244 us before the update begins, and 1984 us for the update.
const UPDATE: Duration = Duration::from_micros(244 + 1984);

/// The clock. Its functions take the time since a fixed moment; that time must not go backward.
#[derive(Debug)]
pub(super) struct Clock {
    memory: [u8; 128],
    a: u8,
    b: u8,
    c: u8,
    /// When the seconds began to count; an update ends at each whole second after this.
    phase: Duration,
    /// Seconds since 1970 at `phase`, while the clock is counting.
    at_phase: i64,
    /// How many updates have ended since `phase`.
    updates: u64,
}

impl Clock {
    /// Creates a clock that shows `seconds` since 1970 at `now`.
    pub(super) fn new(seconds: i64, now: Duration) -> Self {
        Self {
            memory: [0; 128],
            a: RUNNING | 6,
            b: HOURS_24,
            c: 0,
            phase: now,
            at_phase: seconds,
            updates: 0,
        }
    }

    /// Reads a register that does not change with time; `None` for other registers. Bit 7 of the number is ignored.
    pub(super) fn read_constant(&self, register: u8) -> Option<u8> {
        let register = register & 0x7f;
        match register {
            REGISTER_A | REGISTER_C => None,
            REGISTER_B => Some(self.b),
            REGISTER_D => Some(VALID),
            _ if CLOCK.contains(&register) => None,
            _ => Some(self.memory[usize::from(register)]),
        }
    }

    /// Reads any register; bit 7 of the number is ignored.
    pub(super) fn read(&mut self, register: u8, now: Duration) -> u8 {
        self.advance(now);
        let register = register & 0x7f;
        match register {
            REGISTER_A => self.a | if self.is_updating(now) { UIP } else { 0 },
            REGISTER_C => std::mem::take(&mut self.c),
            _ => {
                if self.is_counting()
                    && let Some(index) = CLOCK.iter().position(|at| *at == register)
                {
                    return self.shown()[index];
                }
                let constant = self.read_constant(register);
                constant.unwrap_or_else(|| self.memory[usize::from(register)])
            }
        }
    }

    /// Writes a register; bit 7 of the number is ignored.
    pub(super) fn write(&mut self, register: u8, value: u8, now: Duration) {
        self.advance(now);
        let register = register & 0x7f;
        match register {
            REGISTER_A => self.change(now, |clock| clock.a = value & !UIP),
            REGISTER_B => self.change(now, |clock| {
                // A write that sets SET clears the enable bit of the update interrupt.
                let cleared = if value & SET == 0 {
                    0
                } else {
                    UPDATE_INTERRUPT
                };
                clock.b = value & !cleared;
            }),
            // Registers C and D cannot be written.
            REGISTER_C | REGISTER_D => {}
            _ if CLOCK.contains(&register) && self.is_counting() => {
                self.store_time();
                self.memory[usize::from(register)] = value;
                self.load_time();
            }
            _ => self.memory[usize::from(register)] = value,
        }
        self.interrupt();
    }

    /// Advances the time to `now`, and sets the flags of the events until then.
    pub(super) fn advance(&mut self, now: Duration) {
        let ended = now.saturating_sub(self.phase).as_secs();
        if self.is_counting() && ended > self.updates {
            self.c |= UPDATE_FLAG;
            // An alarm happens every day or never, so one day is enough to check.
            let first = (self.updates + 1).max(ended.saturating_sub(DAY.unsigned_abs() - 1));
            if (first..=ended).any(|update| self.is_alarm(update)) {
                self.c |= ALARM_FLAG;
            }
        }
        self.updates = self.updates.max(ended);
        self.interrupt();
    }

    /// Whether the interrupt line is up.
    pub(super) const fn is_interrupting(&self) -> bool {
        self.c & INTERRUPT != 0
    }

    /// Whether an alarm is flagged and may interrupt.
    pub(super) const fn is_alarmed(&self) -> bool {
        self.c & self.b & ALARM_FLAG != 0
    }

    /// The earliest time of the next interrupt: the end of the next update, if any interrupt is enabled.
    pub(super) fn next(&self) -> Option<Duration> {
        let enabled = self.b & (ALARM_FLAG | UPDATE_FLAG) != 0;
        let updates = u32::try_from(self.updates + 1).ok()?;
        (enabled && self.is_counting()).then(|| self.phase + SECOND * updates)
    }

    /// Whether the divider counts and updates are allowed.
    const fn is_counting(&self) -> bool {
        self.a & DIVIDER == RUNNING && self.b & SET == 0
    }

    fn is_updating(&self, now: Duration) -> bool {
        let in_second = now.saturating_sub(self.phase).subsec_nanos();
        self.is_counting() && Duration::from_nanos(in_second.into()) >= SECOND - UPDATE
    }

    const fn format(&self) -> Format {
        Format {
            binary: self.b & BINARY != 0,
            hours24: self.b & HOURS_24 != 0,
        }
    }

    /// The registers of time and date while the clock is counting.
    fn shown(&self) -> [u8; 8] {
        self.format().encode(self.moment(self.updates))
    }

    fn moment(&self, update: u64) -> Moment {
        Moment::at(self.at_phase.saturating_add_unsigned(update))
    }

    fn is_alarm(&self, update: u64) -> bool {
        let [second, minute, hour, ..] = self.format().encode(self.moment(update));
        ALARM.iter().zip([second, minute, hour]).all(|(at, shown)| {
            let wanted = self.memory[usize::from(*at)];
            wanted & ANY == ANY || wanted == shown
        })
    }

    /// Changes register A or B, which may stop the time, or restart it from its registers.
    fn change(&mut self, now: Duration, change: impl FnOnce(&mut Self)) {
        let (was_counting, counted) = (self.is_counting(), self.a & DIVIDER == RUNNING);
        if was_counting {
            self.store_time();
        }
        change(self);
        if !counted && self.a & DIVIDER == RUNNING {
            // The first update comes half a second after the divider is released.
            self.phase = now.saturating_sub(SECOND / 2);
            self.updates = 0;
        }
        if self.is_counting() && !was_counting {
            self.load_time();
        }
    }

    /// Stores the time in the memory of its registers.
    fn store_time(&mut self) {
        for (at, value) in CLOCK.iter().zip(self.shown()) {
            self.memory[usize::from(*at)] = value;
        }
    }

    /// Loads the time from the memory of its registers.
    fn load_time(&mut self) {
        let shown = CLOCK.map(|at| self.memory[usize::from(at)]);
        let seconds = self.format().decode(shown).seconds();
        self.at_phase = seconds.saturating_sub_unsigned(self.updates);
    }

    fn interrupt(&mut self) {
        let interrupts = self.c & self.b & (ALARM_FLAG | UPDATE_FLAG) != 0;
        self.c = self.c & !INTERRUPT | if interrupts { INTERRUPT } else { 0 };
    }
}

#[cfg(test)]
#[path = "clock_test.rs"]
mod tests;
