//! Makes cache entries from unpacked packages, or from a kernel that the user names.

use std::fs;
use std::io::BufWriter;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use super::arch::Arch;
use super::board::LabBoard;
use super::cache::{CacheEntry, EntryDraft};
use super::debug_kernel::SUFFIX;
use super::initramfs::Archive;
use super::kernel::{KernelImage, KernelModule, ModuleTree, no_module, not_a_kernel};
use super::qemu::Qemu;
use crate::error::{LabError, cannot};
use loader::window::MODULE_FOLDER;

const IMAGE: &str = "vmlinux";
const BASE: &str = "base.cpio";
const MODULES: &str = "modules";
/// The folder in a cache entry with the headers to build modules against, for a kernel that the lab has built.
pub const HEADERS: &str = "headers";
/// The file in the cache entry of a shell.
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
pub struct LabKernel {
    /// The image for QEMU.
    pub image: PathBuf,
    /// The first archive of the file tree, with the modules that every run needs.
    pub base: PathBuf,
    /// The folder with further modules, if there are any.
    pub modules: Option<PathBuf>,
    /// The headers to build modules against, unless the kernel comes from a package.
    pub headers: Option<PathBuf>,
    /// The kernel's title for people: `Linux 6.12.117+deb12-cloud-amd64`.
    pub title: String,
}

impl LabKernel {
    /// Returns the kernel of a finished entry. `modules` is the user's module folder; `None` for the entry's own.
    pub fn of(entry: &CacheEntry, modules: Option<PathBuf>) -> Self {
        let own = entry.path(MODULES);
        let headers = entry.path(HEADERS);
        Self {
            image: entry.path(IMAGE),
            base: entry.path(BASE),
            modules: modules.or_else(|| own.is_dir().then_some(own)),
            headers: headers.is_dir().then_some(headers),
            title: entry.manifest().title.clone(),
        }
    }

    /// The release of the kernel's package, or of the package whose source it was built from.
    pub fn package(&self) -> &str {
        self.release().trim_end_matches(SUFFIX)
    }

    /// The first number of the kernel's version.
    pub fn major(&self) -> u32 {
        let number = self.release().split('.').next();
        number.and_then(|number| number.parse().ok()).unwrap_or(0)
    }

    /// The kernel's release (`uname -r`): the word after `Linux` in the title.
    pub fn release(&self) -> &str {
        self.title.split(' ').nth(1).unwrap_or_default()
    }
}

/// Finishes an entry with the unpacked packages of QEMU; returns its title.
pub fn qemu(host: Arch, board: &LabBoard, draft: &EntryDraft) -> Result<String, LabError> {
    for folder in DISPENSABLE {
        remove_folder(&draft.path(folder))?;
    }
    let qemu = Qemu::unpacked(host, board, &draft.path(""))?;
    Ok(format!("QEMU {} for {}", qemu.version(), board.arch.name))
}

/// Finishes an entry from a shell's package that was unpacked into the scratch folder; returns its title.
pub fn shell(draft: &EntryDraft) -> Result<String, LabError> {
    let (from, to) = (draft.scratch().join("bin/busybox"), draft.path(SHELL));
    fs::rename(&from, &to).map_err(cannot("move", from))?;
    Ok("busybox".to_owned())
}

/// Finishes an entry from a kernel package that was unpacked into the scratch folder; returns its title.
pub fn linux(board: &LabBoard, draft: &EntryDraft) -> Result<String, LabError> {
    let unpacked = draft.scratch();
    let (image, version) = unpacked_image(&unpacked).ok_or_else(|| {
        not_a_kernel(
            &unpacked,
            "a folder with boot/vmlinuz-VERSION nor one with usr/lib/modules/VERSION/vmlinuz",
        )
    })?;
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
    keep_modules(draft, modules)?;
    Ok(format!("Linux {version}"))
}

/// Moves a kernel's module folder into its entry.
pub fn keep_modules(draft: &EntryDraft, modules: &Path) -> Result<(), LabError> {
    let kept = draft.path(MODULES);
    fs::rename(modules, &kept).map_err(cannot("move modules to", kept))
}

/// Finishes an entry for a variant of `kernel` that has the modules in `built` instead of its own. All other files are
/// links into the other kernel's entry.
pub fn with_modules(
    board: &LabBoard,
    draft: &EntryDraft,
    kernel: &LabKernel,
    built: &[PathBuf],
) -> Result<(), LabError> {
    let path = draft.path(IMAGE);
    symlink(&kernel.image, &path).map_err(cannot("link", path))?;
    let folder = draft.path(MODULES);
    if let Some(from) = &kernel.modules {
        link_modules(from, &folder)?;
    }
    let own = ModuleTree::open(&folder, kernel.release())?;
    for path in built {
        let module = KernelModule::read(path)?;
        let to = own
            .file(&module.name)
            .ok_or_else(|| no_module(&module.name, &folder))?;
        fs::remove_file(to).map_err(cannot("remove", to))?;
        let to = to.with_file_name(path.file_name().unwrap_or_default());
        fs::write(&to, &module.bytes).map_err(cannot("write", to))?;
    }
    base(
        board,
        draft,
        Some(&ModuleTree::open(&folder, kernel.release())?),
    )
}

