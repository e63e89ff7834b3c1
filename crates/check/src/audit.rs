//! The fence audit: which fences of the code under test a scenario needs.
//!
//! A fence is identified by its call site, so that each can be left out in turn without another build. A scenario of
//! one or two requests may not need every fence that the code needs: the audit can show that a fence is needed, never
//! that it is not.

use std::fmt;

use crate::error::Error;
use crate::explorer::{Explorer, Scenario};
use crate::model::Model;
use crate::report::{Failure, caller_name, site_name};

/// A fence of the code under test, and what happens without it.
#[derive(Debug)]
pub struct Fence {
    /// The function, the file and the line.
    pub place: String,
    /// The first model under which the scenario fails without the fence, and how.
    pub needed: Option<(Model, Failure)>,
    /// Whether every execution without the fence was explored, if none failed.
    pub complete: bool,
}

impl Explorer {
    /// Leaves out each fence of the code under test in turn, and explores the scenario without it.
    ///
    /// # Errors
    ///
    /// If the scenario cannot be explored.
    ///
    /// # Panics
    ///
    /// With the trace, if the scenario fails with all of its fences.
    pub fn audit(&self, mut set_up: impl FnMut(&mut Scenario)) -> Result<Vec<Fence>, Error> {
        let (whole, sites) = self.explore(None, &mut set_up)?;
        whole.assert_no_failure();
        let mut fences = Vec::new();
        for callers in sites {
            let Some(&site) = callers.first() else {
                continue;
            };
            let (report, _) = self.explore(Some(site), &mut set_up)?;
            let complete = report.is_complete();
            let failed = report
                .verdicts
                .into_iter()
                .find_map(|verdict| Some((verdict.model, verdict.failure?)));
            fences.push(Fence {
                place: caller_name(&callers).unwrap_or_else(|| site_name(site)),
                needed: failed,
                complete,
            });
        }
        Ok(fences)
    }
}

impl fmt::Display for Fence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.needed {
            Some((model, failure)) => {
                write!(f, "needed      {}: {model}: {}", self.place, failure.what)
            }
            None if self.complete => write!(
                f,
                "not needed  {}: by this scenario, in any execution",
                self.place
            ),
            None => write!(
                f,
                "unknown     {}: a limit ended the exploration",
                self.place
            ),
        }
    }
}
