//! The samples as CSV (RFC 4180), one row for each; the tables on a terminal and in Markdown leave them out.

use std::borrow::Cow;
use std::fmt::Write;

use super::{Report, Timing};

/// Writes every sample of `report`; an entry that was not measured has no rows.
pub fn csv(report: &Report) -> String {
    let measured = match report.timing {
        Timing::Native => "ns_per_op",
        Timing::Emulated => "emulated_ns_per_op",
        Timing::Instructions => "instructions_per_op",
    };
    // Of the reports of `vmbell bench vmms`; exits are of the row, and stand in each line.
    let has_exits = report.results.iter().any(|row| row.exit_reasons.is_some());
    let heading = if has_exits {
        ",exits_per_op,userspace_exits_per_op"
    } else {
        ""
    };
    let mut text = format!("command,group,backend,spin,run,ops,{measured}{heading}\n");
    for row in &report.results {
        let exits = match row.exits {
            _ if !has_exits => String::new(),
            Some(exits) => {
                let all = exits.light.map(|light| (light + exits.heavy).to_string());
                format!(",{},{}", all.unwrap_or_default(), exits.heavy)
            }
            None => ",,".to_owned(),
        };
        for (run, ns) in row.samples_ns.iter().enumerate() {
            // Writing to a String cannot fail.
            let _ = writeln!(
                text,
                "{},{},{},{},{},{},{ns}{exits}",
                field(&row.command),
                row.group.name(),
                field(&row.backend),
                field(row.spin.as_deref().unwrap_or_default()),
                run + 1,
                row.ops_of(run),
            );
        }
    }
    text
}

/// The text as one field: in quotes if it needs them, as the name of a scanned row does.
fn field(text: &str) -> Cow<'_, str> {
    if text.contains([',', '"', '\r', '\n']) {
        return Cow::Owned(format!("\"{}\"", text.replace('"', "\"\"")));
    }
    Cow::Borrowed(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    #[test]
    fn names_with_commas_quotes_and_lines_are_one_field() {
        let mut report = sample::report();
        report.results[0].command = "portio,doorbells=5".to_owned();
        report.results[1].command = "a \"b\"\nc".to_owned();
        let text = csv(&report);
        assert!(
            text.contains("\n\"portio,doorbells=5\",scenario,"),
            "{text}"
        );
        assert!(text.contains("\n\"a \"\"b\"\"\nc\",scenario,"), "{text}");
    }

    #[test]
    fn the_heading_names_the_unit() {
        let heading = |report: &Report| csv(report).lines().next().map(str::to_owned);
        let columns = "command,group,backend,spin,run,ops,";
        let mut report = sample::counted();
        assert_eq!(
            heading(&report),
            Some(format!("{columns}instructions_per_op"))
        );
        report.timing = Timing::Emulated;
        assert_eq!(
            heading(&report),
            Some(format!("{columns}emulated_ns_per_op"))
        );
        report.timing = Timing::Native;
        assert_eq!(heading(&report), Some(format!("{columns}ns_per_op")));
    }

    #[test]
    fn exits_that_were_counted_stand_in_each_line() {
        let mut report = sample::report();
        report.results[0].exit_reasons = Some(crate::ExitReasons::default());
        report.results[1].exits = None;
        let text = csv(&report);
        let line = |number: usize| text.lines().nth(number).unwrap_or_default();
        let end = ",ns_per_op,exits_per_op,userspace_exits_per_op";
        assert!(line(0).ends_with(end), "{text}");
        assert!(line(1).ends_with(",1,1"), "{text}");
        let second = report.results[0].samples_ns.len() + 1;
        assert!(line(second).ends_with(",,"), "{text}");
    }
}
