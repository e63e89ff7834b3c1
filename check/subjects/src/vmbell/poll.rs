//! vmbell's polling drivers, one for each type of value that records a position in the ring: a 16-bit index, an index
//! with a count of wraps, and a 64-bit token.

use vmbell_virtqueue::{Opaque, PackedDriver, Side, SplitDriver, Status, Token};

use super::{Pieces, Queue, Rings, Subject, features, packed_layout, split_layout};
use crate::poll::{Poller, Polls};
use crate::{DriverSide, Site};

/// With a 16-bit `Opaque`, like Linux's.
pub const INDEX: Poller = Poller {
    name: "vmbell, 16-bit index",
    new: |site, before| new(site, before, Kind::Index),
};

/// With an `Opaque` of a 16-bit index and 16 bits that count its wraps.
pub const WRAPS: Poller = Poller {
    name: "vmbell, 16-bit index and 16 bits of wraps",
    new: |site, before| new(site, before, Kind::Wraps),
};

/// With a 64-bit `Token`.
pub const TOKEN: Poller = Poller {
    name: "vmbell, 64-bit token",
    new: |site, before| new(site, before, Kind::Token),
};

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Index,
    Wraps,
    Token,
}

/// What the driver remembered.
enum Memo {
    Opaque(Opaque<Subject>),
    Token(Token<Subject>),
}

struct Polling<S: Side> {
    queue: Queue<S>,
    memo: Memo,
}

/// Makes a queue that remembers its place, and is then restored to the state after `before` consumed buffers.
fn new(site: &Site, before: u64, kind: Kind) -> Box<dyn Polls> {
    fn over<S: Side + 'static>(
        mut first: Rings<S>,
        second: Rings<S>,
        before: u64,
        kind: Kind,
    ) -> Box<dyn Polls> {
        if kind == Kind::Wraps {
            let done = first.use_wrap_counter(Status(1));
            done.expect("the device is not live yet");
        }
        let memo = match kind {
            Kind::Index | Kind::Wraps => Memo::Opaque(first.enable_cb_prepare::<Opaque<_>>()),
            Kind::Token => Memo::Token(first.enable_cb_prepare::<Token<_>>()),
        };
        let mut queue = first;
        if before != 0 {
            let mut state = queue.save().expect("no data was taken");
            state.position += before;
            // The low half of a position on a split ring.
            let index = u16::try_from(state.position & 0xffff).unwrap_or_default();
            (state.available, state.used_seen) = (index, index);
            queue = second;
            let done = queue.restore(&state, |_| None);
            done.expect("a queue can have consumed this number of buffers");
        }
        Box::new(Polling {
            queue: Queue(queue, Pieces::One),
            memo,
        })
    }
    assert!(
        before == 0 || site.is_split(),
        "only on a split ring is a position a count of buffers"
    );
    let features = || features(site, false);
    if site.is_split() {
        let layout = split_layout(site);
        let second = SplitDriver::attach(site, &layout, features(), Subject(()));
        let first = SplitDriver::new(site, &layout, features(), Subject(()));
        let (first, second) = (first.expect("in memory"), second.expect("in memory"));
        over(first, second, before, kind)
    } else {
        let layout = packed_layout(site);
        let second = PackedDriver::attach(site, &layout, features(), Subject(()));
        let first = PackedDriver::new(site, &layout, features(), Subject(()));
        let (first, second) = (first.expect("in memory"), second.expect("in memory"));
        over(first, second, before, kind)
    }
}

impl<S: Side> Polls for Polling<S> {
    fn side(&mut self) -> &mut dyn DriverSide {
        &mut self.queue
    }
    fn poll(&self) -> bool {
        match self.memo {
            Memo::Opaque(opaque) => self.queue.0.poll(opaque),
            Memo::Token(token) => self.queue.0.poll(token),
        }
    }
}
