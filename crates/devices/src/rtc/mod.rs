//! The PC's clock with its memory, a Motorola MC146818: time and date, an alarm, interrupts at the end of each update,
//! and 128 bytes. It has no periodic interrupt and no square-wave output.
//!
//! The time starts as the host's time, in UTC. vCPU threads read and write the registers. The device's own thread
//! (`vmbell-rtc`) raises the interrupts, and sleeps while no interrupt is enabled.

mod clock;
mod time;

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use std::{fmt, io};

use vmbell::bus::BusDevice;
use vmbell::sync::{Mutex, MutexGuard};
use vmbell::thread::{EventLoop, ThreadKind, Timer};

use self::clock::Clock;

/// The first of the clock's two ports: a register's number, and then that register.
pub const RTC_PORTS: u64 = 0x70;
/// How many ports the clock has.
pub const RTC_LEN: u64 = 2;
/// The interrupt line of the clock.
pub const RTC_GSI: u32 = 8;
/// The register with the century, for the FADT.
pub const RTC_CENTURY: u8 = 0x32;

/// The time of a new clock. It is not 0, because a divider that is released behaves as if it had already counted for
/// half a second.
const BEGIN: Duration = Duration::from_secs(1);

/// The clock.
pub struct Rtc {
    shared: Arc<RtcShared>,
    /// Expires at the earliest time of the next interrupt.
    timer: Timer,
    _thread: EventLoop,
}

struct RtcShared {
    begun: Instant,
    state: Mutex<RtcState>,
    line: Box<dyn Fn(bool) + Send + Sync>,
    alarm: Box<dyn Fn() + Send + Sync>,
}

#[derive(Debug)]
struct RtcState {
    clock: Clock,
    register: u8,
    line: bool,
    alarmed: bool,
    /// The time at which the timer expires.
    next: Option<Duration>,
}

impl Rtc {
    /// Creates a clock that calls `line` with each new level of its interrupt line, and `alarm` for each alarm that may
    /// interrupt, on vCPU threads and on its own thread. Fails if its thread cannot be started.
    pub fn new(
        line: impl Fn(bool) + Send + Sync + 'static,
        alarm: impl Fn() + Send + Sync + 'static,
    ) -> io::Result<Self> {
        let unix = SystemTime::now().duration_since(UNIX_EPOCH);
        let seconds = i64::try_from(unix.unwrap_or_default().as_secs()).unwrap_or_default();
        let shared = Arc::new(RtcShared {
            begun: Instant::now(),
            state: Mutex::new(RtcState {
                clock: Clock::new(seconds, BEGIN),
                register: 0,
                line: false,
                alarmed: false,
                next: None,
            }),
            line: Box::new(line),
            alarm: Box::new(alarm),
        });
        let thread = EventLoop::new(ThreadKind::Device, "vmbell-rtc")?;
        let theirs = Arc::clone(&shared);
        let timer = thread.add_timer(move |timer| theirs.expire(timer))?;
        Ok(Self {
            shared,
            timer,
            _thread: thread,
        })
    }
}

impl RtcShared {
    fn now(&self) -> Duration {
        BEGIN + self.begun.elapsed()
    }

    fn lock(&self) -> MutexGuard<'_, RtcState> {
        self.state.lock()
    }

    /// Signals the changes of the line and the alarm.
    fn signal_changes(&self, state: &mut RtcState) {
        let line = state.clock.is_interrupting();
        if std::mem::replace(&mut state.line, line) != line {
            (self.line)(line);
        }
        let alarmed = state.clock.is_alarmed();
        if !std::mem::replace(&mut state.alarmed, alarmed) && alarmed {
            (self.alarm)();
        }
    }

    /// The work of the thread: the clock advances to the moment at which it may interrupt.
    fn expire(&self, timer: &Timer) {
        let mut state = self.lock();
        state.clock.advance(self.now());
        self.signal_changes(&mut state);
        state.next = None;
        self.arm(timer, &mut state);
    }

    /// Sets the timer to the earliest time of the next interrupt, if that time has changed.
    fn arm(&self, timer: &Timer, state: &mut RtcState) {
        let next = state.clock.next();
        if std::mem::replace(&mut state.next, next) == next {
            return;
        }
        match next {
            Some(next) => timer.set(next.saturating_sub(self.now())),
            None => timer.clear(),
        }
    }
}

impl BusDevice for Rtc {
    fn read(&self, offset: u64, data: &mut [u8]) {
        data.fill(0xff);
        if let (1, [byte]) = (offset, data) {
            let mut state = self.shared.lock();
            let register = state.register;
            // Determining the time costs more than the rest of the access.
            if let Some(constant) = state.clock.read_constant(register) {
                *byte = constant;
                return;
            }
            *byte = state.clock.read(register, self.shared.now());
            self.shared.signal_changes(&mut state);
        }
    }

    fn write(&self, offset: u64, data: &[u8]) {
        let [byte] = data else { return };
        let mut state = self.shared.lock();
        if offset == 0 {
            state.register = *byte;
            return;
        }
        let register = state.register;
        state.clock.write(register, *byte, self.shared.now());
        self.shared.signal_changes(&mut state);
        self.shared.arm(&self.timer, &mut state);
    }
}

impl fmt::Debug for Rtc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Rtc")
    }
}

#[cfg(test)]
#[path = "rtc_test.rs"]
mod tests;
