use std::os::unix::fs::symlink;

use super::*;

fn listing(bytes: &[u8]) -> Vec<(String, u32, Vec<u8>)> {
    let mut rest = bytes;
    let mut list = Vec::new();
    loop {
        let mut reader = cpio::newc::Reader::new(rest).unwrap();
        if reader.entry().is_trailer() {
            return list;
        }
        let mut content = Vec::new();
        io::Read::read_to_end(&mut reader, &mut content).unwrap();
        list.push((
            reader.entry().name().to_owned(),
            reader.entry().mode(),
            content,
        ));
        rest = reader.finish().unwrap();
    }
}

fn build(fill: impl FnOnce(&mut Archive<Vec<u8>>) -> Result<(), LabError>) -> Vec<u8> {
    let mut archive = Archive::new(Vec::new());
    fill(&mut archive).unwrap();
    archive.finish().unwrap()
}

#[test]
fn folders_come_before_files_and_everything_once() {
    let bytes = build(|archive| {
        archive.file(Path::new("/a/b/c"), 0o755, b"one")?;
        archive.file(Path::new("/a/b/c"), 0o755, b"two")?;
        archive.folder(Path::new("/a/b"))?;
        archive.link(Path::new("/a/l"), Path::new("b/c"))?;
        archive.character_device(Path::new("/dev/console"), 5, 1)
    });
    let list = listing(&bytes);
    let names: Vec<_> = list.iter().map(|(name, ..)| name.as_str()).collect();
    assert_eq!(names, ["a", "a/b", "a/b/c", "a/l", "dev", "dev/console"]);
    assert_eq!(list[2], ("a/b/c".into(), 0o100_755, b"one".to_vec()));
    assert_eq!(list[3], ("a/l".into(), 0o120_777, b"b/c".to_vec()));
    assert_eq!(list[5].1, 0o020_600);
}

#[test]
fn another_archive_can_follow() {
    let first = build(|archive| archive.file(Path::new("x"), 0o644, b"12345"));
    assert_eq!(
        first.len() % 4,
        0,
        "the kernel looks for the next archive at a multiple of four"
    );
}

#[test]
fn a_path_keeps_the_links_that_lead_to_it() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    fs::create_dir_all(root.join("usr/lib")).unwrap();
    fs::write(root.join("usr/lib/libx.so.1.2"), "x").unwrap();
    symlink("libx.so.1.2", root.join("usr/lib/libx.so.1")).unwrap();
    symlink("usr/lib", root.join("lib")).unwrap();
    let bytes = build(|archive| archive.host_path(&root.join("lib/libx.so.1")));
    let inside = root.strip_prefix("/").unwrap().to_str().unwrap().to_owned();
    let list = listing(&bytes);
    let find = |name: &str| {
        list.iter()
            .find(|(path, ..)| *path == format!("{inside}/{name}"))
            .map(|(_, _, content)| content.as_slice())
    };
    assert_eq!(find("lib"), Some(b"usr/lib".as_slice()));
    assert_eq!(find("usr/lib/libx.so.1"), Some(b"libx.so.1.2".as_slice()));
    assert_eq!(find("usr/lib/libx.so.1.2"), Some(b"x".as_slice()));
}

#[test]
fn a_circle_of_links_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    symlink("b", folder.path().join("a")).unwrap();
    symlink("a", folder.path().join("b")).unwrap();
    let error = Archive::new(Vec::new())
        .host_path(&folder.path().join("a"))
        .unwrap_err();
    assert!(
        error.to_string().ends_with("too many symbolic links"),
        "{error}"
    );
}

#[test]
fn a_folder_goes_with_all_that_is_in_it() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("sub")).unwrap();
    fs::write(folder.path().join("sub/file"), "f").unwrap();
    let bytes = build(|archive| archive.host_path_at(folder.path(), Path::new("/data")));
    let names: Vec<_> = listing(&bytes).into_iter().map(|(name, ..)| name).collect();
    assert_eq!(names, ["data", "data/sub", "data/sub/file"]);
}
