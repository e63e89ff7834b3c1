//! The cache entry of netperf, which is in Debian's `non-free` because of its licence.

use std::fs;
use std::path::PathBuf;

use super::recipe::{ProvisionKind, Recipe};
use super::{MadeEntry, Provision};
use crate::error::{LabError, cannot};
use crate::out_of_tree::Packages;

const COMPONENT: &str = "non-free";
/// Increase this number when the way of making the entry changes.
const REVISION: u32 = 1;

/// The two programs of netperf.
#[derive(Clone, Debug)]
pub struct Netperf {
    /// The program that runs a measurement.
    pub netperf: PathBuf,
    /// The program that answers netperf.
    pub netserver: PathBuf,
}

impl Provision<'_> {
    /// Returns netperf from the distribution's package, for L1 and its guests. It needs the host's libraries.
    pub fn netperf(&mut self) -> Result<Netperf, LabError> {
        let architecture = self.board.arch.package;
        let text = format!("revision {REVISION}\n{architecture}\n{COMPONENT}");
        let recipe = Recipe::new(ProvisionKind::Netperf, text);
        let entry = self.entry(&recipe, |this, draft| {
            let mut from = this.system_packages("netperf", "--netperf")?;
            from.add_component(COMPONENT)?;
            from.unpack_alone(architecture, &["netperf"], &draft.scratch())?;
            for program in ["netperf", "netserver"] {
                let unpacked = draft.scratch().join("usr/bin").join(program);
                fs::rename(&unpacked, draft.path(program)).map_err(cannot("move", unpacked))?;
            }
            Ok(MadeEntry {
                title: "netperf".to_owned(),
                packages: from.used,
            })
        })?;
        Ok(Netperf {
            netperf: entry.path("netperf"),
            netserver: entry.path("netserver"),
        })
    }
}
