//! The samples as CSV (RFC 4180), a line for each; the tables on a terminal and in Markdown do not contain them.

use std::borrow::Cow;
use std::fmt::Write;

use super::{Report, Timing};

/// Writes every sample of `report`; an entry that was not measured has no lines.
pub fn csv(report: &Report) -> String {
    let measured = match report.timing {
        Timing::Native => "ns_per_op",
        Timing::Emulated => "emulated_ns_per_op",
        Timing::Instructions => "instructions_per_op",
    };
    // Only reports about VMMs and networks have exits. They are known only for a whole row, so each of its lines
    // repeats them.
    let has_exits =
        !report.vmms().is_empty() && report.results.iter().any(|row| row.exits().is_some());
    let heading = if has_exits {
        ",exits_per_op,userspace_exits_per_op"
    } else {
        ""
    };
    let mut text = format!("command,group,backend,spin,run,ops,{measured}{heading}\n");
    for row in &report.results {
        let exits = match row.exits() {
            _ if !has_exits => String::new(),
            Some(exits) => {
                let text = |number: Option<f64>| number.map_or_else(String::new, |n| n.to_string());
                format!(",{},{}", text(exits.total), text(exits.userspace))
            }
            None => ",,".to_owned(),
        };
        let Some(times) = row.times() else { continue };
        for (run, (ns, ops)) in times.samples.iter().zip(&times.ops).enumerate() {
            // Writing to a String cannot fail.
            let _ = writeln!(
                text,
                "{},{},{},{},{},{ops},{ns}{exits}",
                field(&row.command),
                row.group.name(),
                field(&row.backend),
                field(row.setting.spin.as_deref().unwrap_or_default()),
                run + 1,
            );
        }
    }
    text
}

/// The text as one field: in quotes if needed, as for the name of a scanned row.
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
    fn exits_of_vmms_stand_in_each_line() {
        let first = sample::of_vmm("a", "cpuid", 900.0);
        let mut second = sample::of_vmm("a", "timer", 900.0);
        sample::of(&mut second).exits = None;
        let text = csv(&sample::of_vmms(
            vec![sample::vmm("a", 1, false)],
            vec![first, second],
        ));
        let line = |number: usize| text.lines().nth(number).unwrap_or_default();
        let end = ",ns_per_op,exits_per_op,userspace_exits_per_op";
        assert!(line(0).ends_with(end), "{text}");
        assert!(line(1).ends_with(",1,1"), "{text}");
        assert!(line(5).ends_with(",,"), "{text}");
    }
}
