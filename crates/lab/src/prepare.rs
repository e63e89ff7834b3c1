//! Makes cache entries from unpacked packages, or from a kernel that the user names.

use std::fs;
use std::io::BufWriter;
use std::path::{Path, PathBuf};

use super::LabError;
use super::arch::Arch;
use super::board::Board;
use super::cache::{CacheError, Draft, Entry};
use super::initramfs::{Archive, InitramfsError};
use super::job::MODULE_FOLDER;
use super::kernel::{KernelError, KernelImage, Module, ModuleTree};
use super::qemu::Qemu;

const IMAGE: &str = "vmlinux";
const BASE: &str = "base.cpio";
const MODULES: &str = "modules";
/// The file of a shell's entry.
pub const SHELL: &str = "busybox";

/// Folders of QEMU's packages that QEMU does not need to run.
const DISPENSABLE: &[&str] = &[
    "etc",
    "var",
    "usr/share/doc",
    "usr/share/man",
    "usr/share/locale",
    "usr/share/lintian",
    "usr/share/bug",
];

/// A kernel that can be booted.
#[derive(Clone, Debug)]
pub struct Kernel {
    /// The image for QEMU.
    pub image: PathBuf,
    /// The first archive of the file tree, which has the modules that every run needs.
    pub base: PathBuf,
    /// More modules, if there are any.
    pub modules: Option<PathBuf>,
    /// The kernel's title for people: `Linux 6.12.117+deb12-cloud-amd64`.
    pub title: String,
}

impl Kernel {
    /// The kernel of a finished entry. `modules` is a folder that the user names; otherwise the entry has them.
    pub fn of(entry: &Entry, modules: Option<PathBuf>) -> Self {
        let own = entry.path(MODULES);
        Self {
            image: entry.path(IMAGE),
            base: entry.path(BASE),
            modules: modules.or_else(|| own.is_dir().then_some(own)),
            title: entry.manifest().title.clone(),
        }
    }

    /// The kernel's release (`uname -r`): the word after `Linux` in the title.
    pub fn release(&self) -> &str {
        self.title.split(' ').nth(1).unwrap_or_default()
    }
}

/// Finishes an entry into which QEMU's packages were unpacked; returns its title.
pub fn qemu(host: Arch, board: &Board, draft: &Draft) -> Result<String, LabError> {
    for folder in DISPENSABLE {
        remove_folder(&draft.path(folder))?;
    }
    let qemu = Qemu::unpacked(host, board, &draft.path(""))?;
    Ok(format!("QEMU {} for {}", qemu.version(), board.arch.name))
}

/// Finishes an entry from a shell's package that was unpacked next to it; returns its title.
pub fn shell(draft: &Draft) -> Result<String, LabError> {
    let (from, to) = (draft.scratch().join("bin/busybox"), draft.path(SHELL));
    fs::rename(&from, &to).map_err(CacheError::io("move", from))?;
    Ok("busybox".to_owned())
}

/// Finishes an entry from a kernel package that was unpacked next to it; returns its title.
pub fn linux(board: &Board, draft: &Draft) -> Result<String, LabError> {
    let unpacked = draft.scratch();
    let boot = unpacked.join("boot");
    let image = newest(&boot, "vmlinuz-").ok_or(KernelError::NotAKernel {
        path: boot,
        wanted: "a vmlinuz nor a folder with one",
    })?;
    let version = image
        .file_name()
        .map(|name| name.to_string_lossy().replacen("vmlinuz-", "", 1))
        .unwrap_or_default();
    let modules =
        ["lib/modules", "usr/lib/modules"].map(|folder| unpacked.join(folder).join(&version));
    let modules = modules
        .iter()
        .find(|folder| folder.is_dir())
        .unwrap_or(&modules[0]);
    kernel(
        board,
        draft,
        &KernelImage::read(&image, board.arch.name)?,
        Some(&ModuleTree::open(modules, &version)?),
    )?;
    let kept = draft.path(MODULES);
    fs::rename(modules, &kept).map_err(CacheError::io("move modules to", kept))?;
    Ok(format!("Linux {version}"))
}

/// Writes the image and the first archive of an entry.
pub fn kernel(
    board: &Board,
    draft: &Draft,
    image: &KernelImage,
    modules: Option<&ModuleTree>,
) -> Result<(), LabError> {
    let path = draft.path(IMAGE);
    fs::write(&path, &image.bytes).map_err(CacheError::io("write", path))?;
    let modules = modules.map_or(Ok(Vec::new()), |tree| tree.load_order(board.modules))?;
    let path = draft.path(BASE);
    let file = fs::File::create(&path).map_err(CacheError::io("write", &path))?;
    let mut archive = Archive::new(BufWriter::new(file));
    archive.character_device(Path::new("/dev/console"), 5, 1)?;
    archive.character_device(Path::new("/dev/null"), 1, 3)?;
    add_modules(&mut archive, MODULE_FOLDER, &modules)?;
    let file = archive
        .finish()?
        .into_inner()
        .map_err(|error| error.into_error());
    file.map_err(CacheError::io("write", path))?;
    Ok(())
}

/// Adds modules to a folder of the archive; sorted by name, they are in the order of loading.
pub fn add_modules<W: std::io::Write>(
    archive: &mut Archive<W>,
    folder: &str,
    modules: &[Module],
) -> Result<(), InitramfsError> {
    archive.folder(Path::new(folder))?;
    for (index, module) in modules.iter().enumerate() {
        archive.file(
            &Path::new(folder).join(format!("{index:03}-{}.ko", module.name)),
            0o644,
            &module.bytes,
        )?;
    }
    Ok(())
}

fn newest(folder: &Path, prefix: &str) -> Option<PathBuf> {
    let list = fs::read_dir(folder).ok()?.flatten();
    list.filter(|item| item.file_name().to_string_lossy().starts_with(prefix))
        .map(|item| item.path())
        .max()
}

fn remove_folder(path: &Path) -> Result<(), CacheError> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(CacheError::io("remove", path)(error))
        }
        _ => Ok(()),
    }
}
