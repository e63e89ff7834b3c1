use super::*;
use crate::gate::args::tests::args;
use crate::gate::plan::tests::plan;

/// What is wrong with this plan of a VMM `mine`.
fn wrong(keys: &str, mine: &str, words: &str) -> String {
    let text = format!("kernels = [\"debian:6.12\"]\n{keys}\n[vmm.mine]\n{mine}\n");
    let plan = plan(&text);
    check(
        &plan,
        &plan.machines(&args("").unwrap()).unwrap(),
        &args(words).unwrap(),
    )
    .err()
    .unwrap_or_default()
}

#[test]
fn a_mistake_is_told_where_it_was_made() {
    let absent = "no-such-vmm is not on PATH";
    let command = "command = \"no-such-vmm {image}\"";
    for (keys, mine, words, told) in [
        ("", "command = \"/bin/true {image}\"", "", ""),
        ("", command, "", "vmbell-gate.toml: [vmm.mine]: "),
        (
            "",
            command,
            "--vmm other=x",
            "vmbell-gate.toml: [vmm.mine]: ",
        ),
        ("", command, "--vmm mine=x", "--vmm mine: "),
        ("", command, "--init --vmm mine=x", "--vmm mine: "),
        ("", command, "--init", absent),
        (
            "virtio = [\"rgn\"]",
            command,
            "",
            "vmbell-gate.toml: virtio: ",
        ),
        ("virtio = [\"rgn\"]", command, "--init", "--virtio: "),
        (
            "rows = [\"cpiud\"]",
            command,
            "",
            "vmbell-gate.toml: rows: 'cpiud'",
        ),
        ("rows = [\"cpiud\"]", command, "--init", "--rows: 'cpiud'"),
        (
            "cpus = [\"intle\"]",
            command,
            "",
            "vmbell-gate.toml: cpus: intle: unknown CPU, did you mean 'intel'?",
        ),
        (
            "rows = [\"virtio-net-eoi\"]",
            command,
            "",
            "vmbell-gate.toml: rows: ",
        ),
        (
            "rows = [\"virtio-net-eoi\"]\nvirtio = [\"net\"]",
            command,
            "",
            "vmbell-gate.toml: [vmm.mine]: ",
        ),
    ] {
        let error = wrong(keys, mine, words);
        assert!(error.starts_with(told), "{told}: {error}");
        assert_eq!(error.is_empty(), told.is_empty(), "{error}");
    }
}

#[test]
fn files_that_the_lab_needs_are_on_this_host() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path().join("a:b");
    std::fs::write(&here, "").unwrap();
    let (here, folder) = (here.display(), folder.path().display());
    for (files, absent) in [
        (format!("\"{folder}\""), None),
        (format!("\"{folder}:/in/the/lab\""), None),
        (format!("\"{here}\""), None),
        (format!("\"{folder}\", \"absent\""), Some("absent")),
        (
            "\"absent:/in/the/lab\"".to_owned(),
            Some("absent:/in/the/lab"),
        ),
    ] {
        let mine = format!("command = \"/bin/true {{image}}\"\nwith = [{files}]");
        let told = absent
            .map(|file| format!("vmbell-gate.toml: [vmm.mine]: with: there is no file {file}"));
        assert_eq!(wrong("", &mine, ""), told.unwrap_or_default(), "{files}");
    }
    // A copied file may be the program.
    let mine =
        format!("command = \"no-such-vmm {{image}}\"\nwith = [\"{folder}:/usr/bin/no-such-vmm\"]");
    assert_eq!(wrong("", &mine, ""), "");
}

#[test]
fn a_kernel_is_debians_or_a_file() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let path = file.path().to_str().unwrap();
    for (name, told) in [
        ("debian:6.12", None),
        (path, None),
        ("debian:six", Some("debian:six: ")),
        (
            "debain:6.12",
            Some("debain:6.12: there is no such file, did you mean 'debian:6.12'?"),
        ),
    ] {
        let error = kernel(name).err();
        assert_eq!(error.is_some(), told.is_some(), "{error:?}");
        let error = error.unwrap_or_default();
        assert!(error.starts_with(told.unwrap_or_default()), "{error}");
    }
}
