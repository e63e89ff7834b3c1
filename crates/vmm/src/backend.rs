//! The backends of this build, and the choice of the best one that the host has.

use vmbell_hypervisor::{Capability, Error, Hypervisor};

/// The name of a backend. Every build knows all names, and has the backends for its architecture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backend {
    /// The kernel's KVM, on x86-64 and arm64.
    Kvm,
    /// The engine that needs no `/dev/kvm`, on x86-64.
    Usermode,
}

impl Backend {
    /// All backends, the preferred one first.
    pub const ALL: [Self; 2] = [Self::Kvm, Self::Usermode];

    /// The name as users type it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Kvm => "kvm",
            Self::Usermode => "usermode",
        }
    }

    /// Opens the backend. Fails with [`Error::Architecture`] if it is not for this architecture, and with the error of
    /// [`Kvm::open`](vmbell_hypervisor::kvm::Kvm::open) if that fails.
    pub fn open(self) -> Result<Box<dyn Hypervisor>, Error> {
        match self {
            #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
            Self::Kvm => Ok(Box::new(vmbell_hypervisor::kvm::Kvm::open()?)),
            #[cfg(target_arch = "x86_64")]
            Self::Usermode => Ok(Box::new(vmbell_usermode::Usermode)),
            #[allow(unreachable_patterns, reason = "x86-64 has all backends")]
            absent => Err(Error::Architecture {
                backend: absent.name(),
                built: match absent {
                    Self::Kvm => "x86-64 and arm64",
                    Self::Usermode => "x86-64",
                },
            }),
        }
    }

    /// Opens the backend if it has all capabilities that are needed.
    fn open_with(self, needed: &[Capability]) -> Result<Box<dyn Hypervisor>, Error> {
        let backend = self.open()?;
        needed
            .iter()
            .try_for_each(|capability| backend.require(*capability))?;
        Ok(backend)
    }
}

/// The backend that [`choose_backend`] has chosen.
#[derive(Debug)]
pub struct ChosenBackend {
    /// The backend.
    pub hypervisor: Box<dyn Hypervisor>,
    /// Why the backend is not KVM; `None` if it is.
    pub why_not_kvm: Option<Error>,
}

/// Chooses the backend: KVM if `/dev/kvm` opens and has all that is `needed`, otherwise the usermode backend.
///
/// Fails with [`Error::NoBackend`] if neither backend has all of it, or no backend is for this architecture. Unless
/// `needed` has [`Capability::Run`], the choice does not test whether the usermode backend can run a guest here; then
/// [`create_vm`](Hypervisor::create_vm) fails if it cannot.
///
/// ```
/// use vmbell_hypervisor::{Capability, VmConfig};
/// use vmbell_vmm::choose_backend;
///
/// # fn main() -> Result<(), vmbell_hypervisor::Error> {
/// let chosen = choose_backend(&[Capability::Run, Capability::PioDoorbell])?;
/// if let Some(error) = &chosen.why_not_kvm {
///     eprintln!("{} because {error}", chosen.hypervisor.name());
/// }
/// let vm = chosen.hypervisor.create_vm(&VmConfig::default())?;
/// # drop(vm);
/// # Ok(())
/// # }
/// ```
pub fn choose_backend(needed: &[Capability]) -> Result<ChosenBackend, Error> {
    let (hypervisor, why_not_kvm) = match Backend::Kvm.open_with(needed) {
        Ok(kvm) => (kvm, None),
        Err(kvm) => match Backend::Usermode.open_with(needed) {
            Ok(usermode) => (usermode, Some(kvm)),
            Err(usermode) => {
                return Err(Error::NoBackend {
                    kvm: Box::new(kvm),
                    usermode: Box::new(usermode),
                });
            }
        },
    };
    Ok(ChosenBackend {
        hypervisor,
        why_not_kvm,
    })
}
