use clap::CommandFactory;

use super::*;
use crate::cli::Cli;

fn inner(line: &[&str]) -> Inner {
    let words: Vec<OsString> = line.iter().map(OsString::from).collect();
    Inner::of(&words, &Cli::command()).unwrap().unwrap()
}

fn words(line: &[&str], defaults: &[(&str, &str)], replaced: &[(&str, &str)]) -> Vec<OsString> {
    let replaced: Vec<_> = replaced
        .iter()
        .map(|(name, value)| (*name, OsString::from(value)))
        .collect();
    inner(line).words(defaults, &replaced)
}

#[test]
fn only_the_word_vmbell_and_a_path_of_this_file_are_this_program() {
    let own = env::current_exe().unwrap();
    assert!(is_this_program("vmbell".as_ref()) && is_this_program(own.as_os_str()));
    let name = own.file_name().unwrap();
    for other in ["/bin/true", "vmbell2", "/no/such/vmbell"] {
        assert!(!is_this_program(other.as_ref()), "{other}");
    }
    assert!(!is_this_program(name), "a name that is searched on PATH");
}

#[test]
fn options_that_the_user_gives_are_kept_and_defaults_fill_in_the_others() {
    let line = [
        "vmbell", "bench", "vmms", "--ops", "7", "qemu-pc", "--ratios",
    ];
    assert_eq!(
        words(&line, &[("ops", "20"), ("runs", "1")], &[]),
        [
            "bench", "vmms", "--runs=1", "--ops=7", "--ratios", "--", "qemu-pc"
        ]
    );
}

#[test]
fn exports_get_their_paths_in_l1_and_stdout_stays() {
    let line = [
        "vmbell",
        "bench",
        "portio-*",
        "--export-json=a.json",
        "--export-csv",
        "-",
    ];
    let exports = inner(&line).exports();
    let paths = [("export-json", "a.json"), ("export-csv", "-")];
    let exports: Vec<_> = exports
        .into_iter()
        .map(|(exporter, path)| (exporter.option, path))
        .collect();
    assert_eq!(exports, paths.map(|(name, path)| (name, path.into())));
    assert_eq!(
        words(&line, &[], &[("export-json", "/out/export-json")]),
        [
            "bench",
            "--export-json=/out/export-json",
            "--export-csv=-",
            "--",
            "portio-*"
        ]
    );
}

#[test]
fn commands_that_measure_nothing_keep_their_words_and_take_the_files_that_they_name() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let path = file.path().to_str().unwrap();
    let line = [
        "vmbell",
        "run",
        path,
        "--initrd",
        "/no/such/initrd",
        "-m",
        "64M",
    ];
    assert_eq!(words(&line, &[("runs", "1")], &[]), line[1..]);
    assert_eq!(inner(&line).files(), [file.path()]);
}

#[test]
fn arguments_that_are_wrong_and_help_are_found_here() {
    let error = |line: &[&str]| {
        let words: Vec<OsString> = line.iter().map(OsString::from).collect();
        Inner::of(&words, &Cli::command()).unwrap_err().exit_code()
    };
    assert_eq!(error(&["vmbell", "bench", "--ops", "0"]), 2);
    assert_eq!(error(&["vmbell", "bench", "vmms", "--help"]), 0);
    assert_eq!(error(&["vmbell"]), 2);
}
