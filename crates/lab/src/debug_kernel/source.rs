//! The source of a kernel to build, and what is kept of the built tree.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use crate::error::{LabError, cannot};
use crate::out_of_tree::take;

/// Folders that the build does not read, except for the files that describe the build.
const LEFT_OUT: [&str; 5] = [
    "Documentation",
    "drivers/gpu/drm",
    "drivers/net/ethernet",
    "sound",
    "tools/testing",
];
/// The program that checks objects.
const OBJTOOL: &str = "tools/objtool/objtool";
/// The architecture that is built.
const ARCH: &str = "arch/x86";

/// Unpacks the source.
pub(super) fn unpack(archive: &Path, folder: &Path) -> Result<(), LabError> {
    take(archive, |path| is_read(path).then(|| folder.join(path)))
}

fn is_read(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let describes = name.starts_with("Kconfig") || name.starts_with("Makefile") || name == "Kbuild";
    let other =
        path.starts_with("arch") && !path.starts_with(ARCH) && path != Path::new("arch/Kconfig");
    describes || !(other || LEFT_OUT.iter().any(|folder| path.starts_with(folder)))
}

/// Makes the tree use this objtool instead of building one.
pub(super) fn put_objtool(tree: &Path, objtool: &Path) -> Result<(), LabError> {
    let makefile = tree.join("tools/objtool/Makefile");
    fs::write(&makefile, "all: ;\n").map_err(cannot("write", makefile))?;
    let path = tree.join(OBJTOOL);
    let text = format!("#!/bin/sh\nexec '{}' \"$@\"\n", objtool.display());
    fs::write(&path, text).map_err(cannot("write", &path))?;
    let mode = fs::Permissions::from_mode(0o755);
    fs::set_permissions(&path, mode).map_err(cannot("change", path))
}

/// Copies the modules of the built tree, and the list of built-in modules.
pub(super) fn take_modules(tree: &Path, target: &Path) -> Result<(), LabError> {
    copy(tree, target, &|path| {
        path.extension().is_some_and(|end| end == "ko") || path == Path::new("modules.builtin")
    })
}

/// Copies what module builds need: headers, the configuration, the symbols, the build's programs, and the source that
/// is linked to each module since Linux 6.12.
pub(super) fn take_headers(tree: &Path, target: &Path) -> Result<(), LabError> {
    const FILES: [&str; 6] = [
        ".config",
        "Makefile",
        "Kbuild",
        "Module.symvers",
        "scripts/module-common.c",
        OBJTOOL,
    ];
    copy(tree, target, &|path| {
        let end = path.extension().unwrap_or_default();
        let is_source = ["c", "S", "o", "a", "cmd", "ko", "mod"]
            .iter()
            .any(|other| end == *other);
        let folder = ["include", "scripts", ARCH]
            .iter()
            .any(|folder| path.starts_with(folder));
        FILES.iter().any(|file| path == Path::new(file)) || (folder && !is_source)
    })
}

/// Copies the files of a folder for whose relative paths `wanted` returns true, with their permissions.
fn copy(from: &Path, to: &Path, wanted: &dyn Fn(&Path) -> bool) -> Result<(), LabError> {
    let mut folders = vec![PathBuf::new()];
    while let Some(folder) = folders.pop() {
        let path = from.join(&folder);
        for item in fs::read_dir(&path).map_err(cannot("list", &path))? {
            let item = item.map_err(cannot("list", &path))?;
            let name = folder.join(item.file_name());
            let kind = item.file_type().map_err(cannot("inspect", item.path()))?;
            if kind.is_dir() {
                folders.push(name);
            } else if kind.is_file() && wanted(&name) {
                let target = to.join(&name);
                let parent = target.parent().unwrap_or(to);
                fs::create_dir_all(parent).map_err(cannot("make", parent))?;
                fs::copy(item.path(), &target).map_err(cannot("copy", item.path()))?;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_describe_the_build_are_read_everywhere_and_others_of_this_architecture_only() {
        for (path, read) in [
            ("arch/x86/kvm/svm/svm.c", true),
            ("arch/Kconfig", true),
            ("arch/arm64/kvm/arm.c", false),
            ("arch/arm64/Kconfig", true),
            ("Documentation/Kconfig", true),
            ("Documentation/index.rst", false),
            ("drivers/gpu/drm/drm_drv.c", false),
            ("drivers/gpu/drm/Makefile", true),
            ("drivers/virtio/virtio_pci_modern.c", true),
        ] {
            assert_eq!(is_read(Path::new(path)), read, "{path}");
        }
    }

    #[test]
    fn headers_and_programs_are_kept_and_sources_and_objects_are_not() {
        let tree = tempfile::tempdir().unwrap();
        let files = [
            ("Module.symvers", true),
            ("include/linux/kvm_host.h", true),
            ("scripts/mod/modpost", true),
            ("scripts/mod/modpost.o", false),
            ("scripts/module-common.c", true),
            ("arch/x86/kvm/x86.c", false),
            ("arch/x86/include/asm/kvm_host.h", true),
            ("mm/slab.h", false),
        ];
        for (name, _) in files {
            let path = tree.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, name).unwrap();
        }
        let target = tempfile::tempdir().unwrap();
        take_headers(tree.path(), target.path()).unwrap();
        for (name, kept) in files {
            assert_eq!(target.path().join(name).exists(), kept, "{name}");
        }
    }
}
