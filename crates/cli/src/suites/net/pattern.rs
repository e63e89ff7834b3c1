//! netperf's patterns: round trips, and the streams that E. Auger used to measure forwarded interrupts (2014).

use std::ffi::OsString;

use clap::ValueEnum;

use crate::args::values::value;
use vmbell_bench::did_you_mean;

/// An operation of a stream: the bytes of a TCP segment that fills an Ethernet frame.
pub(super) const SEGMENT: u32 = 1448;

/// A pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum NetperfPattern {
    /// TCP_RR, one byte each way; per transaction
    Rr,
    /// TCP_STREAM, into the guest, sockets of 8 KiB, calls of 8 KiB; per 1448 bytes
    InDefault,
    /// TCP_STREAM, into the guest, sockets of 8 KiB, calls of 4 KiB; per 1448 bytes
    InFile,
    /// TCP_STREAM, into the guest, sockets of 64 KiB, calls of 8 KiB; per 1448 bytes
    InBulk,
    /// TCP_MAERTS, out of the guest, sockets of 8 KiB, calls of 8 KiB; per 1448 bytes
    OutDefault,
    /// TCP_MAERTS, out of the guest, sockets of 8 KiB, calls of 4 KiB; per 1448 bytes
    OutFile,
    /// TCP_MAERTS, out of the guest, sockets of 64 KiB, calls of 8 KiB; per 1448 bytes
    OutBulk,
}

/// A stream's direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StreamDirection {
    /// Into the guest.
    In,
    /// Out of the guest.
    Out,
}

impl NetperfPattern {
    /// The row's name.
    pub(super) fn name(self) -> String {
        value(&self).get_name().to_owned()
    }

    /// What the row with this name measures, as `vmbell list net` shows it.
    pub(super) fn described(row: &str) -> Option<String> {
        let pattern = Self::from_str(row, false).ok()?;
        value(&pattern).get_help().map(ToString::to_string)
    }

    /// The direction of a stream; `None` for other patterns.
    pub(super) const fn direction(self) -> Option<StreamDirection> {
        match self {
            Self::Rr => None,
            Self::InDefault | Self::InFile | Self::InBulk => Some(StreamDirection::In),
            Self::OutDefault | Self::OutFile | Self::OutBulk => Some(StreamDirection::Out),
        }
    }

    /// netperf's arguments: the test, and the test's options.
    pub(super) fn words(self) -> (&'static str, Vec<OsString>) {
        let test = match self.direction() {
            None => return ("TCP_RR", ["-r", "1,1"].map(Into::into).into()),
            Some(StreamDirection::In) => "TCP_STREAM",
            Some(StreamDirection::Out) => "TCP_MAERTS",
        };
        // The sizes of socket buffers, and of each send and receive.
        let (socket, call) = match self {
            Self::InBulk | Self::OutBulk => (64 << 10, 8 << 10),
            Self::InFile | Self::OutFile => (8 << 10, 4 << 10),
            _ => (8 << 10, 8 << 10),
        };
        let mut words = Vec::new();
        for (option, size) in [("-s", socket), ("-S", socket), ("-m", call), ("-M", call)] {
            // The values are for the local and the remote side: both ends of the stream use the same.
            words.extend([option.into(), format!("{size},{size}").into()]);
        }
        (test, words)
    }
}

/// Parses a pattern's name, or `all`.
pub(super) fn parse(name: &str) -> Result<Vec<NetperfPattern>, String> {
    let all = NetperfPattern::value_variants();
    if name == "all" {
        return Ok(all.into());
    }
    let found = NetperfPattern::from_str(name, false).map(|pattern| vec![pattern]);
    found.map_err(|_| {
        let names: Vec<String> = all.iter().map(|pattern| pattern.name()).collect();
        let known: Vec<&str> = names.iter().map(String::as_str).collect();
        let hint = did_you_mean(name, &known);
        format!(
            "no such pattern{hint}; there are {}, and all",
            known.join(", ")
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_a_pattern_and_all_is_each_once() {
        assert_eq!(parse("rr"), Ok(vec![NetperfPattern::Rr]));
        assert_eq!(parse("all").unwrap().len(), 7);
        let error = parse("in-bulky").unwrap_err();
        assert!(
            error.starts_with("no such pattern, did you mean 'in-bulk'?; there are rr, "),
            "{error}"
        );
    }
}
