//! One fact about a host that affects its numbers.

use serde::Serialize;

/// How a finding affects the numbers, worst first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Severity {
    /// Makes two runs of the same program differ, or a number differ from what its name says.
    Distorts,
    /// Paths cost more than they could.
    Slows,
    /// How the finding affects the numbers could not be determined.
    Unknown,
    /// What was found is as it should be, or is a matter of choice.
    Note,
}

impl Severity {
    /// The word for this severity in the printed text.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Distorts => "distorts",
            Self::Slows => "slows",
            Self::Unknown => "unknown",
            Self::Note => "note",
        }
    }
}

/// A finding: the fact, its effect, its cost here, and how to change it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Finding {
    /// How the fact affects the numbers.
    pub(crate) severity: Severity,
    /// The fact, with its value.
    pub(crate) fact: String,
    /// Where the fact was read.
    pub(crate) source: String,
    /// The effect of the fact.
    pub(crate) effect: String,
    /// The cost here, and how it was measured; `None` if it was not measured.
    pub(crate) cost: Option<String>,
    /// How to change the fact.
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

    /// Returns the same finding with its cost.
    pub(crate) fn costing(self, cost: String) -> Self {
        Self {
            cost: Some(cost),
            ..self
        }
    }

    /// A finding that could not be determined, with the reason.
    pub(crate) fn untold(whether: &str, source: &str, why: &str) -> Self {
        Self::new(
            Severity::Unknown,
            (format!("cannot tell whether {whether}: {why}"), source),
            "it may change the numbers",
            "run this where the file can be read: as root, or outside the container",
        )
    }
}
