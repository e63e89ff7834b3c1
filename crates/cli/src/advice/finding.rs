//! One thing about a host that acts on its numbers.

use serde::Serialize;

/// What a finding does to the numbers, the worst first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Severity {
    /// Two runs of the same differ by it, or a number is not what its name says.
    Distorts,
    /// Paths cost more than they could.
    Slows,
    /// It could not be found out whether there is something.
    Unknown,
    /// It is as it should be, or a matter of choice.
    Note,
}

impl Severity {
    /// The word in the text.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Distorts => "distorts",
            Self::Slows => "slows",
            Self::Unknown => "unknown",
            Self::Note => "note",
        }
    }
}

/// A finding: the fact, what it does, what it costs here, and how to change it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Finding {
    /// What it does to the numbers.
    pub(crate) severity: Severity,
    /// The fact, with its value.
    pub(crate) fact: String,
    /// Where it was read.
    pub(crate) source: String,
    /// What it does.
    pub(crate) effect: String,
    /// What it costs here, and how that was measured; `None` if it was not measured.
    pub(crate) cost: Option<String>,
    /// How to change it.
    pub(crate) remedy: String,
}

impl Finding {
    /// A finding whose cost was not measured.
    pub(crate) fn new(
        severity: Severity,
        (fact, source): (impl Into<String>, impl Into<String>),
        effect: &str,
        remedy: &str,
    ) -> Self {
        Self {
            severity,
            fact: fact.into(),
            source: source.into(),
            effect: effect.to_owned(),
            cost: None,
            remedy: remedy.to_owned(),
        }
    }

    /// The same with what it costs.
    pub(crate) fn costing(self, cost: String) -> Self {
        Self {
            cost: Some(cost),
            ..self
        }
    }

    /// That it cannot be told whether there is something, and why.
    pub(crate) fn untold(whether: &str, source: &str, why: &str) -> Self {
        Self::new(
            Severity::Unknown,
            (format!("cannot tell whether {whether}: {why}"), source),
            "it may change the numbers",
            "run this where the file can be read: as root, or outside the container",
        )
    }
}
