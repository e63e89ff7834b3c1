//! Records of a program's progress on its standard error, which the lab shows as a bar. A record is a line that begins
//! with the byte 0x1e (ASCII's record separator), followed by the number of completed steps, the number of all steps,
//! and a word for the latest step. All other bytes are passed on.

use std::io::{self, Write};

/// The first byte of a record.
const SEPARATOR: u8 = 0x1e;

/// The maximum number of bytes of a record. A longer line is passed on as text.
const LONGEST: usize = 256;

/// Formats the record that `done` of `all` steps are completed, the last one called `name`.
pub fn record(done: u64, all: u64, name: &str) -> String {
    format!("{}{done} {all} {name}\n", char::from(SEPARATOR))
}

/// The content of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ProgressStep<'l> {
    pub done: u64,
    pub all: u64,
    pub name: &'l str,
}

/// Takes the records out of a stream.
pub(crate) struct StepFilter<T, S> {
    text: T,
    step: S,
    /// The part of a record that has arrived so far.
    begun: Vec<u8>,
    in_line: bool,
}

impl<T: Write, S: FnMut(ProgressStep<'_>)> StepFilter<T, S> {
    /// Passes text to `text`, and the content of records to `step`.
    pub fn new(text: T, step: S) -> Self {
        Self {
            text,
            step,
            begun: Vec::new(),
            in_line: false,
        }
    }

    /// Takes bytes of a record and returns the rest.
    fn take_record<'b>(&mut self, bytes: &'b [u8]) -> io::Result<&'b [u8]> {
        let end = bytes.iter().position(|byte| *byte == b'\n');
        let (more, rest) = bytes.split_at(end.map_or(bytes.len(), |end| end + 1));
        self.begun.extend_from_slice(more);
        if end.is_none() && self.begun.len() <= LONGEST {
            return Ok(rest);
        }
        match parse(&self.begun) {
            Some(step) => {
                (self.step)(step);
                self.begun.clear();
            }
            None => {
                self.in_line = end.is_none();
                self.pass_begun()?;
            }
        }
        Ok(rest)
    }

    fn pass_begun(&mut self) -> io::Result<()> {
        let begun = std::mem::take(&mut self.begun);
        self.text.write_all(&begun)
    }

    /// Passes bytes up to the next record and returns the rest.
    fn pass_text<'b>(&mut self, bytes: &'b [u8]) -> io::Result<&'b [u8]> {
        let begins = |index: &usize| match index.checked_sub(1) {
            Some(before) => bytes[before] == b'\n',
            None => !self.in_line,
        };
        let mut separators = (0..bytes.len()).filter(|index| bytes[*index] == SEPARATOR);
        let (text, rest) = bytes.split_at(separators.find(begins).unwrap_or(bytes.len()));
        if let Some(last) = text.last() {
            self.in_line = *last != b'\n';
            self.text.write_all(text)?;
        }
        if let Some((first, rest)) = rest.split_first() {
            self.begun.push(*first);
            return Ok(rest);
        }
        Ok(rest)
    }
}

impl<T: Write, S: FnMut(ProgressStep<'_>)> Write for StepFilter<T, S> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut rest = bytes;
        while !rest.is_empty() {
            rest = match self.begun.is_empty() {
                true => self.pass_text(rest)?,
                false => self.take_record(rest)?,
            };
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.text.flush()
    }
}

fn parse(record: &[u8]) -> Option<ProgressStep<'_>> {
    let text = std::str::from_utf8(record).ok()?;
    let text = text.strip_prefix(char::from(SEPARATOR))?;
    let mut words = text.strip_suffix('\n')?.splitn(3, ' ');
    Some(ProgressStep {
        done: words.next()?.parse().ok()?,
        all: words.next()?.parse().ok()?,
        name: words.next()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Filters these pieces; returns the text and the steps.
    fn filtered(pieces: &[&[u8]]) -> (String, Vec<String>) {
        let (mut text, mut steps) = (Vec::new(), Vec::new());
        let step = |step: ProgressStep<'_>| {
            steps.push(format!("{}/{} {}", step.done, step.all, step.name));
        };
        let mut filter = StepFilter::new(&mut text, step);
        for piece in pieces {
            filter.write_all(piece).unwrap();
        }
        drop(filter);
        (String::from_utf8(text).unwrap(), steps)
    }

    #[test]
    fn records_are_taken_out_of_the_text_wherever_it_is_cut() {
        let all = format!(
            "a{}b\n{}{}c\n",
            record(9, 9, "in a line"),
            record(3, 16, "eoi-pv"),
            record(4, 16, "x y")
        );
        let bytes = all.as_bytes();
        let whole = filtered(&[bytes]);
        let rest = format!("a{}b\nc\n", record(9, 9, "in a line"));
        assert_eq!(
            whole,
            (rest, vec!["3/16 eoi-pv".to_owned(), "4/16 x y".to_owned()])
        );
        for cut in 0..bytes.len() {
            assert_eq!(filtered(&[&bytes[..cut], &bytes[cut..]]), whole, "{cut}");
        }
    }

    #[test]
    fn what_only_begins_like_a_record_is_text() {
        for text in ["\x1e\n", "\x1e3 x\n", "\x1ethree 16 x\nnext\n"] {
            assert_eq!(filtered(&[text.as_bytes()]), (text.to_owned(), vec![]));
        }
        let long = format!("\x1e1 2 {}", "x".repeat(LONGEST));
        let (text, steps) = filtered(&[long.as_bytes(), b"\x1e1 2 x\n"]);
        assert_eq!((text, steps.len()), (format!("{long}\x1e1 2 x\n"), 0));
    }
}
