//! The selftests of a kernel, which are built from its own source or from that of another of Debian's kernels.

use super::{Kernel, KernelChoice, LabError, Provision};
use crate::debian::{self, KernelVersion};
use crate::kvm::{KvmError, Tools};
use crate::out_of_tree::Release;
use crate::selftests::{SelftestsError, Suite};

impl Provision<'_> {
    /// The selftests for this kernel: its own, or those of the version `from`. No other process builds in the same cache
    /// until [`finish`](Self::finish).
    pub fn selftests(
        &mut self,
        kernel: &Kernel,
        from: Option<&KernelVersion>,
    ) -> Result<Suite, LabError> {
        let board = self.board;
        Suite::check(board)?;
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
            let kernel = kernel.title.clone();
            return Err(SelftestsError::NotDebians { kernel }.into());
        };
        let gone = |what, source| SelftestsError::Gone {
            release: name.clone(),
            what,
            source,
        };
        let tools = match self.kvm_tools(&release, &sources) {
            Err(LabError::Kvm(KvmError::Gone { what, source, .. })) => {
                return Err(gone(what, Some(source)).into());
            }
            tools => tools?,
        };
        let place = tools.folder().to_path_buf();
        let tools = Tools::open(tools.path(""), &release)?;
        if !tools.has_interface() {
            return Err(gone("package linux-libc-dev", None).into());
        }
        self.hold()?;
        Ok(Suite::open(&place, tools, release)?)
    }
}
