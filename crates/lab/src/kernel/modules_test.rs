use super::*;

/// Makes a relocatable ELF with nothing but `.modinfo`.
fn module(depends: &str) -> Vec<u8> {
    let info =
        format!("license=GPL\0parmtype=vnmi:bool\0parmtype=avic:bool\0depends={depends}\0name=x\0")
            .into_bytes();
    let names = b"\0.modinfo\0.shstrtab\0";
    let mut elf = vec![0; 64];
    elf[..20].copy_from_slice(&[
        0x7f, b'E', b'L', b'F', 2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 62, 0,
    ]);
    elf[20] = 1;
    let (info_at, names_at) = (elf.len() as u64, (elf.len() + info.len()) as u64);
    elf.extend(&info);
    elf.extend(names);
    elf.resize(elf.len().next_multiple_of(8), 0);
    let table = elf.len() as u64;
    elf[0x28..0x30].copy_from_slice(&table.to_le_bytes());
    elf[0x34] = 64;
    elf[0x3a] = 64;
    elf[0x3c] = 3;
    elf[0x3e] = 2;
    elf.extend([0; 64]);
    for (name, kind, offset, size) in [
        (1_u32, 1_u32, info_at, info.len()),
        (10, 3, names_at, names.len()),
    ] {
        let start = elf.len();
        elf.extend([0; 64]);
        elf[start..start + 4].copy_from_slice(&name.to_le_bytes());
        elf[start + 4..start + 8].copy_from_slice(&kind.to_le_bytes());
        elf[start + 24..start + 32].copy_from_slice(&offset.to_le_bytes());
        elf[start + 32..start + 40].copy_from_slice(&(size as u64).to_le_bytes());
    }
    elf
}

fn tree(modules: &[(&str, &str)]) -> (tempfile::TempDir, ModuleTree) {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("kernel")).unwrap();
    for (name, depends) in modules {
        fs::write(
            folder.path().join("kernel").join(format!("{name}.ko")),
            module(depends),
        )
        .unwrap();
    }
    fs::write(
        folder.path().join("modules.builtin"),
        "kernel/drivers/virtio/virtio-pci.ko\n",
    )
    .unwrap();
    let tree = ModuleTree::open(folder.path(), "6").unwrap();
    (folder, tree)
}

fn names(modules: &[KernelModule]) -> Vec<&str> {
    modules.iter().map(|module| module.name.as_str()).collect()
}

#[test]
fn dependencies_come_before_what_needs_them_and_only_once() {
    let (_folder, tree) = tree(&[
        ("kvm-amd", "kvm,ccp"),
        ("kvm", "irqbypass"),
        ("ccp", ""),
        ("irqbypass", ""),
        ("other", ""),
    ]);
    let order = tree.load_order(&["kvm-amd", "kvm"]).unwrap();
    assert_eq!(names(&order), ["irqbypass", "kvm", "ccp", "kvm_amd"]);
}

#[test]
fn a_builtin_module_is_there_already() {
    let (_folder, tree) = tree(&[("a", "virtio_pci")]);
    assert_eq!(
        names(&tree.load_order(&["a", "virtio-pci"]).unwrap()),
        ["a"]
    );
}

#[test]
fn a_circle_ends() {
    let (_folder, tree) = tree(&[("a", "b"), ("b", "a")]);
    assert_eq!(names(&tree.load_order(&["a"]).unwrap()), ["b", "a"]);
}

#[test]
fn a_missing_module_and_a_missing_folder_are_named() {
    let (folder, tree) = tree(&[("a", "gone")]);
    let error = tree.load_order(&["a"]).unwrap_err();
    assert_eq!(
        error.to_string(),
        format!("module gone is not in {}", folder.path().display())
    );
    let error = ModuleTree::open(Path::new("/nonexistent"), "6.1").unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with("no modules of Linux 6.1 in /nonexistent: name their folder"),
        "{error}"
    );
}

#[test]
fn a_module_that_is_no_object_is_refused() {
    let (folder, tree) = tree(&[("a", "")]);
    fs::write(folder.path().join("kernel/a.ko"), "text").unwrap();
    let error = tree.load_order(&["a"]).unwrap_err().to_string();
    assert!(error.ends_with("a.ko is not an ELF object"), "{error}");
    fs::remove_file(folder.path().join("kernel/a.ko")).unwrap();
    fs::write(
        folder.path().join("kernel/a.ko.xz"),
        b"\xfd7zXZ\0 and no more",
    )
    .unwrap();
    let tree = ModuleTree::open(folder.path(), "6").unwrap();
    let error = tree.load_order(&["a"]).unwrap_err().to_string();
    assert!(
        error.starts_with("cannot decompress the module in"),
        "{error}"
    );
}

#[test]
fn a_signature_is_cut_off_and_nothing_else() {
    let plain = module("");
    let mut signed = plain.clone();
    signed.extend([7; 100]);
    signed.extend([0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 100]);
    signed.extend(b"~Module signature appended~\n");
    assert_eq!(without_signature(signed.clone()), plain);
    assert_eq!(without_signature(plain.clone()), plain);
    // A length that reaches beyond the start of the file is ignored.
    let mut broken = signed;
    let at = broken.len() - 28 - 4;
    broken[at..at + 4].copy_from_slice(&[0xff; 4]);
    assert_eq!(without_signature(broken.clone()), broken);
}

#[test]
fn the_parameters_of_a_module_are_known_unless_it_is_built_in() {
    let (_folder, tree) = tree(&[("kvm-amd", "")]);
    let names = ["avic", "vnmi"].map(str::to_owned);
    assert_eq!(tree.parameters("kvm_amd").unwrap().unwrap(), names);
    assert_eq!(tree.parameters("virtio_pci").unwrap(), None);
    tree.parameters("kvm").unwrap_err();
}
