//! The PC's clock with its memory, a Motorola MC146818: time and date, an alarm, interrupts at the end of each update,
//! and 128 bytes. It has no periodic interrupt and no square wave.
//!
//! The time starts as the host's, in UTC. Vcpus' threads read and write the registers; a thread of the device's own
//! (`vmbell-rtc`) raises the interrupts, and sleeps while none is enabled.

mod clock;
mod time;

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use std::{fmt, io};

use vmbell::bus::BusDevice;
use vmbell::thread::{self, ThreadKind};

use self::clock::Clock;

/// The first of its two ports: the number of a register, and behind it the register.
pub const RTC_PORTS: u64 = 0x70;
/// How many ports it has.
pub const RTC_LEN: u64 = 2;
/// The interrupt line of the clock.
pub const RTC_GSI: u32 = 8;
/// The register with the century, for the FADT.
pub const RTC_CENTURY: u8 = 0x32;

/// The clock's time begins a second after the moment from which it is counted: the divider, once released, behaves as
/// if it had counted for half a second.
const BEGIN: Duration = Duration::from_secs(1);

/// The device.
pub struct Rtc {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    begun: Instant,
    state: Mutex<State>,
    changed: Condvar,
    line: Box<dyn Fn(bool) + Send + Sync>,
    alarm: Box<dyn Fn() + Send + Sync>,
}

#[derive(Debug)]
struct State {
    clock: Clock,
    register: u8,
    line: bool,
    alarmed: bool,
    ended: bool,
}

impl Rtc {
    /// A clock that calls `line` with each new level of its interrupt line, and `alarm` for each alarm that may
    /// interrupt, on the threads of vCPUs and on its own. Fails if its thread cannot be started.
    pub fn new(
        line: impl Fn(bool) + Send + Sync + 'static,
        alarm: impl Fn() + Send + Sync + 'static,
    ) -> io::Result<Self> {
        let unix = SystemTime::now().duration_since(UNIX_EPOCH);
        let seconds = i64::try_from(unix.unwrap_or_default().as_secs()).unwrap_or_default();
        let shared = Arc::new(Shared {
            begun: Instant::now(),
            state: Mutex::new(State {
                clock: Clock::new(seconds, BEGIN),
                register: 0,
                line: false,
                alarmed: false,
                ended: false,
            }),
            changed: Condvar::new(),
            line: Box::new(line),
            alarm: Box::new(alarm),
        });
        let theirs = Arc::clone(&shared);
        let thread = thread::spawn(ThreadKind::Device, "vmbell-rtc", move || theirs.interrupt())?;
        Ok(Self {
            shared,
            thread: Some(thread),
        })
    }
}

impl Shared {
    fn now(&self) -> Duration {
        BEGIN + self.begun.elapsed()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells what has changed.
    fn tell(&self, state: &mut State) {
        let line = state.clock.is_interrupting();
        if std::mem::replace(&mut state.line, line) != line {
            (self.line)(line);
        }
        let alarmed = state.clock.is_alarmed();
        if !std::mem::replace(&mut state.alarmed, alarmed) && alarmed {
            (self.alarm)();
        }
    }

    /// The thread: lets the clock go on to each moment at which it may interrupt.
    fn interrupt(&self) {
        let mut state = self.lock();
        while !state.ended {
            let now = self.now();
            state.clock.advance(now);
            self.tell(&mut state);
            state = match state.clock.next() {
                Some(next) => {
                    let wait = self.changed.wait_timeout(state, next.saturating_sub(now));
                    wait.unwrap_or_else(PoisonError::into_inner).0
                }
                None => {
                    let wait = self.changed.wait(state);
                    wait.unwrap_or_else(PoisonError::into_inner)
                }
            };
        }
    }
}

impl BusDevice for Rtc {
    fn read(&self, offset: u64, data: &mut [u8]) {
        data.fill(0xff);
        if let (1, [byte]) = (offset, data) {
            let mut state = self.shared.lock();
            let register = state.register;
            *byte = state.clock.read(register, self.shared.now());
            self.shared.tell(&mut state);
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
        self.shared.tell(&mut state);
        self.shared.changed.notify_one();
    }
}

impl Drop for Rtc {
    fn drop(&mut self) {
        self.shared.lock().ended = true;
        self.shared.changed.notify_one();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
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
