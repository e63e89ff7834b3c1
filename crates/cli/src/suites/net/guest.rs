//! The guest: an initrd with busybox, netserver and drivers, and the marks that it prints when it is ready.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use super::args::NetSuiteArgs;
use super::interface::{GUEST, MASK};
use crate::process::program::on_path;
use vmbell_lab::arch::Arch;
use vmbell_lab::initramfs::{Archive, LibrarySearch};
use vmbell_lab::kernel::ModuleTree;

/// What the guest's first program prints at its start, and when netserver accepts connections.
pub(super) const INIT: &str = "=== vmbell net: init ===";
pub(super) const READY: &str = "=== vmbell net: ready ===";

/// The drivers of a network interface on PCI.
pub(crate) const DRIVERS: [&str; 2] = ["virtio_pci", "virtio_net"];

/// The programs' paths in the guest.
const BUSYBOX: &str = "/bin/busybox";
const NETSERVER: &str = "/bin/netserver";

/// The files of this host that a measurement uses.
#[derive(Clone, Debug)]
pub(super) struct NetFiles {
    pub(super) kernel: PathBuf,
    modules: PathBuf,
    busybox: PathBuf,
    netserver: PathBuf,
    pub(super) netperf: PathBuf,
    /// The module for an assigned card.
    driver: String,
}

impl NetFiles {
    /// Finds the files; an error says what is missing, and how to get it.
    pub(super) fn find(args: &NetSuiteArgs) -> Result<Self> {
        let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        let release = release.trim();
        let file = |given: &Option<PathBuf>, default: String, how: &str| {
            let path = given.clone().unwrap_or_else(|| default.into());
            match path.exists() {
                true => Ok(path),
                false => bail!("there is no {}: {how}", path.display()),
            }
        };
        let program = |given: &Option<PathBuf>, name: &str, how: &str| match given {
            Some(path) if path.is_file() => Ok(path.clone()),
            Some(path) => bail!("there is no file {}", path.display()),
            None => on_path(name).map_err(|reason| anyhow::anyhow!("{reason}: {how}")),
        };
        let netperf = "install netperf 2.7 (on Debian from non-free), or run `vmbell lab -- vmbell bench net`, which downloads it";
        Ok(Self {
            kernel: file(
                &args.kernel,
                format!("/boot/vmlinuz-{release}"),
                "name a kernel of Linux with --kernel, or run `vmbell lab -- vmbell bench net`",
            )?,
            modules: file(
                &args.modules,
                format!("/lib/modules/{release}"),
                "name the folder of the kernel's modules with --modules",
            )?,
            busybox: program(
                &args.busybox,
                "busybox",
                "install busybox-static, or name one with --busybox",
            )?,
            netserver: program(&args.netserver, "netserver", netperf)?,
            netperf: program(&args.netperf, "netperf", netperf)?,
            driver: args.driver.clone(),
        })
    }

    /// The initrd.
    pub(super) fn initrd(&self) -> Result<Vec<u8>> {
        let arch = Arch::host().context("no guest of this architecture can be made")?;
        let mut archive = Archive::new(Vec::new());
        for (file, path) in [(&self.busybox, BUSYBOX), (&self.netserver, NETSERVER)] {
            archive.libraries(file, arch.name, &LibrarySearch::host(arch.triplet))?;
            archive.host_path_at(file, Path::new(path))?;
        }
        for folder in ["/proc", "/sys", "/tmp"] {
            archive.folder(Path::new(folder))?;
        }
        for (path, major, minor) in [("/dev/console", 5, 1), ("/dev/null", 1, 3)] {
            archive.character_device(Path::new(path), major, minor)?;
        }
        let drivers = [DRIVERS.as_slice(), &[self.driver.as_str()]].concat();
        let tree = ModuleTree::open(&self.modules, &self.modules.display().to_string())?;
        // A module gets its parameters from the kernel's command line, as with modprobe.
        let mut script = format!(
            "#!{BUSYBOX} sh\n\
             {BUSYBOX} echo '{INIT}'\n\
             {BUSYBOX} mount -t proc proc /proc\n\
             read -r words </proc/cmdline\n\
             load() {{\n\
             own=\n\
             for word in $words; do case $word in $2.*) own=\"$own ${{word#$2.}}\";; esac; done\n\
             {BUSYBOX} insmod $1 $own\n\
             }}\n"
        );
        for (index, module) in tree.load_order(&drivers)?.iter().enumerate() {
            let path = format!("/modules/{index:02}-{}.ko", module.name);
            archive.file(Path::new(&path), 0o644, &module.bytes)?;
            script.push_str(&format!("load {path} {}\n", module.name));
        }
        // netserver becomes a daemon once it accepts connections. The first process must not end.
        script.push_str(&format!(
            "{BUSYBOX} ifconfig lo up\n\
             {BUSYBOX} ifconfig eth0 {GUEST} netmask {MASK} up && {NETSERVER} -4 && {BUSYBOX} echo '{READY}'\n\
             while :; do {BUSYBOX} sleep 1000; done\n"
        ));
        archive.file(Path::new("/init"), 0o755, script.as_bytes())?;
        Ok(archive.finish()?)
    }
}

/// The kernel's command line, with the user's words.
pub(super) fn cmdline(append: &str) -> String {
    // IPv6 packets that the guest sends unasked would be counted.
    format!("console=ttyS0 quiet panic=-1 ipv6.disable=1 net.ifnames=0 cryptomgr.notests {append}")
        .trim_end()
        .to_owned()
}
