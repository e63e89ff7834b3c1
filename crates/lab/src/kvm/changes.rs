//! The user's changes to KVM's source: a source tree, and patches to apply to it.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Component, Path, PathBuf};

use super::VendorBuild;
use crate::cache::hash_bytes;
use crate::error::{LabError, cannot, failed};

/// The folders with the modules' own source.
pub(super) const OWN: [&str; 2] = ["arch/x86/kvm", "virt/kvm"];
/// The folders with headers, which also come in a package.
const HEADERS: [&str; 2] = ["arch/x86/include", "include"];
/// KVM's headers without `kvm` in their names.
const NAMED_OTHERWISE: [&str; 2] = ["svm.h", "vmx.h"];

/// The user's changes to KVM: none by default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KvmChanges {
    /// A kernel's source, whose KVM is used.
    pub source: Option<PathBuf>,
    /// Patches, applied in this order.
    pub patches: Vec<PathBuf>,
}

impl KvmChanges {
    /// Returns whether nothing has to be built.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// The changes, read from their files.
#[derive(Debug)]
pub(crate) struct ReadChanges {
    /// The files of the user's source; `None` for the package's source.
    pub(super) source: Option<BTreeMap<PathBuf, Vec<u8>>>,
    pub(super) patches: Vec<Patch>,
}

/// A patch without its changes to documents, tools, other architectures and the other vendor's CPUs.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Patch {
    pub(super) path: PathBuf,
    pub(super) text: Vec<u8>,
    /// The files that the patch changes.
    pub(super) files: Vec<PathBuf>,
    /// A file that the patch changes but that is not part of a module of the lab. If there are several, this is one of
    /// them.
    left_out: Option<PathBuf>,
}

impl ReadChanges {
    /// Reads the files. `release` is the kernel's release.
    pub(crate) fn read(
        wanted: &KvmChanges,
        release: &str,
        build: VendorBuild,
    ) -> Result<Self, LabError> {
        let source = wanted.source.as_deref();
        Ok(Self {
            source: source
                .map(|folder| source_of(folder, release))
                .transpose()?,
            patches: wanted
                .patches
                .iter()
                .map(|path| {
                    let bytes = fs::read(path).map_err(cannot("read", path))?;
                    Patch::parse(path, &bytes, build)
                })
                .collect::<Result<_, _>>()?,
        })
    }

    /// Returns an error if the user gave patches, but no patch changes what is built.
    pub(crate) fn require_some(&self, build: VendorBuild) -> Result<(), LabError> {
        let left_out = self.patches.iter().find(|patch| patch.left_out.is_some());
        let is_some =
            self.source.is_some() || self.patches.iter().any(|patch| !patch.files.is_empty());
        match left_out {
            Some(Patch {
                path,
                left_out: Some(file),
                ..
            }) if !is_some => Err(failed!(
                "{} changes {}, and no patch changes what the lab builds: {}, for a CPU with {}",
                path.display(),
                file.display(),
                build.modules.join(" and "),
                build.virtualization
            )),
            _ => Ok(()),
        }
    }

    /// Returns the SHA-256 of everything that determines what is built.
    pub(crate) fn digest(&self) -> String {
        let mut text = String::new();
        for (path, bytes) in self.source.iter().flatten() {
            text += &format!("{} {}\n", path.display(), hash_bytes(bytes));
        }
        for patch in &self.patches {
            text += &format!("patch {}\n", hash_bytes(&patch.text));
        }
        hash_bytes(text.as_bytes())
    }
}

impl Patch {
    fn parse(path: &Path, bytes: &[u8], build: VendorBuild) -> Result<Self, LabError> {
        let mut patch = Self {
            path: path.to_path_buf(),
            ..Self::default()
        };
        let lines: Vec<&[u8]> = bytes.split_inclusive(|byte| *byte == b'\n').collect();
        let (mut is_kept, mut has_changes) = (true, bytes.is_empty());
        for (at, line) in lines.iter().enumerate() {
            let names = names_in(&lines[at..]);
            has_changes |= !names.is_empty();
            if !names.is_empty() {
                is_kept = patch.add(&names, build)?;
            }
            if is_kept {
                patch.text.extend_from_slice(line);
            }
        }
        let path = path.display();
        has_changes.then_some(patch).ok_or_else(|| {
            failed!("{path} is not a patch: it has no changes in the unified format")
        })
    }

