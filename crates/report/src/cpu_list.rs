//! Lists of CPUs as Linux writes them: `0,2-3`.

use std::fmt;

/// The largest CPU number plus one: `cpu_set_t` has that many bits.
const LIMIT: usize = 1024;

/// Why a text is not a list of CPUs.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum CpuListError {
    /// An item is neither a number nor a range.
    #[error("'{0}' is neither a CPU number nor a range such as 0-3")]
    NotANumber(String),
    /// A range ends before it starts.
    #[error("the range '{0}' ends before it starts")]
    Backwards(String),
    /// A number is too large for `cpu_set_t`.
    #[error("'{0}' is beyond the last possible CPU, {last}", last = LIMIT - 1)]
    TooLarge(String),
}

/// Reads a list. The order is kept, because the first CPU is for the measured side. Repeated CPUs are kept too.
pub fn parse(list: &str) -> Result<Vec<usize>, CpuListError> {
    let mut cpus = Vec::new();
    for item in list.split(',').map(str::trim) {
        let number = |text: &str| -> Result<usize, CpuListError> {
            text.parse()
                .map_err(|_| CpuListError::NotANumber(item.to_owned()))
        };
        let (first, last) = match item.split_once('-') {
            Some((first, last)) => (number(first)?, number(last)?),
            None => (number(item)?, number(item)?),
        };
        if last >= LIMIT {
            return Err(CpuListError::TooLarge(item.to_owned()));
        }
        if last < first {
            return Err(CpuListError::Backwards(item.to_owned()));
        }
        cpus.extend(first..=last);
    }
    Ok(cpus)
}

/// Formats CPU numbers as a list; three or more consecutive ones become a range.
#[derive(Clone, Copy, Debug)]
pub struct Display<'a>(pub &'a [usize]);

impl fmt::Display for Display<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = self.0;
        let mut separator = "";
        while let [first, ..] = *rest {
            let run = (1..rest.len())
                .take_while(|i| rest[*i] == first + i)
                .count()
                + 1;
            if run >= 3 {
                write!(f, "{separator}{first}-{}", first + run - 1)?;
                rest = &rest[run..];
            } else {
                write!(f, "{separator}{first}")?;
                rest = &rest[1..];
            }
            separator = ",";
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "cpu_list_test.rs"]
mod tests;
