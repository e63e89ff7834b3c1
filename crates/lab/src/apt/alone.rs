//! Packages without their dependencies: `apt-get download`.

use std::process::{Command, Output};

use super::program::run;
use super::{Apt, AptError, Package};

impl Apt {
    /// The first package of `alternatives` that the indexes have for `architecture`, without dependencies. A name may end in
    /// `=VERSION`.
    pub fn resolve_alone(
        &self,
        architecture: &str,
        alternatives: &[&str],
    ) -> Result<(String, Package), AptError> {
        let mut reason = String::new();
        for name in alternatives {
            let name = self.qualified(architecture, name);
            match self.fetch(&["--print-uris", &name]) {
                Ok(output) => {
                    let text = String::from_utf8_lossy(&output.stdout);
                    let package = Package::parse_list(&text)?.pop();
                    let package = package.ok_or_else(|| AptError::Answer {
                        line: text.trim().to_owned(),
                    })?;
                    return Ok((name, package));
                }
                Err(AptError::Failed { reason: said, .. }) => reason = said,
                Err(error) => return Err(error),
            }
        }
        Err(self.not_found(alternatives, reason))
    }

    /// Downloads what [`resolve_alone`](Self::resolve_alone) found for `name`, checks it and fetches a broken one again.
    pub fn download_alone(&self, name: &str, packages: &[Package]) -> Result<(), AptError> {
        self.download_by(packages, || self.fetch(&[name]).map(drop))
    }

    /// `apt-get download` writes to the working folder.
    fn fetch(&self, arguments: &[&str]) -> Result<Output, AptError> {
        let mut command = Command::new("apt-get");
        command
            .args(["download", "-qq"])
            .args(arguments)
            .env("APT_CONFIG", self.configuration())
            .env("LC_ALL", "C")
            .current_dir(self.archives());
        run(command, "apt-get", "apt-get download", |_| Ok(()))
    }
}