    /// Adds the files of a header, and returns whether the lines after the header are kept.
    fn add(&mut self, names: &[String], build: VendorBuild) -> Result<bool, LabError> {
        let mut is_kept = false;
        let patch = self.path.display();
        for name in names {
            let file = stripped(name);
            match is_built(&file, build) {
                Some(true) => is_kept = true,
                Some(false) => self.left_out = Some(file),
                None if is_built(Path::new(name), build).is_some() => {
                    let what = "without a folder before it, such as a/ and b/";
                    return Err(
                        failed!("{patch} names {name} {what}").hint("make it with git diff")
                    );
                }
                None => {
                    return Err(failed!(
                        "{patch} changes {}, which is in the kernel's image; \
                         only KVM's modules are built: arch/x86/kvm, virt/kvm and headers",
                        file.display()
                    ));
                }
            }
        }
        for file in names.iter().map(|name| stripped(name)) {
            if is_kept && !self.files.contains(&file) {
                self.files.push(file);
            }
        }
        Ok(is_kept)
    }
}

/// Returns the files in the header that begins here: git's, or the header of a file's hunks.
fn names_in(lines: &[&[u8]]) -> Vec<String> {
    let line = |at: usize| lines.get(at).map(|line| String::from_utf8_lossy(line));
    let Some(first) = line(0) else {
        return Vec::new();
    };
    let (old, new) = if let Some(names) = first.strip_prefix("diff --git a/") {
        let Some((old, new)) = names.trim_end().split_once(" b/") else {
            return Vec::new();
        };
        (format!("a/{old}"), format!("b/{new}"))
    } else if let Some(old) = first.strip_prefix("--- ")
        && let Some(second) = line(1)
        && let Some(new) = second.strip_prefix("+++ ")
        && line(2).is_some_and(|third| third.starts_with("@@ "))
    {
        let name = |text: &str| {
            text.split('\t')
                .next()
                .unwrap_or_default()
                .trim()
                .to_owned()
        };
        (name(old), name(new))
    } else {
        return Vec::new();
    };
    let names = [old, new].into_iter().filter(|name| name != "/dev/null");
    names.filter(|name| name.contains('/')).collect()
}

/// Removes the first folder of a name, such as `a` or `b`.
fn stripped(name: &str) -> PathBuf {
    name.split_once('/').map_or(name, |(_, rest)| rest).into()
}

/// Returns whether the modules are built from this file; `None` if the kernel's image is built from it.
fn is_built(file: &Path, build: VendorBuild) -> Option<bool> {
    let is_in = |folder: &&str| file.starts_with(folder);
    let is_plain = file
        .components()
        .all(|part| matches!(part, Component::Normal(_)));
    if is_plain && OWN.iter().chain(&HEADERS).any(is_in) {
        return Some(!file.starts_with(build.left_out));
    }
    let other = ["Documentation", "tools", "samples", "MAINTAINERS"];
    let is_other_arch = file.starts_with("arch") && !file.starts_with("arch/x86");
    (is_plain && (is_other_arch || other.iter().any(is_in))).then_some(false)
}

/// Makes the error of a folder that lacks a folder of a kernel's source.
pub(super) fn not_a_source(folder: &Path, missing: &str) -> LabError {
    failed!(
        "{} is not a kernel's source: it has no {missing}",
        folder.display()
    )
}

/// Reads the files of a kernel's source from which the modules are built.
fn source_of(folder: &Path, release: &str) -> Result<BTreeMap<PathBuf, Vec<u8>>, LabError> {
    if let Some(missing) = OWN.into_iter().find(|own| !folder.join(own).is_dir()) {
        return Err(not_a_source(folder, missing));
    }
    if let Ok(makefile) = fs::read_to_string(folder.join("Makefile"))
        && let Some(found) = version_in(&makefile)
        && !release
            .strip_prefix(&found)
            .is_some_and(|rest| rest.starts_with(['.', '+', '-']))
    {
        return Err(failed!(
            "{} is the source of Linux {found}, and the kernel is Linux {release}",
            folder.display()
        ));
    }
    let mut files = BTreeMap::new();
    for own in OWN {
        read_below(folder, Path::new(own), is_source, &mut files)?;
    }
    for headers in HEADERS {
        if folder.join(headers).is_dir() {
            read_below(folder, Path::new(headers), is_header, &mut files)?;
        }
    }
    Ok(files)
}

/// Finds the version, such as `6.12`, in the Makefile of a kernel's source.
fn version_in(makefile: &str) -> Option<String> {
    let value = |name: &str| {
        let mut lines = makefile.lines();
        let value = lines.find_map(|line| line.strip_prefix(name)?.trim().strip_prefix('='))?;
        Some(value.trim().to_owned())
    };
    Some(format!("{}.{}", value("VERSION")?, value("PATCHLEVEL")?))
}

/// Returns whether a file is source. Files that a build leaves next to the source are not.
pub(super) fn is_source(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let written = [".c", ".h", ".S"].iter().any(|end| name.ends_with(end));
    let generated = name == "kvm-asm-offsets.h" || name.ends_with(".mod.c");
    (written && !generated) || name.starts_with("Makefile") || name == "Kconfig"
}

