//! Kernel modules that the distribution's kernel lacks: vfio-platform, vfio-amba and our own vfio-forward.
//!
//! They are built against one kernel's headers, from the files of `drivers/vfio` of exactly the same version (the
//! distribution has a package with the kernel's source) and from `kernel/vfio-forward`, which is embedded. All build
//! tools, including the cross compiler and `make`, come from packages that are unpacked into one folder, so nothing has
//! to be installed. The folder is only needed for the build. The thread that prepares runs this.

mod headers;
mod make;
mod release;
mod sources;

use crate::error::{LabError, LabFailure, failed};
use std::env;
use std::path::{Path, PathBuf};

pub(crate) use headers::Headers;
pub(crate) use make::{Make, in_place, reason, run_by_line};
pub(crate) use release::Release;
pub use sources::digest;
pub(crate) use sources::take;

/// The modules, in an order in which they can be loaded after `vfio` and `vfio_iommu_type1`.
pub const MODULES: &[&str] = &[
    "vfio-platform-base",
    "vfio_platform_pl031_reset",
    "vfio-amba",
    "vfio-platform",
    "vfio_forward",
];

/// Dependencies of the cross compiler that are not downloaded: libraries that every system of the distribution has and
/// that the host's programs also use, and libraries for programs, which a kernel does not need.
const COMPILER_STAND_INS: &[&str] = &[
    "libc6",
    "libc6-arm64-cross",
    "libc6-dev-arm64-cross",
    "libgcc-12-dev-arm64-cross",
    "libgcc-13-dev-arm64-cross",
    "libgcc-14-dev-arm64-cross",
    "libgcc-s1",
    "libstdc++6",
];

/// A source of packages.
pub trait Packages {
    /// Downloads the first of `alternatives` that exists for `architecture`, and its dependencies except `stand_ins`,
    /// and unpacks them into `target`.
    fn unpack(
        &mut self,
        architecture: &str,
        alternatives: &[&str],
        stand_ins: &[&str],
        target: &Path,
    ) -> Result<(), LabError>;

    /// Like [`unpack`](Self::unpack), but without dependencies. Returns the package file's name.
    fn unpack_alone(
        &mut self,
        architecture: &str,
        alternatives: &[&str],
        target: &Path,
    ) -> Result<String, LabError>;
}

/// The architectures of a build, under Debian's package names.
#[derive(Clone, Copy, Debug)]
pub struct Architectures {
    /// The architecture of the machine that builds.
    pub host: &'static str,
    /// The architecture of the kernel.
    pub kernel: &'static str,
}

/// Returns an error if the release (`uname -r`) is not one of the distribution's for `architecture`. Called before
/// anything is downloaded for the kernel.
pub fn check(release: &str, architecture: &str) -> Result<(), LabError> {
    Release::parse(release, architecture).map(drop)
}

/// Builds the modules for the kernel with this `release` (`uname -r`), and returns them in [`MODULES`]' order. They are
/// written to `target`, which must exist; all other files go to `scratch`.
pub fn build(
    packages: &mut dyn Packages,
    architectures: Architectures,
    release: &str,
    scratch: &Path,
    target: &Path,
) -> Result<Vec<PathBuf>, LabError> {
    let Architectures { host, kernel } = architectures;
    let release = Release::parse(release, kernel)?;
    let file = packages
        .unpack_alone(kernel, &[&release.headers()], scratch)
        .map_err(|error| no_headers(&release, error))?;
    // The package is for all architectures, so also for the host's.
    packages.unpack_alone(host, &[&release.common_headers()], scratch)?;
    let [newer, older] = release.build_tools();
    packages.unpack_alone(host, &[&newer, &older], scratch)?;
    let headers = Headers::read(&release, scratch)?;
    headers.move_to(scratch)?;

    let [cross, native] = headers.compiler_packages("aarch64-linux-gnu");
    packages.unpack(host, &[&cross, &native], COMPILER_STAND_INS, scratch)?;
    packages.unpack(host, &["make"], COMPILER_STAND_INS, scratch)?;

    let folder = scratch.join("build");
    sources::write_own(&folder)?;
    packages.unpack_alone(host, &[&headers.source_package(&file)?], scratch)?;
    sources::take_vfio(&headers.source_archive(scratch, &file)?, &folder)?;
    let libraries = format!(
        "{root}/usr/lib/{triplet}:{root}/lib/{triplet}",
        root = scratch.display(),
        triplet = format_args!("{}-linux-gnu", env::consts::ARCH)
    );
    let arguments = [
        "ARCH=arm64".to_owned(),
        "CROSS_COMPILE=aarch64-linux-gnu-".to_owned(),
        format!("CC={}", headers.compiler("aarch64-linux-gnu")),
        // The modules are not debugged, and types for BPF would need an additional program.
        "CONFIG_DEBUG_INFO=".to_owned(),
        "CONFIG_DEBUG_INFO_BTF_MODULES=".to_owned(),
    ];
    Make {
        release: &release,
        folder: &headers.folder_in(scratch),
        log: &folder.join("make.log"),
        bin: &scratch.join("usr/bin"),
        environment: &[("LD_LIBRARY_PATH", libraries)],
        arguments: &arguments,
    }
    .modules(&folder)?;
    MODULES
        .iter()
        .map(|name| sources::copy_module(&folder, target, name))
        .collect()
}

fn no_headers(release: &Release, error: LabError) -> LabError {
    match error.kind() {
        LabFailure::Missing => {
            failed!("cannot build modules for Linux {release}: there are no headers of it")
                .because(error)
        }
        _ => error,
    }
}
