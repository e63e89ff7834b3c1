//! `vmbell run`: what is refused before a guest runs. Tests that run guests are in `tests/pc`.

use predicates::prelude::*;
use predicates::str::contains;

use super::common::vmbell;

#[test]
fn image_problems_name_file_and_way_out_and_are_no_guests_status() {
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("script.flat");
    std::fs::write(&script, "#!/bin/sh\n").unwrap();
    let cases = [
        (
            "/nowhere/vmexit.flat",
            "/nowhere/vmexit.flat: cannot read the image",
        ),
        (
            script.to_str().unwrap(),
            "neither an ELF nor a bzImage, and no multiboot header",
        ),
        ("/bin/true", "/bin/true: an ELF without a multiboot header"),
        ("/dev/zero", "/dev/zero: neither an ELF nor a bzImage"),
    ];
    for (image, message) in cases {
        vmbell(&["run", image])
            .assert()
            .code(126)
            .stdout("")
            .stderr(contains(message));
    }
}

#[test]
fn files_that_are_not_there_are_named() {
    // This counts as an image: it has a header with addresses, and nothing after it.
    let folder = tempfile::tempdir().unwrap();
    let image = folder.path().join("empty.flat");
    let header = [
        0x1bad_b002_u32,
        1 << 16,
        0_u32.wrapping_sub(0x1bad_b002 + (1 << 16)),
        0x10_0000,
        0x10_0000,
        0,
        0,
        0x10_0000,
    ];
    let bytes: Vec<u8> = header.iter().flat_map(|word| word.to_le_bytes()).collect();
    std::fs::write(&image, bytes).unwrap();
    vmbell(&["run", image.to_str().unwrap(), "--env", "/nowhere/env"])
        .assert()
        .code(126)
        .stderr(contains("cannot read environment file /nowhere/env"));
    let initrd = folder.path().join("initrd");
    let file = std::fs::File::create(&initrd).unwrap();
    // The second module's name has a comma.
    let modules = format!("{} a b,/nowhere/c,,d e", initrd.display());
    vmbell(&["run", image.to_str().unwrap(), "--initrd", &modules])
        .assert()
        .code(126)
        .stderr(contains("cannot read module /nowhere/c,d: "));
    // The file of zeros is refused before it is read, because it could use up the host's memory.
    let more = "give it more (--memory)";
    for (memory, len, advice) in [
        ("8M", 8 << 20, more),
        ("8M", 1 << 40, "no machine has more than"),
        ("16M", 16 << 20, more),
    ] {
        file.set_len(len).unwrap();
        vmbell(&["run", "--memory", memory, "--initrd"])
            .args([&initrd, &image])
            .assert()
            .code(126)
            .stderr(contains("does not fit into the machine's memory of").and(contains(advice)));
    }
}

#[test]
fn help_has_examples_and_the_meaning_of_the_status() {
    vmbell("run --help").assert().success().stdout(
        contains("--device pci-testdev")
            .and(contains("at most 64"))
            .and(contains("--cpu-features -x2apic"))
            .and(contains("vmbell lab -- vmbell run"))
            .and(contains("2N+1")),
    );
    vmbell("man run")
        .assert()
        .success()
        .stdout(contains("pci\\-testdev"));
    vmbell("completions bash")
        .assert()
        .success()
        .stdout(contains("--device"));
}
