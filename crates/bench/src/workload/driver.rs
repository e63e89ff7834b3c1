//! The driver's side of the workload: keep a batch in flight, consume, sleep when nothing moves.

use super::{
    options::{BUFFER_LEN, Batch, MAX_PIECES, Options, Tokens},
    run::WorkloadError,
};
use vmbell::virtqueue::{AddError, Buffer, DriverControl, DriverQueue, Status};

/// When a driver chooses wrap counters: it was found, features are negotiated, queues are not live.
const PROBING: Status = Status::ACKNOWLEDGE
    .with(Status::DRIVER)
    .with(Status::FEATURES_OK);

/// What the driver is about to do when nothing moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// All buffers are done.
    Done,
    /// The queue is due for a reset.
    Reset,
    /// There is something to consume already.
    Again,
    /// Sleep until called.
    Sleep,
}

/// The driver, between its turns.
#[derive(Debug)]
pub(super) struct Driver<D> {
    queue: D,
    options: Options,
    pieces: [Buffer; MAX_PIECES as usize],
    started: u64,
    pub(super) completed: u64,
    pub(super) spurious: u64,
    pub(super) resets: u64,
    next_reset: u64,
    random: u64,
}

impl<D: DriverQueue<Data = u64> + DriverControl<Data = u64>> Driver<D> {
    /// Drives `queue` with buffers at `addr`.
    pub(super) fn new(queue: D, options: Options, addr: u64) -> Result<Self, WorkloadError> {
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

    /// Works until nothing moves. `kick` is called where the device wants to know.
    pub(super) fn turn(
        &mut self,
        mut kick: impl FnMut() -> Result<(), WorkloadError>,
    ) -> Result<Next, WorkloadError> {
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
                return Ok(Next::Reset);
            }
            if (self.started, self.completed) == (started, completed) {
                break;
            }
        }
        if (self.started, self.completed) == before {
            self.spurious += 1;
        }
        if self.completed == self.options.bufs {
            return Ok(Next::Done);
        }
        Ok(if self.arm() { Next::Sleep } else { Next::Again })
    }

    /// Empties the queue, which the device has let go of, and counts on from what is done.
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

    /// Asks to be called; false if there is something already.
    fn arm(&mut self) -> bool {
        if self.options.delayed_interrupt {
            return self.queue.enable_cb_delayed();
        }
        if self.options.tokens == Tokens::Wide {
            let token = self.queue.enable_cb_prepare64();
            !self.queue.poll64(token)
        } else {
            let opaque = self.queue.enable_cb_prepare();
            !self.queue.poll(opaque)
        }
    }

    /// The next number of a fixed sequence (xorshift), so that runs can be repeated.
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
