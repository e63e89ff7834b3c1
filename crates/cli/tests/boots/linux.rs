//! Linux as the guest of `vmbell run` in a session: L1's kernel boots again as the guest, with busybox, and drives our
//! devices.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use tempfile::TempDir;
use vmbell_lab::arch::Arch;
use vmbell_lab::cache::Cache;
use vmbell_lab::initramfs::{Archive, LibrarySearch};
use vmbell_lab::kernel::ModuleTree;
use vmbell_lab::{LabKernel, LabProgress, Provision};

use super::example;
use super::session::{Ran, Session};
use crate::BOARD;

/// The command in L1.
pub const VMBELL: &str = "/bin/vmbell";
/// The guest's kernel in L1.
pub const KERNEL: &str = "/guest/kernel";
/// The program with which a guest and L1 talk over vsock.
pub const TALK: &str = "/bin/talk";

/// A guest prints one of these if its emulated CPU had corrupt flags, or ran code from before a patch:
/// docs/emulator-bugs.md.
const OOPSES: [&str; 2] = ["Oops: general protection fault", "Oops: int3"];

/// The drivers of the guests.
pub const DRIVERS: [&str; 5] = [
    "virtio_blk",
    "virtio_mmio",
    "virtio_net",
    "virtio_rng",
    "vmw_vsock_virtio_transport",
];

/// What every guest's first program does before the test's script. Setting the terminal waits until the kernel's
/// messages are printed; otherwise they would mix with the script's output.
const BEGIN: &str = "#!/bin/sh
/bin/busybox --install -s /bin
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs dev /dev
end() { stty -echo && /bin/busybox $1 -f; }
for module in /modules/*; do insmod $module || echo no $module; done
";

/// The kernel and the guests' only program, which the lab downloads.
pub static PARTS: LazyLock<(LabKernel, PathBuf)> = LazyLock::new(|| {
    let cache = Cache::user().unwrap();
    let host = Arch::host().unwrap();
    let mut provision = Provision::new(host, BOARD, &cache, LabProgress::new(true));
    let kernel = provision.kernel(None).unwrap();
    let shell = provision.shell(false).unwrap().unwrap();
    provision.finish().unwrap();
    (kernel, shell)
});

/// The archives for the guests' file systems; with `talk`, one has this program and its libraries.
static ARCHIVES: LazyLock<TempDir> = LazyLock::new(|| {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("base"), base()).unwrap();
    let mut archive = Archive::new(Vec::new());
    let talk = example("vsock");
    let search = LibrarySearch::host(Arch::host().unwrap().triplet);
    archive.libraries(&talk, BOARD.arch.name, &search).unwrap();
    archive.host_path_at(&talk, Path::new(TALK)).unwrap();
    fs::write(folder.path().join("talk"), archive.finish().unwrap()).unwrap();
    folder
});

/// A file system with the drivers, without a first program.
fn base() -> Vec<u8> {
    let (kernel, shell) = &*PARTS;
    let mut archive = Archive::new(Vec::new());
    archive
        .host_path_at(shell, Path::new("/bin/busybox"))
        .unwrap();
    archive
        .link(Path::new("/bin/sh"), Path::new("busybox"))
        .unwrap();
    for folder in ["/proc", "/sys", "/mnt"] {
        archive.folder(Path::new(folder)).unwrap();
    }
    archive
        .character_device(Path::new("/dev/console"), 5, 1)
        .unwrap();
    let tree = ModuleTree::open(kernel.modules.as_ref().unwrap(), kernel.release()).unwrap();
    for (index, module) in tree.load_order(&DRIVERS).unwrap().iter().enumerate() {
        let path = format!("/modules/{index:02}-{}.ko", module.name);
        archive
            .file(Path::new(&path), 0o644, &module.bytes)
            .unwrap();
    }
    archive.finish().unwrap()
}

/// The files of every session, as arguments of `--with`.
pub fn files() -> Vec<String> {
    let at = |file: &Path, path: &str| format!("{}:{path}", file.display());
    let archives = ["base", "talk"].map(|name| {
        let file = ARCHIVES.path().join(name);
        at(&file, &format!("/guest/{name}"))
    });
    let (kernel, shell) = &*PARTS;
    let others = [
        at(&kernel.image, KERNEL),
        at(shell, "/bin/busybox"),
        at(&crate::vmbell(), VMBELL),
        at(&example("vsock"), TALK),
    ];
    archives.into_iter().chain(others).collect()
}

/// A guest, and the files in the working directory of its first program and of L1's script.
#[derive(Debug)]
pub struct Guest {
    archives: &'static str,
    files: Vec<(String, Vec<u8>)>,
}

impl Guest {
    /// A guest whose first program ends with this script.
    pub fn new(script: &str) -> Self {
        let mut archive = Archive::new(Vec::new());
        let script = format!("{BEGIN}{script}");
        archive
            .file(Path::new("/init"), 0o755, script.as_bytes())
            .unwrap();
        let archive = archive.finish().unwrap();
        Self {
            archives: "/guest/base",
            files: vec![("init".to_owned(), archive)],
        }
    }

    /// Adds the program for vsock.
    pub fn that_talks(mut self) -> Self {
        self.archives = "/guest/base /guest/talk";
        self
    }

    /// Adds this file for L1.
    pub fn with_file(mut self, name: &str, bytes: impl Into<Vec<u8>>) -> Self {
        self.files.push((name.to_owned(), bytes.into()));
        self
    }

    /// The command that runs the guest. It skips the kernel's crypto self-tests, which take a second.
    pub fn command(options: &str) -> String {
        format!(
            "$VMBELL run {KERNEL} --initrd initrd -m 256M --timeout 600s \
             --append 'console=ttyS0 panic=-1 quiet cryptomgr.notests {}' {options}",
            crate::PARAMETERS
        )
    }

    /// Runs a script of L1's shell that may run this guest with [`Self::command`].
    pub fn in_l1(&self, l1: &Session, script: &str) -> Ran {
        let script = format!("cat {} init >initrd\n{script}", self.archives);
        let ran = l1.run(&script, &self.files);
        if !OOPSES.iter().any(|oops| ran.all().contains(oops)) {
            return ran;
        }
        eprintln!(
            "lab: a guest's kernel oopsed: the test is run once more:\n{}",
            ran.all()
        );
        l1.run(&script, &self.files)
    }
}

/// The rest of each line that begins with `begin`.
pub fn line<'t>(said: &'t str, begin: &str) -> Vec<&'t str> {
    said.lines()
        .filter_map(|line| line.strip_prefix(begin))
        .map(str::trim_end)
        .collect()
}

/// Bytes in which no two parts are the same.
pub fn bytes(length: u32) -> Vec<u8> {
    (0..length)
        .map(|at| at.wrapping_mul(2_654_435_761).to_le_bytes()[3])
        .collect()
}
