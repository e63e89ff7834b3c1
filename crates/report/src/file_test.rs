//! Tests of exports to files.

use super::*;

#[test]
fn a_file_is_replaced_whole_and_nothing_is_left_beside_it() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("out.json");
    fs::write(&path, "old").unwrap();
    let export = Export::open(&path).unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), "old");
    export.finish("new").unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), "new");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
}

#[test]
fn an_export_that_is_not_finished_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    drop(Export::open(&dir.path().join("out.json")).unwrap());
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn an_absent_directory_is_an_error_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let error = Export::open(&dir.path().join("no/out.json")).unwrap_err();
    assert!(matches!(error, ExportError::Open { .. }), "{error}");
    // The error does not mention the hidden temporary file, which the user has not named.
    let source = std::error::Error::source(&error).unwrap().to_string();
    assert_eq!(source, "No such file or directory (os error 2)");
    let error = Export::open(dir.path()).unwrap_err();
    assert!(matches!(error, ExportError::Directory(_)), "{error}");
}

#[test]
fn a_device_is_written_to_and_not_replaced() {
    let export = Export::open(Path::new("/dev/null")).unwrap();
    assert!(matches!(export.to, ExportTarget::Direct(_)));
    export.finish("text").unwrap();
}

#[test]
fn a_link_keeps_pointing_where_it_does() {
    let dir = tempfile::tempdir().unwrap();
    let (target, link) = (dir.path().join("target"), dir.path().join("link"));
    fs::write(&target, "old").unwrap();
    std::os::unix::fs::symlink(&target, &link).unwrap();
    Export::open(&link).unwrap().finish("new").unwrap();
    assert_eq!(fs::read_to_string(&target).unwrap(), "new");
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
}

#[test]
fn a_link_to_nothing_yet_stays_one() {
    let dir = tempfile::tempdir().unwrap();
    let [target, link, second] = ["target", "link", "second"].map(|name| dir.path().join(name));
    std::os::unix::fs::symlink("target", &link).unwrap();
    std::os::unix::fs::symlink(&link, &second).unwrap();
    Export::open(&second).unwrap().finish("new").unwrap();
    assert_eq!(fs::read_to_string(&target).unwrap(), "new");
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert!(fs::symlink_metadata(&second).unwrap().is_symlink());
    let circle = dir.path().join("circle");
    std::os::unix::fs::symlink("circle", &circle).unwrap();
    assert!(Export::open(&circle).is_err());
}

#[test]
fn an_export_has_no_name_before_its_end() {
    let dir = tempfile::tempdir().unwrap();
    let export = Export::open(&dir.path().join("out.json")).unwrap();
    // If the process is killed now, it leaves nothing behind.
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    export.finish("text").unwrap();
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
}

#[test]
fn a_file_system_that_needs_names_has_whole_exports_too() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("out.json");
    for text in ["old", "new"] {
        let by = Temporary::Named(names().tempfile_in(dir.path()).unwrap());
        by.become_file(&path, text).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), text);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }
}

#[test]
fn a_dash_is_stdout() {
    assert!(Export::open(Path::new("-")).unwrap().is_stdout());
}

#[test]
fn what_a_killed_process_of_the_same_number_left_is_no_obstacle() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("out.json");
    let left = dir
        .path()
        .join(format!(".out.json.{}.tmp", std::process::id()));
    fs::write(&left, "half").unwrap();
    let (first, second) = (Export::open(&path).unwrap(), Export::open(&path).unwrap());
    first.finish("first").unwrap();
    second.finish("second").unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), "second");
    assert_eq!(fs::read_to_string(&left).unwrap(), "half");
}

#[test]
fn the_longest_name_of_a_file_is_one_of_an_export() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x".repeat(255));
    Export::open(&path).unwrap().finish("text").unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), "text");
}

#[test]
fn other_users_may_read_an_export_as_any_new_file() {
    let dir = tempfile::tempdir().unwrap();
    let (ordinary, export) = (dir.path().join("ordinary"), dir.path().join("export"));
    fs::write(&ordinary, "").unwrap();
    Export::open(&export).unwrap().finish("").unwrap();
    let mode = |path| fs::metadata(path).unwrap().permissions().mode();
    assert_eq!(mode(&export), mode(&ordinary));
}

#[test]
fn an_export_over_a_file_keeps_its_permissions() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("out.json");
    for mode in [0o600, 0o664] {
        fs::write(&path, "old").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        Export::open(&path).unwrap().finish("new").unwrap();
        let found = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(found & 0o777, mode);
        let by = Temporary::Named(names().tempfile_in(dir.path()).unwrap());
        by.become_file(&path, "newer").unwrap();
        let found = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(found & 0o777, mode);
    }
}

#[test]
fn an_error_has_the_users_path_alone() {
    // A file system that does not support files without a name.
    let path = Path::new("/proc/vmbell-export");
    let error = Export::open(path).unwrap_err();
    let source = std::error::Error::source(&error).unwrap();
    let text = format!("{error}: {source}");
    assert!(
        text.contains("/proc/vmbell-export") && !text.contains(".vmbell-"),
        "{text}"
    );
}
