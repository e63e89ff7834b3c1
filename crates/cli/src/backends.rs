//! The backends, what each can do on this host, and the choice of one.

use std::collections::BTreeSet;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use rustix::process::{Resource, getrlimit};

use super::output::text::chain;
use vmbell_bench::scenario::{self, ScanValues};
use vmbell_bench::stat::{self, InterruptPace};
use vmbell_bench::{BenchEntry, SubjectOptions};
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
use vmbell_hypervisor::kvm::Kvm;
use vmbell_hypervisor::{Capability, Error, Hypervisor, Support, Vm, VmConfig};
use vmbell_vmm::Backend;

/// Why KVM was chosen.
const OPENS: &str = "/dev/kvm opens";

/// How an error's text ends if memory was lacking (ENOMEM).
const NO_MEMORY: &str = "(os error 12)";

/// A backend by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum BackendName {
    /// kvm if it works here, otherwise usermode
    Auto,
    /// The kernel's KVM, /dev/kvm
    Kvm,
    /// vmbell's own backend: guest code in a sandboxed process, without /dev/kvm
    Usermode,
}

/// A backend's name and whether it supports each capability here, in the order of [`Capability::ALL`].
pub(super) type BackendProbe = (&'static str, Vec<(Capability, Support)>);

/// Asks every backend for every capability.
pub(super) fn probe_backends() -> Vec<BackendProbe> {
    let probe = |backend: Backend| {
        let opened = backend.open().map_err(chain);
        let ask = |capability| match &opened {
            Ok(backend) => (capability, backend.support(capability)),
            Err(reason) => (capability, Support::No(reason.clone())),
        };
        (backend.name(), Capability::ALL.map(ask).to_vec())
    };
    Backend::ALL.map(probe).to_vec()
}

/// The backend that runs the guests, and why it was chosen.
#[derive(Debug)]
pub(super) struct BackendChoice {
    backend: Arc<dyn Hypervisor>,
    why: String,
}

impl BackendChoice {
    /// The backend of this name. `auto` is KVM if it can be opened, otherwise the usermode backend.
    pub(super) fn of(name: BackendName) -> Result<Self> {
        let asked = "chosen by --backend".to_owned();
        match name {
            BackendName::Usermode => Self::open(Backend::Usermode, asked),
            BackendName::Kvm => Self::open(Backend::Kvm, asked),
            BackendName::Auto => match Backend::Kvm.open() {
                Ok(kvm) => Ok(Self {
                    backend: kvm.into(),
                    why: OPENS.to_owned(),
                }),
                Err(error) => Self::open(Backend::Usermode, why_not(error)),
            },
        }
    }

    fn open(backend: Backend, why: String) -> Result<Self> {
        let opened = backend.open();
        let name = backend.name();
        let backend =
            opened.with_context(|| format!("the {name} backend cannot run a guest here"))?;
        let backend = backend.into();
        Ok(Self { backend, why })
    }

    /// The backends of these names, each once. Without names, every backend that can run a guest here, KVM first.
    pub(super) fn several(names: &[BackendName]) -> Result<Vec<Self>> {
        if names.is_empty() {
            return Self::all_here();
        }
        let mut choices: Vec<Self> = Vec::new();
        for name in names {
            let choice = Self::of(*name)?.checked()?;
            let differs = |other: &Self| other.backend.name() != choice.backend.name();
            if choices.iter().all(differs) {
                choices.push(choice);
            }
        }
        Ok(choices)
    }

    fn all_here() -> Result<Vec<Self>> {
        let kvm = Self::open(Backend::Kvm, OPENS.to_owned());
        let why = match Backend::Kvm.open() {
            Ok(_) => "runs guests as processes, without KVM".to_owned(),
            Err(error) => why_not(error),
        };
        let usermode = Self::open(Backend::Usermode, why);
        match (
            kvm.and_then(Self::checked),
            usermode.and_then(Self::checked),
        ) {
            (Err(no_kvm), Err(no_usermode)) => bail!("{no_usermode:#}; and {no_kvm:#}"),
            (kvm, usermode) => Ok([kvm, usermode].into_iter().flatten().collect()),
        }
    }

    /// The backend's name and the reason for the choice, for the report.
    pub(super) fn report(&self) -> vmbell_report::Backend {
        let supports = |capability| self.backend.support(capability).is_yes();
        vmbell_report::Backend {
            name: self.backend.name().to_owned(),
            why: self.why.clone(),
            // The guest's ring 0 may be emulated.
            emulates_kernel_mode: supports(Capability::Kernels)
                && !supports(Capability::NativeKernelMode),
        }
    }

    /// The scenarios on this backend.
    pub(super) fn scenarios(&self, scan: &ScanValues) -> Vec<BenchEntry> {
        scenario::entries(&self.backend, scan)
    }

    /// The entries of `vmbell bench eoi` on this backend.
    pub(super) fn stat(&self, pace: InterruptPace) -> Vec<BenchEntry> {
        stat::entries(&self.backend, pace)
    }

    /// The names of the events that `vmbell bench eoi` counts on this backend, as far as they are known before
    /// measuring.
    pub(super) fn event_names(&self, options: &SubjectOptions) -> BTreeSet<String> {
        stat::event_names(&*self.backend, options)
    }

    /// Fails if the backend can run no guest here.
    pub(super) fn check(&self) -> Result<()> {
        if let Support::No(reason) = self.backend.support(Capability::Run) {
            let name = self.backend.name();
            let limit = address_space_limit().filter(|_| reason.contains(NO_MEMORY));
            let limit = limit.map_or_else(String::new, |limit| format!("; {limit}"));
            bail!(
                "the {name} backend cannot run a guest here: {reason}{limit} (see `vmbell probe`)"
            );
        }
        Ok(())
    }

    fn checked(self) -> Result<Self> {
        self.check().map(|()| self)
    }
}

/// The message if a limit on this process's address space may be what stops a backend that needs memory.
fn address_space_limit() -> Option<String> {
    let limit = getrlimit(Resource::As).current?;
    let limit = limit >> 20;
    Some(format!(
        "this process may map {limit} MiB only: raise the limit (ulimit -v unlimited)"
    ))
}

/// Why KVM was not chosen, in a few words; `probe` shows the whole error.
fn why_not(error: Error) -> String {
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    if let Some(reason) = Kvm::everyday_reason(&error) {
        return reason.to_owned();
    }
    chain(error)
}

/// The scenarios that any backend has on any host of this architecture, for their names only: none of these can be
/// measured.
pub(super) fn all_scenarios(scan: &ScanValues) -> Vec<BenchEntry> {
    let backend: Arc<dyn Hypervisor> = Arc::new(AllBackends);
    scenario::entries(&backend, scan)
}

/// A backend with every capability that cannot run a guest. Its rows are those of all backends on all hosts.
#[derive(Debug)]
struct AllBackends;

impl Hypervisor for AllBackends {
    fn name(&self) -> &'static str {
        "all"
    }

    fn support(&self, _: Capability) -> Support {
        Support::Yes
    }

    fn create_vm(&self, _: &VmConfig) -> Result<Arc<dyn Vm>, Error> {
        Err(Error::Unsupported {
            backend: self.name(),
            capability: Capability::Run,
            reason: "it only names rows".to_owned(),
        })
    }
}
