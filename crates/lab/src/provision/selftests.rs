//! The selftests of a kernel, built from its own source or from the source of a different Debian kernel.

use super::{KernelChoice, Provision};
use crate::debian::{self, KernelVersion};
use crate::error::{LabError, LabFailure, failed};
use crate::kvm::Tools;
use crate::out_of_tree::Release;
use crate::prepare::LabKernel;
use crate::selftests::SelftestSuite;

impl Provision<'_> {
    /// Returns the selftests for this kernel: its own, or those of version `from`. No other process can build in the
    /// same cache until [`finish`](Self::finish).
    pub fn selftests(
        &mut self,
        kernel: &LabKernel,
        from: Option<&KernelVersion>,
    ) -> Result<SelftestSuite, LabError> {
        let board = self.board;
        SelftestSuite::check(board)?;
        let name = match from {
            None => kernel.package().to_owned(),
            Some(version) => {
                let choice = KernelChoice::Debian(version.clone());
                self.kernel(Some(&choice))?.release().to_owned()
            }
        };
        let sources = debian::build_sources(&name, self.host.package, board.arch.package)
            .zip(Release::parse(&name, board.arch.package).ok());
        let Some((sources, release)) = sources else {
            let kernel = &kernel.title;
            return Err(failed!(
                "there is no source of {kernel}, which is not a kernel of Debian's archive"
            )
            .hint("--from debian:6.12 takes the tests of that kernel"));
        };
        const OTHER: &str = "--from debian:VERSION takes the tests of another kernel";
        let tools = self.kvm_tools(&release, &sources);
        let tools = tools.map_err(|error| match error.kind() {
            LabFailure::Missing => error.hint(OTHER),
            _ => error,
        })?;
        let place = tools.folder().to_path_buf();
        let tools = Tools::open(tools.path(""), &release)?;
        if !tools.has_interface() {
            let what = "package linux-libc-dev";
            return Err(failed!("Debian's archive has no {what} of Linux {name}").hint(OTHER));
        }
        self.hold()?;
        SelftestSuite::open(&place, tools, release)
    }
}
