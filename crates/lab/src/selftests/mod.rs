//! The KVM selftests, built from a kernel's own source and run one after the other in L1.
//!
//! `suite` adds our own tests and builds all tests with the compiler and headers of the kernel's distribution, `inside`
//! runs them in L1, and `known` has the expected results. The programs are static, so L1 needs nothing else from that
//! distribution.

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
    /// The test succeeded.
    Pass,
    /// The test reports that it cannot run here: exit status 4.
    Skip,
    /// The test failed, or a signal killed it.
    Fail,
    /// The test was killed at its time limit.
    Timeout,
    /// The test ended L1, twice.
    Crash,
    /// The test does not compile.
    Unbuilt,
}

impl TestVerdict {
    /// All verdicts, in the order of a table.
    pub const ALL: [Self; 6] = [
        Self::Pass,
        Self::Skip,
        Self::Fail,
        Self::Timeout,
        Self::Crash,
        Self::Unbuilt,
    ];

    /// The word for the verdict.
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
    /// How the test ended.
    pub result: TestVerdict,
    /// The test's explanation: why it was skipped, or its last lines.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reason: Vec<String>,
    /// How long the test ran, in seconds of L1's clock.
    pub seconds: f64,
}
