//! The backends, what each can do on this host, and the choice of one.

use anyhow::{Context, Result, bail};

use super::bench_args::BackendName;
use super::features::address_space_limit;
use vmbell_bench::Entry;
use vmbell_bench::scenario::{self, Scan};
use vmbell_bench::stat::{self, Pace};
#[cfg(not(target_arch = "x86_64"))]
use vmbell_hypervisor::absent::Usermode;
use vmbell_hypervisor::kvm::Kvm;
use vmbell_hypervisor::{Capability, Error, Hypervisor, Support};
use vmbell_report::Backend;
#[cfg(target_arch = "x86_64")]
use vmbell_usermode::Usermode;

/// How the text of an error ends that was caused by a lack of memory (ENOMEM).
const NO_MEMORY: &str = "(os error 12)";

/// A backend's name and whether it supports each capability here, in the order of [`Capability::ALL`].
pub(super) type BackendProbe = (&'static str, Vec<(Capability, Support)>);

/// Asks every backend for every capability.
pub(super) fn probe_backends() -> Vec<BackendProbe> {
    let kvm = match Kvm::open() {
        Ok(kvm) => ask(&kvm),
        Err(error) => {
            let reason = chain(error);
            let no = |capability| (capability, Support::No(reason.clone()));
            ("kvm", Capability::ALL.into_iter().map(no).collect())
        }
    };
    vec![kvm, ask(&Usermode)]
}

fn ask(backend: &impl Hypervisor) -> BackendProbe {
    let ask = |capability| (capability, backend.support(capability));
    (
        backend.name(),
        Capability::ALL.into_iter().map(ask).collect(),
    )
}

/// The backend that guests run on, and why it was chosen.
#[derive(Debug)]
pub(super) struct Choice {
    backend: Chosen,
    why: String,
}

#[derive(Debug)]
enum Chosen {
    Kvm(Kvm),
    Usermode(Usermode),
}

impl Choice {
    /// The backend of this name; for `auto`, KVM if it can be opened and else the usermode backend.
    pub(super) fn of(name: BackendName) -> Result<Self> {
        let asked = "chosen by --backend".to_owned();
        let (backend, why) = match name {
            BackendName::Usermode => (Chosen::Usermode(Usermode), asked),
            BackendName::Kvm => {
                let kvm = Kvm::open().context("the kvm backend cannot run a guest here")?;
                (Chosen::Kvm(kvm), asked)
            }
            BackendName::Auto => match Kvm::open() {
                Ok(kvm) => (Chosen::Kvm(kvm), "/dev/kvm opens".to_owned()),
                Err(error) => (Chosen::Usermode(Usermode), why_not(error)),
            },
        };
        Ok(Self { backend, why })
    }

    /// The backends of these names, each once; without names, every backend that can run a guest here, KVM
    /// first.
    pub(super) fn several(names: &[BackendName]) -> Result<Vec<Self>> {
        if names.is_empty() {
            return Self::all_here();
        }
        let mut choices: Vec<Self> = Vec::new();
        for name in names {
            let choice = Self::of(*name)?;
            choice.check()?;
            if choices.iter().all(|other| other.name() != choice.name()) {
                choices.push(choice);
            }
        }
        Ok(choices)
    }

    fn all_here() -> Result<Vec<Self>> {
        let kvm = Self::of(BackendName::Kvm).and_then(|kvm| kvm.check().map(|()| kvm));
        let best = Self::of(BackendName::Auto)?;
        let usermode = Self {
            backend: Chosen::Usermode(Usermode),
            why: match &best.backend {
                Chosen::Kvm(_) => "runs here too".to_owned(),
                Chosen::Usermode(_) => best.why,
            },
        };
        match (kvm, usermode.check()) {
            (Ok(kvm), Ok(())) => {
                let why = "/dev/kvm opens".to_owned();
                Ok(vec![Self { why, ..kvm }, usermode])
            }
            (Ok(kvm), Err(_)) => Ok(vec![kvm]),
            (Err(_), Ok(())) => Ok(vec![usermode]),
            (Err(no_kvm), Err(no_usermode)) => bail!("{no_usermode}; and {no_kvm:#}"),
        }
    }

    fn name(&self) -> &'static str {
        match &self.backend {
            Chosen::Kvm(kvm) => kvm.name(),
            Chosen::Usermode(usermode) => usermode.name(),
        }
    }

    /// The backend's name and the reason for the choice, for the report.
    pub(super) fn report(&self) -> Backend {
        let emulates_kernel_mode = match &self.backend {
            Chosen::Kvm(kvm) => emulates_kernel_mode(kvm),
            Chosen::Usermode(usermode) => emulates_kernel_mode(usermode),
        };
        Backend {
            name: self.name().to_owned(),
            why: self.why.clone(),
            emulates_kernel_mode,
        }
    }

    /// The scenarios on this backend.
    pub(super) fn scenarios(&self, scan: &Scan) -> Vec<Entry> {
        match &self.backend {
            Chosen::Kvm(kvm) => scenario::entries(kvm.clone(), scan),
            Chosen::Usermode(usermode) => scenario::entries(*usermode, scan),
        }
    }

    /// The entries of `vmbell stat` on this backend.
    pub(super) fn stat(&self, pace: Pace) -> Vec<Entry> {
        match &self.backend {
            Chosen::Kvm(kvm) => stat::entries(kvm, pace),
            Chosen::Usermode(usermode) => stat::entries(usermode, pace),
        }
    }

    /// Fails if the backend can run no guest here.
    pub(super) fn check(&self) -> Result<()> {
        let support = match &self.backend {
            Chosen::Kvm(kvm) => kvm.support(Capability::Run),
            Chosen::Usermode(usermode) => usermode.support(Capability::Run),
        };
        if let Support::No(reason) = support {
            let name = self.report().name;
            let limit = address_space_limit().filter(|_| reason.contains(NO_MEMORY));
            let limit = limit.map_or_else(String::new, |limit| format!("; {limit}"));
            bail!(
                "the {name} backend cannot run a guest here: {reason}{limit} (see `vmbell probe`)"
            );
        }
        Ok(())
    }
}

/// Whether guests may have a ring 0 that does not run on the CPU.
fn emulates_kernel_mode(backend: &impl Hypervisor) -> bool {
    backend.support(Capability::Kernels).is_yes()
        && !backend.support(Capability::NativeKernelMode).is_yes()
}

/// Why the usermode backend was taken, in a few words; `probe` gives the whole error.
fn why_not(error: Error) -> String {
    match Kvm::everyday_reason(&error) {
        Some(reason) => reason.to_owned(),
        None => chain(error),
    }
}

fn chain(error: Error) -> String {
    format!("{:#}", anyhow::Error::new(error))
}