fn is_header(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let is_kvms = path.to_string_lossy().contains("kvm") || NAMED_OTHERWISE.contains(&&*name);
    name.ends_with(".h") && is_kvms && !path.starts_with("include/generated")
}

/// Reads the wanted files below `root`/`folder`. Symbolic links are not followed.
pub(super) fn read_below(
    root: &Path,
    folder: &Path,
    is_wanted: fn(&Path) -> bool,
    files: &mut BTreeMap<PathBuf, Vec<u8>>,
) -> Result<(), LabError> {
    let path = root.join(folder);
    for item in fs::read_dir(&path).map_err(cannot("list", &path))? {
        let item = item.map_err(cannot("list", &path))?;
        let name = folder.join(item.file_name());
        let kind = item.file_type().map_err(cannot("inspect", &path))?;
        if kind.is_dir() {
            read_below(root, &name, is_wanted, files)?;
        } else if kind.is_file() && is_wanted(&name) {
            let path = root.join(&name);
            let bytes = fs::read(&path).map_err(cannot("read", path))?;
            files.insert(name, bytes);
        }
    }
    Ok(())
}

/// Returns the package's own files that correspond to those that [`source_of`] takes from the user.
pub(super) fn own_files(root: &Path) -> Result<Vec<PathBuf>, LabError> {
    let mut files = BTreeMap::new();
    for own in OWN {
        read_below(root, Path::new(own), is_source, &mut files)?;
    }
    Ok(files.into_keys().collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::board::CpuVendor;

    const AMD: VendorBuild = VendorBuild::of(CpuVendor::Amd);
    const INTEL: VendorBuild = VendorBuild::of(CpuVendor::Intel);

    fn parse(text: &str) -> Result<Patch, String> {
        Patch::parse(Path::new("a.patch"), text.as_bytes(), AMD).map_err(|error| error.to_string())
    }

    fn diff(file: &str) -> String {
        format!(
            "diff --git a/{file} b/{file}\nindex 1..2 100644\n--- a/{file}\n+++ b/{file}\n@@ -1 +1 @@\n-x\n+y\n"
        )
    }

    #[test]
    fn a_patch_is_taken_without_what_no_module_is_built_from() {
        let kept = ["virt/kvm/eventfd.c", "include/uapi/linux/kvm.h"].map(diff);
        let left_out = [
            "Documentation/virt/kvm/api.rst",
            "tools/testing/selftests/kvm/x.c",
            "arch/arm64/kvm/arm.c",
        ]
        .map(diff);
        let mail = "From: A\nSubject: b\n\n--- \n file | 1 +\n";
        let text = format!(
            "{mail}{}{}{}{}{}",
            left_out[0], kept[0], left_out[1], left_out[2], kept[1]
        );
        let patch = parse(&text).unwrap();
        assert_eq!(
            String::from_utf8(patch.text).unwrap(),
            format!("{mail}{}{}", kept[0], kept[1])
        );
        let files = ["virt/kvm/eventfd.c", "include/uapi/linux/kvm.h"].map(PathBuf::from);
        assert_eq!(patch.files, files);
    }

    #[test]
    fn names_are_those_of_both_sides_with_and_without_git() {
        let text = "--- linux.orig/virt/kvm/eventfd.c\t2026-01-01\n+++ linux/virt/kvm/eventfd.c\t2026-01-02\n@@ -1 +1 @@\n";
        assert_eq!(
            parse(text).unwrap().files,
            [PathBuf::from("virt/kvm/eventfd.c")]
        );
        let text = "--- /dev/null\n+++ b/virt/kvm/new.c\n@@ -0,0 +1 @@\n+x\n";
        assert_eq!(
            parse(text).unwrap().files,
            [PathBuf::from("virt/kvm/new.c")]
        );
        let text = "diff --git a/virt/kvm/a.c b/virt/kvm/b.c\nrename from virt/kvm/a.c\nrename to virt/kvm/b.c\n";
        assert_eq!(
            parse(text).unwrap().files,
            ["virt/kvm/a.c", "virt/kvm/b.c"].map(PathBuf::from)
        );
    }

    #[test]
    fn a_patch_of_the_kernels_image_is_refused() {
        for file in [
            "kernel/sched/core.c",
            "arch/x86/kernel/kvm.c",
            "virt/kvm/../../x.c",
            "virt/lib/irqbypass.c",
        ] {
            let error = parse(&diff(file)).unwrap_err();
            assert!(
                error.starts_with(&format!(
                    "a.patch changes {file}, which is in the kernel's image"
                )),
                "{error}"
            );
        }
    }

    #[test]
    fn what_is_not_a_patch_is_refused_and_an_empty_one_changes_nothing() {
        for text in ["hello\n", "--- a\n+++ b\n", "1c1\n< x\n---\n> y\n"] {
            assert_eq!(
                parse(text).unwrap_err(),
                "a.patch is not a patch: it has no changes in the unified format"
            );
        }
        assert_eq!(parse("").unwrap().files, [""; 0].map(PathBuf::from));
    }

    #[test]
    fn a_patch_that_names_files_without_a_folder_before_them_is_refused() {
        let error = parse("--- virt/kvm/eventfd.c\n+++ virt/kvm/eventfd.c\n@@ -1 +1 @@\n");
        assert_eq!(
            error.unwrap_err(),
            "a.patch names virt/kvm/eventfd.c without a folder before it, such as a/ and b/: make it with git diff"
        );
    }

    #[test]
    fn patches_of_which_no_module_is_built_are_refused_together() {
        let require = |files: &[&str], build| {
            let parse =
                |file| Patch::parse(Path::new("a.patch"), diff(file).as_bytes(), build).unwrap();
            let changes = ReadChanges {
                source: None,
                patches: files.iter().map(|file| parse(file)).collect(),
            };
            let required = changes.require_some(build);
            required.map_err(|error| error.to_string())
        };
        let (vmx, svm) = ("arch/x86/kvm/vmx/vmx.c", "arch/x86/kvm/svm/svm.c");
        for build in [AMD, INTEL] {
            require(&[vmx, svm], build).unwrap();
            require(&[], build).unwrap();
        }
        assert_eq!(
            require(&["tools/a.c", vmx], AMD).unwrap_err(),
            "a.patch changes tools/a.c, and no patch changes what the lab builds: kvm and kvm-amd, for a CPU with AMD's SVM"
        );
        assert_eq!(
            require(&[svm], INTEL).unwrap_err(),
            "a.patch changes arch/x86/kvm/svm/svm.c, and no patch changes what the lab builds: kvm and kvm-intel, for a CPU with Intel's VMX"
        );
    }

    #[test]
    fn a_source_is_taken_without_what_a_build_leaves() {
        let root = tempfile::tempdir().unwrap();
        let error = source_of(root.path(), "6.12.1").unwrap_err().to_string();
        assert!(
            error.ends_with("is not a kernel's source: it has no arch/x86/kvm"),
            "{error}"
        );
        for file in [
            "arch/x86/kvm/svm/svm.c",
            "arch/x86/kvm/svm/svm.o",
            "arch/x86/kvm/kvm.mod.c",
            "arch/x86/kvm/Makefile",
            "virt/kvm/Makefile.kvm",
            "arch/x86/include/asm/svm.h",
            "arch/x86/include/asm/apic.h",
            "include/linux/kvm_host.h",
            "include/linux/sched.h",
        ] {
            let path = root.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, file).unwrap();
        }
        let files = source_of(root.path(), "6.12.1").unwrap();
        let names: Vec<&str> = files.keys().map(|path| path.to_str().unwrap()).collect();
        assert_eq!(
            names,
            [
                "arch/x86/include/asm/svm.h",
                "arch/x86/kvm/Makefile",
                "arch/x86/kvm/svm/svm.c",
                "include/linux/kvm_host.h",
                "virt/kvm/Makefile.kvm",
            ]
        );
        let makefile = "VERSION = 6\nPATCHLEVEL = 1\nSUBLEVEL = 2\n";
        fs::write(root.path().join("Makefile"), makefile).unwrap();
        source_of(root.path(), "6.1.0-56-cloud-amd64").unwrap();
        let error = source_of(root.path(), "6.12.1+deb13")
            .unwrap_err()
            .to_string();
        assert!(
            error.ends_with("is the source of Linux 6.1, and the kernel is Linux 6.12.1+deb13"),
            "{error}"
        );
    }

    #[test]
    fn each_change_of_the_input_changes_the_digest() {
        let changes = |source: Option<&str>, patches: &[&str]| {
            let source = source.map(|text| BTreeMap::from([(PathBuf::from("a.c"), text.into())]));
            let patches = patches.iter().map(|text| Patch {
                text: (*text).into(),
                ..Patch::default()
            });
            ReadChanges {
                source,
                patches: patches.collect(),
            }
            .digest()
        };
        let all = [
            changes(None, &[""]),
            changes(None, &["a"]),
            changes(None, &["a", "b"]),
            changes(None, &["b", "a"]),
            changes(Some("x"), &[]),
            changes(Some("y"), &[]),
            changes(Some("y"), &["a"]),
        ];
        let different: std::collections::BTreeSet<&String> = all.iter().collect();
        assert_eq!(different.len(), all.len());
    }
}
