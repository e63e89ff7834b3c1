//! The cache entry of netperf, whose licence puts it into Debian's `non-free`.

use std::fs;
use std::path::PathBuf;

use super::super::cache::{SourcePackage, hash_bytes};
use super::{LabError, NO_ANSWER, Provision};
use crate::FileError;

const KIND: &str = "netperf";
const COMPONENT: &str = "non-free";
/// Raised when the way of making the entry changes.
const REVISION: u32 = 1;

/// The two programs of netperf.
#[derive(Clone, Debug)]
pub struct Netperf {
    /// The one that drives a measurement.
    pub netperf: PathBuf,
    /// The one that answers it.
    pub netserver: PathBuf,
}

impl Provision<'_> {
    /// netperf of the distribution's package, for L1 and its guests; they need the host's libraries.
    pub fn netperf(&mut self) -> Result<Netperf, LabError> {
        let architecture = self.board.arch.package;
        let recipe = format!("revision {REVISION}\n{architecture}\n{COMPONENT}");
        let hash = hash_bytes(recipe.as_bytes());
        let entry = match self.begin(KIND, &hash)? {
            Some(entry) => entry,
            None => {
                self.fetch_indexes("netperf", "--netperf")?;
                if let Some(apt) = &mut self.apt {
                    apt.add_component(COMPONENT)?;
                    apt.update(|| self.progress.say(NO_ANSWER))?;
                }
                let apt = self.apt();
                let (name, package) = apt.resolve_alone(architecture, &["netperf"])?;
                self.progress.say(format_args!("downloading {name}"));
                let packages = [package];
                apt.download_alone(&name, &packages)?;
                let draft = self.draft(KIND, &hash)?;
                let scratch = draft.scratch();
                for package in &packages {
                    apt.unpack(package, &scratch)?;
                }
                for program in ["netperf", "netserver"] {
                    let from = scratch.join("usr/bin").join(program);
                    fs::rename(&from, draft.path(program)).map_err(FileError::of("move", from))?;
                }
                let sources = packages.into_iter().map(|p| SourcePackage {
                    file: p.file,
                    size: p.size,
                    sha256: p.sha256,
                });
                let entry = draft.commit("netperf".to_owned(), sources.collect())?;
                apt.forget(&entry.manifest().packages);
                entry
            }
        };
        Ok(Netperf {
            netperf: entry.path("netperf"),
            netserver: entry.path("netserver"),
        })
    }
}
