use super::*;

const RELEASE: &str = "6.12.118+deb13-cloud-amd64";
const FILE: &str = "virt/kvm/eventfd.c";
const HEADER: &str = "include/linux/kvm_host.h";

fn tools(root: &Path, release: &Release) -> Tools {
    let headers = root.join("usr/src").join(release.headers());
    let common = common(root, release);
    for (path, text) in [
        (
            headers.join(".kernelvariables"),
            "CC = $(CROSS_COMPILE)gcc-14\n",
        ),
        (
            headers.join("Makefile"),
            "include /usr/src/common/Makefile\n",
        ),
        (common.join(FILE), "package's\n"),
        (common.join(HEADER), "package's\n"),
        (common.join("arch/x86/kvm/x86.c"), "package's\n"),
    ] {
        write(&path, text.as_bytes()).unwrap();
    }
    Tools::open(root.to_path_buf(), release).unwrap()
}

fn text(path: &Path) -> Option<String> {
    fs::read_to_string(path).ok()
}

#[test]
fn a_change_is_put_back_by_the_next_and_never_reaches_the_package() {
    let folder = tempfile::tempdir().unwrap();
    let release = Release::parse(RELEASE, "amd64").unwrap();
    let tools = tools(&folder.path().join("files"), &release);
    let place = folder.path().join("tree");
    let tree = KvmTree::open(place.clone(), &tools, &release).unwrap();
    let source = common(&place, &release);
    let makefile = text(&tools.headers.folder_in(&place).join("Makefile")).unwrap();
    let moved = format!("include {}/usr/src/common/Makefile\n", place.display());
    assert_eq!(makefile, moved);
    let new = Path::new("virt/kvm/new.c");
    let first = ChangedFiles::from([
        (FILE.into(), Some(b"mine\n".to_vec())),
        (new.into(), Some(b"new\n".to_vec())),
        (HEADER.into(), None),
    ]);
    tree.set(&first).unwrap();
    assert_eq!(text(&source.join(FILE)).as_deref(), Some("mine\n"));
    assert_eq!(text(&source.join(new)).as_deref(), Some("new\n"));
    assert_eq!(text(&source.join(HEADER)), None);
    let package = common(&tools.root, &release);
    assert_eq!(text(&package.join(FILE)).as_deref(), Some("package's\n"));
    assert_eq!(text(&package.join(HEADER)).as_deref(), Some("package's\n"));

    let time = |name: &str| fs::metadata(source.join(name)).unwrap().modified().unwrap();
    let before = time(FILE);
    tree.set(&ChangedFiles::from([(
        FILE.into(),
        Some(b"mine\n".to_vec()),
    )]))
    .unwrap();
    assert_eq!(time(FILE), before, "make builds only what differs");
    assert_eq!(text(&source.join(new)), None);
    assert_eq!(text(&source.join(HEADER)).as_deref(), Some("package's\n"));
    tree.set(&ChangedFiles::new()).unwrap();
    assert_eq!(text(&source.join(FILE)).as_deref(), Some("package's\n"));
    assert!(time(FILE) > before, "make builds it again");
}

#[test]
fn a_build_that_was_killed_is_begun_anew() {
    let folder = tempfile::tempdir().unwrap();
    let release = Release::parse(RELEASE, "amd64").unwrap();
    let tools = tools(&folder.path().join("files"), &release);
    let place = folder.path().join("tree");
    let object = common(&place, &release).join("virt/kvm/eventfd.o");
    let tree = KvmTree::open(place.clone(), &tools, &release).unwrap();
    write(&object, b"whole").unwrap();
    KvmTree::open(place.clone(), &tools, &release).unwrap();
    assert!(object.exists(), "what was built is kept");
    tree.mark().unwrap();
    KvmTree::open(place, &tools, &release).unwrap();
    assert!(!object.exists());
}

#[test]
fn a_source_replaces_the_packages_whole_kvm() {
    let folder = tempfile::tempdir().unwrap();
    let release = Release::parse(RELEASE, "amd64").unwrap();
    let tools = tools(&folder.path().join("files"), &release);
    let tree = KvmTree::open(folder.path().join("tree"), &tools, &release).unwrap();
    let source = BTreeMap::from([
        (FILE.into(), b"mine\n".to_vec()),
        (HEADER.into(), b"package's\n".to_vec()),
    ]);
    let changes = ReadChanges {
        source: Some(source),
        patches: Vec::new(),
    };
    let changed = tree.changed(&changes, folder.path()).unwrap();
    let expected = ChangedFiles::from([
        (FILE.into(), Some(b"mine\n".to_vec())),
        ("arch/x86/kvm/x86.c".into(), None),
    ]);
    assert_eq!(changed, expected);
}

#[test]
fn an_error_of_the_compiler_names_the_file_in_the_source() {
    let text =
        "/t/arch/x86/kvm/../../../virt/kvm/a.c:2:1: error: x; /t/arch/x86/kvm/b.c:1:1: error: y";
    assert_eq!(
        in_the_source(text, Path::new("/t")),
        "virt/kvm/a.c:2:1: error: x; arch/x86/kvm/b.c:1:1: error: y"
    );
}

#[test]
fn a_failure_names_the_files_and_the_hunks() {
    let text = "patching file virt/kvm/eventfd.c\nHunk #1 succeeded at 9 (offset 2 lines).\n\
                Hunk #2 FAILED at 12.\n1 out of 2 hunks FAILED\npatching file 'a b.c'\nHunk #1 FAILED at 1.\n";
    let said = "virt/kvm/eventfd.c: Hunk #2 FAILED at 12; a b.c: Hunk #1 FAILED at 1";
    assert_eq!(failed_hunks(text), said);
    let text = "patch: **** malformed patch at line 5: x\n";
    assert_eq!(failed_hunks(text), "malformed patch at line 5: x");
    let text = "patching file a.c\nReversed (or previously applied) patch detected!  Skipping patch.\n1 out of 1 hunk ignored\n";
    let said = "Reversed (or previously applied) patch detected!  Skipping patch.";
    assert_eq!(failed_hunks(text), said);
    assert_eq!(failed_hunks("a\nb\n"), "b");
}
