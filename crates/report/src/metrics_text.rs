//! Writes OpenMetrics text: families with their samples.

use std::fmt::{Display, Write};

/// A label's name and value.
pub type Label<'a> = (&'a str, &'a str);

/// The text of metrics.
#[derive(Debug, Default)]
pub struct MetricsText(String);

impl MetricsText {
    /// Begins a family of this type, such as `gauge`. Its samples follow; a `counter`'s sample names end with `_total`.
    pub fn family(&mut self, name: &str, kind: &str, help: &str) {
        // Writing to a String cannot fail, here and below.
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    /// Adds a sample.
    pub fn sample(&mut self, name: &str, labels: &[Label<'_>], value: impl Display) {
        self.0.push_str(name);
        for (place, (label, text)) in labels.iter().enumerate() {
            let before = if place == 0 { '{' } else { ',' };
            let _ = write!(self.0, "{before}{label}=\"{}\"", escaped(text));
        }
        let after = if labels.is_empty() { "" } else { "}" };
        let _ = writeln!(self.0, "{after} {value}");
    }

    /// Ends the text.
    pub fn finish(mut self) -> String {
        self.0.push_str("# EOF\n");
        self.0
    }
}

/// Escapes a label's value so that both OpenMetrics and Prometheus' older format can read it.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}
