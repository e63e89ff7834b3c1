//! Linux as the guest of `vmbell run` in a session: the kernel of L1 boots once more, with busybox, and drives our
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
/// The guests' kernel in L1.
pub const KERNEL: &str = "/guest/kernel";
/// A guest's and L1's program that talks over vsock.
pub const TALK: &str = "/bin/talk";

/// A guest prints this if the flags of its emulated CPU are corrupted: docs/emulator-bugs.md.
const OOPS: &str = "Oops: general protection fault";

/// The drivers of the guests.
pub const DRIVERS: [&str; 5] = [
    "virtio_blk",
    "virtio_mmio",
    "virtio_net",
    "virtio_rng",
    "vmw_vsock_virtio_transport",
];

/// What every guest's first program does before the test's part. The kernel's last words would come in between what is
/// still on its way out: setting the terminal waits for that.
const BEGIN: &str = "#!/bin/sh
/bin/busybox --install -s /bin
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs dev /dev
end() { stty -echo && /bin/busybox $1 -f; }
for module in /modules/*; do insmod $module || echo no $module; done
";

/// The kernel and the only program of the guests, which the lab downloads.
pub static PARTS: LazyLock<(LabKernel, PathBuf)> = LazyLock::new(|| {
    let cache = Cache::user().unwrap();
    let host = Arch::host().unwrap();
    let mut provision = Provision::new(host, BOARD, &cache, LabProgress::new(true));
    let kernel = provision.kernel(None).unwrap();
    let shell = provision.shell(false).unwrap().unwrap();
    provision.finish().unwrap();
    (kernel, shell)
});

/// The archives of which the guests' file trees are made; with `talk`, the program has its libraries beside it.
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

/// A file tree with the drivers, and without a first program.
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

/// What a session has besides its own files, as `--with` takes it.
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

/// A guest, and the files that it and L1's script find in the script's directory.
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

    /// The same with the program that talks.
    pub fn that_talks(mut self) -> Self {
        self.archives = "/guest/base /guest/talk";
        self
    }

    /// The same with this file for L1.
    pub fn with_file(mut self, name: &str, bytes: impl Into<Vec<u8>>) -> Self {
        self.files.push((name.to_owned(), bytes.into()));
        self
    }

    /// The command that runs the guest. Tests of the kernel's algorithms would keep its CPU busy for a second.
    pub fn command(options: &str) -> String {
        format!(
            "$VMBELL run {KERNEL} --initrd initrd -m 256M --timeout 600s \
             --append 'console=ttyS0 panic=-1 quiet cryptomgr.notests {}' {options}",
            crate::PARAMETERS
        )
    }

    /// Runs a script of L1's shell, in which such commands run this guest.
    pub fn in_l1(&self, l1: &Session, script: &str) -> Ran {
        let script = format!("cat {} init >initrd\n{script}", self.archives);
        let ran = l1.run(&script, &self.files);
        if !ran.all().contains(OOPS) {
            return ran;
        }
        eprintln!(
            "lab: a guest's kernel oopsed: the test is run once more:\n{}",
            ran.all()
        );
        l1.run(&script, &self.files)
    }
}

/// The rest of the lines that begin so.
pub fn line<'t>(said: &'t str, begin: &str) -> Vec<&'t str> {
    said.lines()
        .filter_map(|line| line.strip_prefix(begin))
        .map(str::trim_end)
        .collect()
}

/// Bytes of which no two parts are alike.
pub fn bytes(length: u32) -> Vec<u8> {
    (0..length)
        .map(|at| at.wrapping_mul(2_654_435_761).to_le_bytes()[3])
        .collect()
}
