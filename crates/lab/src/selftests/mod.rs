//! The selftests of KVM, built from a kernel's own source, and run one after the other in L1.
//!
//! `suite` has our own tests and builds all of them with the compiler and the headers of
//! the kernel's distribution, `inside` runs them in L1, and `known` has the results that are expected. The programs are
//! static, so L1 needs nothing else of that distribution.

mod inside;
mod known;
mod suite;

use std::fmt;

use serde::{Deserialize, Serialize};

pub use inside::{TestEvent, run_each};
pub use known::{KnownResult, KnownResults};
pub use suite::{Built, SelftestSuite};

/// How a test ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TestVerdict {
    /// It succeeded.
    Pass,
    /// It says that it cannot run here: exit status 4.
    Skip,
    /// It failed, or a signal killed it.
    Fail,
    /// It was killed at its time limit.
    Timeout,
    /// L1 ended with it, twice.
    Crash,
    /// It does not compile.
    Unbuilt,
}

impl TestVerdict {
    /// All of them, in the order of a table.
    pub const ALL: [Self; 6] = [
        Self::Pass,
        Self::Skip,
        Self::Fail,
        Self::Timeout,
        Self::Crash,
        Self::Unbuilt,
    ];

    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Skip => "skip",
            Self::Fail => "fail",
            Self::Timeout => "timeout",
            Self::Crash => "crash",
            Self::Unbuilt => "unbuilt",
        }
    }
}

impl fmt::Display for TestVerdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The result of a test.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TestRun {
    /// The test.
    pub test: String,
    /// How it ended.
    pub result: TestVerdict,
    /// What it says about that: why it was skipped, or its last lines.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reason: Vec<String>,
    /// Seconds that it ran, by L1's clock.
    pub seconds: f64,
}