/// Creates the folder `to` with links to the files of `from`.
fn link_modules(from: &Path, to: &Path) -> Result<(), LabError> {
    fs::create_dir_all(to).map_err(cannot("make", to))?;
    for item in fs::read_dir(from).map_err(cannot("list", from))? {
        let item = item.map_err(cannot("list", from))?;
        let target = to.join(item.file_name());
        if item.file_type().is_ok_and(|kind| kind.is_dir()) {
            link_modules(&item.path(), &target)?;
        } else {
            symlink(item.path(), &target).map_err(cannot("link", target))?;
        }
    }
    Ok(())
}

/// Writes the image and the first archive of an entry.
pub fn kernel(
    board: &LabBoard,
    draft: &EntryDraft,
    image: &KernelImage,
    modules: Option<&ModuleTree>,
) -> Result<(), LabError> {
    let path = draft.path(IMAGE);
    fs::write(&path, &image.bytes).map_err(cannot("write", path))?;
    base(board, draft, modules)
}

/// Writes the first archive of an entry.
fn base(
    board: &LabBoard,
    draft: &EntryDraft,
    modules: Option<&ModuleTree>,
) -> Result<(), LabError> {
    let modules = modules.map_or(Ok(Vec::new()), |tree| tree.load_order(board.modules))?;
    let path = draft.path(BASE);
    let file = fs::File::create(&path).map_err(cannot("write", &path))?;
    let mut archive = Archive::new(BufWriter::new(file));
    archive.character_device(Path::new("/dev/console"), 5, 1)?;
    archive.character_device(Path::new("/dev/null"), 1, 3)?;
    add_modules(&mut archive, MODULE_FOLDER, &modules)?;
    let file = archive
        .finish()?
        .into_inner()
        .map_err(|error| error.into_error());
    file.map_err(cannot("write", path))?;
    Ok(())
}

/// Adds modules to a folder of the archive. Sorted by file name, they are in load order.
pub fn add_modules<W: std::io::Write>(
    archive: &mut Archive<W>,
    folder: &str,
    modules: &[KernelModule],
) -> Result<(), LabError> {
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

/// Finds the image of an unpacked package and its release. Since 7.2, Debian keeps it next to the modules.
fn unpacked_image(unpacked: &Path) -> Option<(PathBuf, String)> {
    const IN_BOOT: &str = "vmlinuz-";
    let release = |path: &Path| Some(path.file_name()?.to_string_lossy().into_owned());
    if let Some(image) = newest(&unpacked.join("boot"), IN_BOOT) {
        let release = release(&image)?.replacen(IN_BOOT, "", 1);
        return Some((image, release));
    }
    let folder = newest(&unpacked.join("usr/lib/modules"), "")?;
    let image = folder.join("vmlinuz");
    image.is_file().then_some((image, release(&folder)?))
}

fn newest(folder: &Path, prefix: &str) -> Option<PathBuf> {
    let list = fs::read_dir(folder).ok()?.flatten();
    list.filter(|item| item.file_name().to_string_lossy().starts_with(prefix))
        .map(|item| item.path())
        .max()
}

fn remove_folder(path: &Path) -> Result<(), LabError> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(cannot("remove", path)(error))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::board::X86_64;
    use super::super::cache::Cache;
    use super::*;

    /// Makes the header of an ELF for x86-64.
    fn elf() -> Vec<u8> {
        let mut bytes = b"\x7fELF\x02\x01\x01".to_vec();
        bytes.resize(64, 0);
        bytes[18] = 62;
        bytes
    }

    #[test]
    fn an_image_is_found_in_boot_and_next_to_the_modules() {
        let board = LabBoard {
            modules: &[],
            ..X86_64
        };
        for (image, modules) in [
            ("boot/vmlinuz-6.1.0-56", "lib/modules/6.1.0-56"),
            ("boot/vmlinuz-6.1.0-56", "usr/lib/modules/6.1.0-56"),
            (
                "usr/lib/modules/6.1.0-56/vmlinuz",
                "usr/lib/modules/6.1.0-56",
            ),
        ] {
            let root = tempfile::tempdir().unwrap();
            let cache = Cache::at(root.path().to_path_buf());
            let lock = cache.lock_prepare(|| ()).unwrap();
            let draft = cache.draft(&lock, "linux-0").unwrap();
            let module = Path::new(modules).join("kvm.ko");
            for file in [Path::new(image), &module] {
                let path = draft.scratch().join(file);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, elf()).unwrap();
            }
            assert_eq!(linux(&board, &draft).unwrap(), "Linux 6.1.0-56");
            assert_eq!(fs::read(draft.path(IMAGE)).unwrap(), elf());
            assert!(draft.path(MODULES).join("kvm.ko").is_file());
        }
    }
}
