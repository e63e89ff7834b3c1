//! The driver's side of the workload: it keeps a batch in flight, consumes used buffers, and sleeps when there is
//! nothing to do.

use super::{
    error::WorkloadError,
    options::{BUFFER_LEN, Batch, MAX_PIECES, Tokens, WorkloadOptions},
};
use vmbell_virtqueue::{AddError, Brand, Buffer, Driver, Opaque, Side, Status, Token};

/// The device status in which a driver may choose wrap counters: the device was found and features are negotiated, but
/// the queues are not live.
const PROBING: Status = Status::ACKNOWLEDGE
    .with(Status::DRIVER)
    .with(Status::FEATURES_OK);

/// How a turn of the driver ended, which decides what it does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DriverStep {
    /// All buffers are done.
    Done,
    /// The queue is due for a reset.
    Reset,
    /// There is a used buffer already: take another turn.
    Again,
    /// There is nothing to do: sleep until the device notifies the driver.
    Sleep,
}

/// The driver, with its state between turns.
pub(super) struct WorkloadDriver<S: Side, B> {
    queue: Driver<u64, S, B>,
    options: WorkloadOptions,
    pieces: [Buffer; MAX_PIECES as usize],
    started: u64,
    pub(super) completed: u64,
    pub(super) spurious: u64,
    pub(super) resets: u64,
    next_reset: u64,
    random: u64,
}

impl<S: Side, B: Brand> WorkloadDriver<S, B> {
    /// A driver of `queue` whose buffers are at `addr`.
    pub(super) fn new(
        queue: Driver<u64, S, B>,
        options: WorkloadOptions,
        addr: u64,
    ) -> Result<Self, WorkloadError> {
        let mut pieces = [Buffer::default(); MAX_PIECES as usize];
        let count = u32::from(options.pieces);
        let (mut addr, mut left) = (addr, BUFFER_LEN);
        for (piece, index) in pieces.iter_mut().zip(0..count) {
            let len = left / (count - index);
            *piece = Buffer::new(addr, len);
            addr += u64::from(len);
            left -= len;
        }
        let mut driver = Self {
            queue,
            options,
            pieces,
            started: 0,
            completed: 0,
            spurious: 0,
            resets: 0,
            next_reset: options.reset.unwrap_or(u64::MAX),
            random: 0x9e37_79b9_7f4a_7c15,
        };
        driver.choose_tokens()?;
        Ok(driver)
    }

    fn choose_tokens(&mut self) -> Result<(), WorkloadError> {
        if self.options.tokens == Tokens::WrapCounters {
            self.queue.use_wrap_counter(PROBING)?;
        }
        Ok(())
    }

    /// Adds and consumes buffers until neither is possible. Calls `kick` when the device asks to be
    /// notified.
    pub(super) fn turn(
        &mut self,
        mut kick: impl FnMut() -> Result<(), WorkloadError>,
    ) -> Result<DriverStep, WorkloadError> {
        self.queue.disable_cb();
        let before = (self.started, self.completed);
        loop {
            let (started, completed) = (self.started, self.completed);
            self.fill()?;
            if self.queue.kick_prepare() {
                kick()?;
            }
            while self.queue.get_used()?.is_some() {
                self.completed += 1;
            }
            if self.completed >= self.next_reset {
                return Ok(DriverStep::Reset);
            }
            if (self.started, self.completed) == (started, completed) {
                break;
            }
        }
        if (self.started, self.completed) == before {
            self.spurious += 1;
        }
        if self.completed == self.options.bufs {
            return Ok(DriverStep::Done);
        }
        Ok(if self.arm() {
            DriverStep::Sleep
        } else {
            DriverStep::Again
        })
    }

    /// Empties the queue after the device thread has dropped its side, and continues after the buffers that are done.
    pub(super) fn reset(&mut self) -> Result<(), WorkloadError> {
        while self.queue.get_used()?.is_some() {
            self.completed += 1;
        }
        self.queue.reset();
        self.choose_tokens()?;
        self.started = self.completed;
        self.next_reset = self.completed + self.options.reset.unwrap_or(u64::MAX / 2);
        self.resets += 1;
        Ok(())
    }

    fn fill(&mut self) -> Result<(), WorkloadError> {
        let batch = match self.options.batch {
            Batch::Fixed(batch) => u64::from(batch),
            Batch::Random => self.draw() % u64::from(self.options.ring_size) + 1,
        };
        let pieces = &self.pieces[..usize::from(self.options.pieces)];
        while self.started < self.options.bufs && self.started - self.completed < batch {
            match self.queue.add(pieces, &[], self.started) {
                Ok(()) => self.started += 1,
                Err(refused) => match refused.error {
                    AddError::Full { .. } => break,
                    error => return Err(WorkloadError::Add(error)),
                },
            }
        }
        Ok(())
    }

    /// Asks the device for a notification; false if there is a used buffer already.
    fn arm(&mut self) -> bool {
        if self.options.delayed_interrupt {
            return self.queue.enable_cb_delayed();
        }
        if self.options.tokens == Tokens::Wide {
            let token = self.queue.enable_cb_prepare::<Token<_>>();
            !self.queue.poll(token)
        } else {
            let opaque = self.queue.enable_cb_prepare::<Opaque<_>>();
            !self.queue.poll(opaque)
        }
    }

    /// The next number of a fixed xorshift sequence, so that every run draws the same numbers.
    fn draw(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random
    }
}

#[cfg(test)]
#[path = "driver_test.rs"]
mod tests;
