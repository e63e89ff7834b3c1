use super::*;
use crate::arch::Arch;

const ARCH: &str = "x86_64";

#[test]
fn this_test_needs_its_loader_and_the_c_library() {
    let program = std::env::current_exe().unwrap();
    let closure = Closure::of(&program, ARCH, &LibrarySearch::host(Arch::X86_64.triplet)).unwrap();
    let names: Vec<_> = closure
        .files
        .iter()
        .map(|path| path.file_name().unwrap().to_str().unwrap())
        .collect();
    assert!(names.contains(&Arch::X86_64.loader), "{names:?}");
    assert!(names.contains(&"libc.so.6"), "{names:?}");
    assert!(closure.files.iter().all(|path| path.is_absolute()));
}

#[test]
fn a_missing_library_is_named_with_the_way_around() {
    let program = std::env::current_exe().unwrap();
    let error = Closure::of(&program, ARCH, &LibrarySearch::default())
        .and_then(|closure| closure.whole(ARCH))
        .unwrap_err()
        .to_string();
    assert!(
        error.contains(" needs lib") && error.contains("crt-static"),
        "{error}"
    );
}

#[test]
fn scripts_and_other_files_are_refused_each_with_its_reason() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("program");
    let refuse = |content: &[u8]| {
        std::fs::write(&path, content).unwrap();
        Closure::of(&path, ARCH, &LibrarySearch::default())
            .unwrap_err()
            .to_string()
    };
    assert!(refuse(b"#!/bin/sh -e\nexit 1\n").contains("-- /bin/sh -e "));
    assert!(refuse(b"").ends_with("is not an ELF program for x86_64: it is empty"));
    assert!(refuse(b"\x7fELF\x01\x01").ends_with("it is a 32-bit ELF"));
    assert!(refuse(b"\x7fELF\x02\x01").ends_with("it is a broken ELF"));
    assert!(refuse(b"plain text").ends_with("it is something else"));
}

#[test]
fn another_architecture_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("program");
    let mut elf = std::fs::read(std::env::current_exe().unwrap()).unwrap();
    elf[18] = 183;
    std::fs::write(&path, elf).unwrap();
    let error = Closure::of(&path, ARCH, &LibrarySearch::default())
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("program is a program for aarch64, and L1 is x86_64: build it for x86_64"),
        "{error}"
    );
}

#[test]
fn a_dynamic_program_whose_loader_is_not_here_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("program");
    let mut elf = std::fs::read(std::env::current_exe().unwrap()).unwrap();
    let loader = Arch::X86_64.loader.as_bytes();
    let place = elf.windows(loader.len()).position(|name| name == loader);
    elf[place.unwrap()] = b'x';
    std::fs::write(&path, elf).unwrap();
    let error = Closure::of(&path, ARCH, &LibrarySearch::default())
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("and its loader /lib64/xd-linux-x86-64.so.2 is not on this machine"),
        "{error}"
    );
}

#[test]
fn the_origin_is_the_folder_of_the_object() {
    let object = std::env::current_exe().unwrap().canonicalize().unwrap();
    assert_eq!(
        expand("$ORIGIN/../lib", &object),
        object.parent().unwrap().join("../lib")
    );
    assert_eq!(expand("${ORIGIN}", &object), object.parent().unwrap());
    assert_eq!(expand("/opt/lib", &object), Path::new("/opt/lib"));
}

#[test]
fn a_library_has_the_libraries_that_it_needs() {
    let search = LibrarySearch::host(Arch::X86_64.triplet);
    let names = ["libm.so.6", "libgcc_s.so.1"];
    let folders = search.system.iter();
    let path = folders
        .flat_map(|folder| names.map(|name| folder.join(name)))
        .find(|path| path.exists());
    let closure = Closure::of(&path.unwrap(), ARCH, &search).unwrap();
    let has_libc = |path: &PathBuf| path.ends_with("libc.so.6");
    assert!(closure.files.iter().any(has_libc), "{closure:?}");
}

#[test]
fn a_folder_without_a_slash_at_its_front_is_in_the_working_directory() {
    let system = LibrarySearch::host(Arch::X86_64.triplet).system;
    let program = std::env::current_exe().unwrap();
    for (environment, directory) in [("lib", ""), ("", "lib")] {
        let folder = tempfile::tempdir().unwrap();
        let lib = folder.path().join("lib");
        std::fs::create_dir(&lib).unwrap();
        let libc = system.iter().map(|folder| folder.join("libc.so.6"));
        let libc = libc.into_iter().find(|path| path.exists()).unwrap();
        std::fs::copy(libc, lib.join("libc.so.6")).unwrap();
        let search = LibrarySearch {
            directory: folder.path().join(directory),
            environment: vec![environment.into()],
            system: system.clone(),
        };
        let closure = Closure::of(&program, ARCH, &search).unwrap();
        let found = closure
            .files
            .iter()
            .find(|path| path.ends_with("libc.so.6"));
        assert_eq!(found.unwrap(), &lib.join("libc.so.6"));
    }
}
