//! Which backends there are, what each can do on this host, and which one is taken.

use anyhow::{Result, bail};

use super::bench_args::BackendName;
use crate::bench::{Entry, scenario};
use crate::hypervisor::usermode::Usermode;
use crate::hypervisor::{Capability, Hypervisor, Support};
use crate::report::Backend;

/// A backend's name and what it can do here, in the order of [`Capability::ALL`].
pub(super) type BackendProbe = (&'static str, Vec<(Capability, Support)>);

/// Asks every backend for every capability.
pub(super) fn probe_backends() -> Vec<BackendProbe> {
    let ask = |capability| (capability, Usermode.support(capability));
    vec![(
        Usermode.name(),
        Capability::ALL.into_iter().map(ask).collect(),
    )]
}

/// The scenarios of a backend.
pub(super) fn scenarios(name: BackendName) -> Vec<Entry> {
    match name {
        BackendName::Auto | BackendName::Usermode => scenario::entries(Usermode),
    }
}

/// The backend to run guests on, if it can run any.
pub(super) fn choose(name: BackendName) -> Result<Backend> {
    if let Support::No(reason) = Usermode.support(Capability::Run) {
        bail!("the usermode backend cannot run a guest here: {reason} (see `vmbell probe`)");
    }
    let why = match name {
        BackendName::Auto => "the only backend of this version",
        BackendName::Usermode => "chosen by --backend",
    };
    Ok(Backend {
        name: Usermode.name().to_owned(),
        why: why.to_owned(),
    })
}
