//! The patterns of netperf: round trips, and the streams of the measurement of forwarded interrupts by E. Auger (2014).

use std::ffi::OsString;

/// What an operation of a stream is: the bytes of a TCP segment that fills an Ethernet frame.
pub(super) const SEGMENT: u32 = 1448;

/// A pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pattern {
    /// A request of one byte, answered by one byte.
    RoundTrip,
    /// Bytes in one direction.
    Stream(Direction, Sizes),
}

/// Where a stream goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    /// Into the guest.
    In,
    /// Out of it.
    Out,
}

/// How large the buffers of a stream are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sizes {
    /// Sockets, sends and receives of 8 KiB.
    Default,
    /// Sends and receives of 4 KiB.
    File,
    /// Sockets of 64 KiB.
    Bulk,
}

impl Sizes {
    /// The sizes of sockets, and of each send and receive.
    const fn bytes(self) -> (u32, u32) {
        match self {
            Self::Default => (8 << 10, 8 << 10),
            Self::File => (8 << 10, 4 << 10),
            Self::Bulk => (64 << 10, 8 << 10),
        }
    }
}

impl Pattern {
    /// All, in the order of the table.
    pub(super) const ALL: [Self; 7] = [
        Self::RoundTrip,
        Self::Stream(Direction::In, Sizes::Default),
        Self::Stream(Direction::In, Sizes::File),
        Self::Stream(Direction::In, Sizes::Bulk),
        Self::Stream(Direction::Out, Sizes::Default),
        Self::Stream(Direction::Out, Sizes::File),
        Self::Stream(Direction::Out, Sizes::Bulk),
    ];

    /// The name of its row.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::RoundTrip => "rr",
            Self::Stream(Direction::In, Sizes::Default) => "in-default",
            Self::Stream(Direction::In, Sizes::File) => "in-file",
            Self::Stream(Direction::In, Sizes::Bulk) => "in-bulk",
            Self::Stream(Direction::Out, Sizes::Default) => "out-default",
            Self::Stream(Direction::Out, Sizes::File) => "out-file",
            Self::Stream(Direction::Out, Sizes::Bulk) => "out-bulk",
        }
    }

    /// What it is, in a line.
    pub(super) fn text(self) -> String {
        match self {
            Self::RoundTrip => "TCP_RR, one byte each way; per transaction".to_owned(),
            Self::Stream(direction, sizes) => {
                let (socket, call) = sizes.bytes();
                let (test, place) = match direction {
                    Direction::In => ("TCP_STREAM", "into"),
                    Direction::Out => ("TCP_MAERTS", "out of"),
                };
                format!(
                    "{test}, {place} the guest, sockets of {} KiB, calls of {} KiB; per {SEGMENT} bytes",
                    socket >> 10,
                    call >> 10
                )
            }
        }
    }

    /// netperf's words: the test, then its own options.
    pub(super) fn words(self) -> (&'static str, Vec<OsString>) {
        match self {
            Self::RoundTrip => ("TCP_RR", ["-r", "1,1"].map(Into::into).into()),
            Self::Stream(direction, sizes) => {
                let (socket, call) = sizes.bytes();
                // Two values are the near side's and the far one's: the stream has these calls at both of its ends.
                let both = |size: u32| format!("{size},{size}");
                let mut words: Vec<OsString> = Vec::new();
                for (option, size) in [("-s", socket), ("-S", socket), ("-m", call), ("-M", call)] {
                    words.extend([option.into(), both(size).into()]);
                }
                match direction {
                    Direction::In => ("TCP_STREAM", words),
                    Direction::Out => ("TCP_MAERTS", words),
                }
            }
        }
    }
}

/// Parses a pattern's name, or `all`.
pub(super) fn parse(name: &str) -> Result<Vec<Pattern>, String> {
    if name == "all" {
        return Ok(Pattern::ALL.into());
    }
    let found = Pattern::ALL
        .into_iter()
        .find(|pattern| pattern.name() == name);
    let names = || Pattern::ALL.map(Pattern::name).join(", ");
    found
        .map(|pattern| vec![pattern])
        .ok_or_else(|| format!("there are {}, and all", names()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_a_pattern_and_all_is_each_once() {
        assert_eq!(parse("rr"), Ok(vec![Pattern::RoundTrip]));
        assert_eq!(parse("all").unwrap().len(), 7);
        assert!(parse("in-bulky").unwrap_err().contains("in-bulk, "));
    }
}
